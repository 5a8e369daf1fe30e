"""The sockets of this machine's processes and their connections, read from the kernel's tables."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

__all__ = ["Connections", "held_sockets", "listening_sockets"]

_LOOKS = 5
"""How often to check whether a new socket becomes a connection."""
_BLIND_SECONDS = 0.1
"""Seconds between two checks of a network in which new sockets cannot be detected."""


class Connections:
    """Detects processes that are connected to a port with a given number on any host; made for polling.

    Reading the kernel's connection tables is expensive even when they are short, so this happens only for new sockets,
    and once for all processes of a network. Where they are those of this process's own network, the kernel is asked
    instead.

    Args:
        port: The port number.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._passed_over: dict[int, int] = {}
        """How often each socket, by inode, was neither connected nor connecting."""
        self._due = 0.0

    def of(self, pids: Iterable[int]) -> set[int]:
        """Return the processes that have such a connection.

        If this process may not see another one's sockets, all connections of the other's network namespace count; such
        a process has a namespace of its own.
        """
        read: dict[str, list[_Socket]] = {}
        return {pid for pid in pids if self._has(pid, read)}

    def _has(self, pid: int, read: dict[str, list[_Socket]]) -> bool:
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
            read[network] = _connections(pid, network)
        waiting: set[int] = set()
        for found in read[network]:
            if held is None or found.inode in held:
                if found.state == _ESTABLISHED and found.remote_port == self._port:
                    return True
                if found.state == _CONNECTING:
                    waiting.add(found.inode)
        for inode in (held or set()) - waiting:
            self._passed_over[inode] = self._passed_over.get(inode, 0) + 1
        return False


class _Socket(NamedTuple):
    """A TCP socket in the kernel's tables."""

    state: int
    remote_port: int
    address: bytes
    """Its local address."""
    inode: int


def _network(pid: int | str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")  # noqa: PTH115
    except OSError:
        return str(pid)


def _connections(pid: int, network: str) -> list[_Socket]:
    """Return all connections of a process's network, and some of its other sockets."""
    if network == _network("self"):
        with contextlib.suppress(OSError):
            states = (_ESTABLISHED, _CONNECTING)
            return [found for family in _ADDRESS_BYTES for found in _asked_for(family, *states)]
    return [found for version in ("", "6") for _, found in _read(f"/proc/{pid}/net", version)]


def _read(net: str, version: str) -> list[tuple[int, _Socket]]:
    """Read one of the kernel's tables; version: `""` or `"6"`. Returns each socket with its local port."""
    try:
        if f"\nTCP{version}: inuse 0" in "\n" + Path(f"{net}/sockstat{version}").read_text(encoding="ascii"):
            return []
        lines = Path(f"{net}/tcp{version}").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return []
    found: list[tuple[int, _Socket]] = []
    for fields in map(str.split, lines):
        address, _, port = fields[1].partition(":")
        remote = int(fields[2].rpartition(":")[2], 16)
        found.append((int(port, 16), _Socket(int(fields[3], 16), remote, _address(address), int(fields[9]))))
    return found


def held_sockets(pid: int) -> set[int]:
    """Return the inodes of the sockets that a process has open."""
    inodes: set[int] = set()
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - no path objects in a hot place
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH115
                if target.startswith("socket:["):
                    inodes.add(int(target[8:-1]))
    return inodes


# --- listeners

_ADDRESS_BYTES: dict[int, int] = {socket.AF_INET: 4, socket.AF_INET6: 16}
_ANSWER_ON_LOOPBACK = (
    (socket.AF_INET, bytes((127, 0, 0, 1))),
    (socket.AF_INET6, bytes(10) + bytes((255, 255, 127, 0, 0, 1))),
    (socket.AF_INET, bytes(4)),
    (socket.AF_INET6, bytes(16)),
)
"""The addresses of sockets that answer on 127.0.0.1, the most specific first."""
_ESTABLISHED, _CONNECTING, _LISTENING = 1, 2, 10
"""States of a socket."""
_SOCK_DIAG = 4
_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x301
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
"""A message's length, type, flags, sequence number and port id."""
_QUESTION = struct.Struct("=BBBBIH46x")
"""Family, protocol, extensions, states and port; address, interface and cookie are zero."""
_ANSWER = struct.Struct("=xB4xH16s44xI")
"""A socket's state, remote port, local address and inode."""


def listening_sockets(port: int) -> set[int]:
    """Return the inodes of sockets that accept connections to a loopback port; empty if the kernel does not tell."""
    try:
        found = {family: _asked_for(family, _LISTENING, port=port) for family in _ADDRESS_BYTES}
    except OSError:
        versions = {socket.AF_INET: "", socket.AF_INET6: "6"}
        found = {
            family: [one for number, one in _read("/proc/net", version) if one.state == _LISTENING and number == port]
            for family, version in versions.items()
        }
    for family, address in _ANSWER_ON_LOOPBACK:
        inodes = {one.inode for one in found[family] if one.address == address}
        if inodes:
            return inodes
    return set()


def _asked_for(family: int, *states: int, port: int = 0) -> list[_Socket]:
    """Ask the kernel for this network's sockets, which takes a twentieth of the time of reading its tables.

    Args:
        family: The address family.
        states: Their states.
        port: Their local port; 0: any.

    Raises:
        OSError: This system does not support the request.
    """
    wanted = sum(1 << state for state in states)
    question = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0, wanted, socket.htons(port))
    head = _HEADER.pack(_HEADER.size + len(question), _DIAG_BY_FAMILY, _REQUEST_DUMP, 0, 0)
    found: list[_Socket] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(1.0)
        kernel.sendto(head + question, (0, 0))
        while True:
            data, at = kernel.recv(1 << 16), 0
            while at < len(data):
                size, kind, *_ = _HEADER.unpack_from(data, at)
                if kind == _DONE:
                    return found
                if kind == _ERROR:
                    raise OSError(-struct.unpack_from("=i", data, at + _HEADER.size)[0], "sockets are not listed")
                state, remote, address, inode = _ANSWER.unpack_from(data, at + _HEADER.size)
                found.append(_Socket(state, socket.ntohs(remote), address[: _ADDRESS_BYTES[family]], inode))
                at += (size + 3) & ~3


def _address(text: str) -> bytes:
    """Parse an address of the tables: words of four bytes, each in the machine's byte order."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    return struct.pack(f"={len(words)}I", *words)
