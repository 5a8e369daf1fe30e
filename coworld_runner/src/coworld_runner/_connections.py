"""Sockets that processes of this machine hold, and who is connected to whom, as the kernel's tables tell."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Connections", "held_sockets"]

_LOOKS = 5
"""How often to look whether a socket, which was just made, becomes a connection."""
_BLIND_SECONDS = 0.1
"""Between two looks at a network where it cannot be seen whether there are new sockets."""


class Connections:
    """Who is connected to a port of some number, wherever: to be asked again and again.

    The kernel's tables of connections are dear to read, however short they are, so they are read only for sockets that
    are new, and once for all processes of a network.

    Args:
        port: The number.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._passed_over: dict[int, int] = {}
        """How often a socket was no connection, and none in the making."""
        self._due = 0.0

    def of(self, pids: Iterable[int]) -> set[int]:
        """Which of these processes have such a connection.

        Where a process's sockets are not ours to see, all those of its network count, which is then one of its own.
        """
        read: dict[str, list[tuple[int, str, int]]] = {}
        return {pid for pid in pids if self._has(pid, read)}

    def _has(self, pid: int, read: dict[str, list[tuple[int, str, int]]]) -> bool:
        if os.access(f"/proc/{pid}/fd", os.R_OK):
            held = {inode for inode in held_sockets(pid) if self._passed_over.get(inode, 0) < _LOOKS}
            if not held:
                return False
        else:
            held = None
            if time.monotonic() < self._due:
                return False
            self._due = time.monotonic() + _BLIND_SECONDS
        network = _network(pid)
        if network not in read:
            read[network] = [*_connections(pid, ""), *_connections(pid, "6")]
        waiting: set[int] = set()
        for inode, state, port in read[network]:
            if held is None or inode in held:
                if state == "01" and port == self._port:
                    return True
                if state == "02":
                    waiting.add(inode)
        for inode in (held or set()) - waiting:
            self._passed_over[inode] = self._passed_over.get(inode, 0) + 1
        return False


def _network(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")  # noqa: PTH115
    except OSError:
        return str(pid)


def _connections(pid: int, version: str) -> list[tuple[int, str, int]]:
    """Inode, state and port of the other end of every connection in a process's network; version: ``""`` or ``"6"``."""
    try:
        if f"\nTCP{version}: inuse 0" in "\n" + Path(f"/proc/{pid}/net/sockstat{version}").read_text(encoding="ascii"):
            return []
        lines = Path(f"/proc/{pid}/net/tcp{version}").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return []
    split = map(str.split, lines)
    return [(int(fields[9]), fields[3], int(fields[2].rpartition(":")[2], 16)) for fields in split]


def held_sockets(pid: int) -> set[int]:
    """Inodes of the sockets a process has open."""
    inodes: set[int] = set()
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - no path objects in a hot place
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH115
                if target.startswith("socket:["):
                    inodes.add(int(target[8:-1]))
    return inodes
