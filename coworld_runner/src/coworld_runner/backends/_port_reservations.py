"""Reserves ports for local units, and checks that it is the unit that listens on them."""

from __future__ import annotations

import contextlib
import random
import socket
import sys
from collections.abc import Iterable
from pathlib import Path

from coworld_core.errors import StartError

from ._kernel_connections import held_sockets, listening_sockets

__all__ = ["LOCALHOST", "Reservation", "choose_port", "port_taken", "stranger_on", "take_port"]

LOCALHOST = "127.0.0.1"


class Reservation:
    """A port that no other run on this machine takes while this object is open.

    On Linux the reservation is an abstract socket address: it belongs to the same network namespace as the port itself,
    vanishes with the process that holds it, and leaves no file. Elsewhere only runs in this process are kept apart.
    """

    _ours: set[int] = set()  # noqa: RUF012

    def __init__(self, number: int) -> None:
        self.number = number
        self._socket: socket.socket | None = None
        if number in self._ours:
            raise OSError(f"port {number} is reserved")
        if sys.platform == "linux":
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                self._socket.bind(f"\0coworld-port-{number}")
            except OSError:
                self._socket.close()
                raise
        self._ours.add(number)

    @classmethod
    def held(cls) -> tuple[int, ...]:
        """The ports that this process has reserved."""
        return tuple(sorted(cls._ours))

    def close(self) -> None:
        """Release the port."""
        self._ours.discard(self.number)
        if self._socket is not None:
            self._socket.close()


def _bindable(number: int) -> OSError | None:
    """Why the port cannot be listened on, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: ignore connections that linger after their listener
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOCALHOST, number))
            probe.listen(1)
        except OSError as error:
            return error
    return None


def _candidates() -> range:
    """Ports to choose from, without those that the kernel gives to outgoing connections."""
    low, high = 20000, 32768
    try:
        first, _ = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    except (OSError, ValueError):
        first = high
    return range(low, min(high, first)) if first >= low + 1000 else range(low, high)


def choose_port() -> Reservation:
    """Reserve a free port.

    Raises:
        StartError: No port is free.
    """
    candidates = _candidates()
    # Try random ports first, then all in order
    for number in (*random.sample(candidates, 100), *candidates):
        try:
            reservation = Reservation(number)
        except OSError:
            continue
        if _bindable(number) is None:
            return reservation
        reservation.close()
    raise StartError(
        f"No port between {candidates.start} and {candidates.stop - 1} is free on {LOCALHOST}.",
        code="no_free_port",
        hint="End programs that listen on many ports, or runs that are no longer needed.",
    )


def take_port(number: int, unit: str, name: str) -> Reservation:
    """Reserve a given port.

    Args:
        number: The port.
        unit: The unit that needs it, for the message.
        name: The unit's name for the port.

    Raises:
        StartError: The port is in use, or the caller may not listen on it.
    """
    context = {"unit": unit, "port": number}
    try:
        reservation = Reservation(number)
    except OSError:
        raise StartError(
            f"Port {number}, which {unit} needs for {name!r}, is in use by another run of coworld.",
            code="port_taken",
            hint="Let that run end first, or run this one on the docker backend, where each game has its own ports.",
            context=context,
        ) from None
    error = _bindable(number)
    if error is None:
        return reservation
    reservation.close()
    if isinstance(error, PermissionError):
        raise StartError(
            f"Port {number}, which {unit} needs for {name!r}, may not be used by you: {error.strerror}.",
            code="port_forbidden",
            hint="Ports below 1024 need a privilege; choose a higher one, or the docker backend.",
            context=context,
        ) from error
    owner = owner_of(number)
    raise StartError(
        f"Port {number}, which {unit} needs for {name!r}, is in use" + (f" by {owner}." if owner else "."),
        code="port_taken",
        hint="Stop that program, or run this on the docker backend, where each game has its own ports.",
        context=context,
    ) from error


def owner_of(number: int) -> str:
    """Describe the process that listens on a port; empty if this user may not see it."""
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections(kind="tcp"):
            local = connection.laddr
            if connection.status == psutil.CONN_LISTEN and local and local.port == number and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    return ""


def port_taken(unit: str, port: str, number: int) -> StartError:
    """Build the error for a unit that should publish a port under a number already in use."""
    owner = owner_of(number)
    return StartError(
        f"Port {number} on {LOCALHOST}, which {unit} is to publish for {port!r}, is in use"
        + (f" by {owner}." if owner else "."),
        code="port_taken",
        hint="Stop that program, or let a free port be chosen.",
        context={"unit": unit, "port": number},
    )


def stranger_on(number: int, ours: Iterable[int]) -> str:
    """Describe the program that answers on a loopback port; empty if it is one of ours.

    Args:
        number: The port.
        ours: Pids of our own processes.
    """
    if sys.platform != "linux":
        return _stranger_elsewhere(number, ours)
    listening = listening_sockets(number)
    if not listening:
        # The listener is gone, or the kernel does not say: no stranger to report
        return ""
    for pid in ours:
        listening -= held_sockets(pid)
        if not listening:
            return ""
    return owner_of(number) or "a program of another user"


def _stranger_elsewhere(number: int, ours: Iterable[int]) -> str:
    import psutil

    for pid in ours:
        with contextlib.suppress(psutil.Error):
            if any(c.laddr and c.laddr.port == number for c in psutil.Process(pid).net_connections(kind="tcp")):
                return ""
    return owner_of(number) or "a program of another user"
