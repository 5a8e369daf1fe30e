"""The sockets of this machine's processes and their connections, read from the kernel's tables."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Connections", "held_sockets", "listening_sockets"]

_LOOKS = 5
"""How often to check whether a new socket becomes a connection."""
_BLIND_SECONDS = 0.1
"""Seconds between two checks of a network in which new sockets cannot be detected."""


class Connections:
    """Detects processes that are connected to a port with a given number on any host; made for polling.

    Reading the kernel's connection tables is expensive even when they are short, so they are read only for new sockets,
    and once for all processes of a network.

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
    """Return inode, state and remote port of all connections in a process's network; version: ``""`` or ``"6"``."""
    try:
        if f"\nTCP{version}: inuse 0" in "\n" + Path(f"/proc/{pid}/net/sockstat{version}").read_text(encoding="ascii"):
            return []
        lines = Path(f"/proc/{pid}/net/tcp{version}").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return []
    split = map(str.split, lines)
    return [(int(fields[9]), fields[3], int(fields[2].rpartition(":")[2], 16)) for fields in split]


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

_ANSWER_ON_LOOPBACK = (
    (socket.AF_INET, bytes((127, 0, 0, 1))),
    (socket.AF_INET6, bytes(10) + bytes((255, 255, 127, 0, 0, 1))),
    (socket.AF_INET, bytes(4)),
    (socket.AF_INET6, bytes(16)),
)
"""The addresses of sockets that answer on 127.0.0.1, the most specific first."""
_LISTEN = 10
_SOCK_DIAG = 4
_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x301
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
"""A message's length, type, flags, sequence number and port id."""
_QUESTION = struct.Struct("=BBBBIH46x")
"""Family, protocol, extensions, states and port; address, interface and cookie are zero."""
_ANSWER = struct.Struct("=8x16s44xI")
"""A socket's local address and its inode."""


def listening_sockets(port: int) -> set[int]:
    """Return the inodes of sockets that accept connections to a loopback port; empty if the kernel does not tell."""
    try:
        found = {family: _asked_for(port, family) for family in (socket.AF_INET, socket.AF_INET6)}
    except OSError:
        found = {socket.AF_INET: _read_of(port, ""), socket.AF_INET6: _read_of(port, "6")}
    for family, address in _ANSWER_ON_LOOPBACK:
        inodes = {inode for bound, inode in found[family] if bound == address}
        if inodes:
            return inodes
    return set()


def _asked_for(port: int, family: int) -> list[tuple[bytes, int]]:
    """Ask the kernel for address and inode of the listeners on a port, without reading all connections.

    Raises:
        OSError: This system does not support the request.
    """
    question = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << _LISTEN, socket.htons(port))
    head = _HEADER.pack(_HEADER.size + len(question), _DIAG_BY_FAMILY, _REQUEST_DUMP, 0, 0)
    length = 4 if family == socket.AF_INET else 16
    found: list[tuple[bytes, int]] = []
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
                address, inode = _ANSWER.unpack_from(data, at + _HEADER.size)
                found.append((address[:length], inode))
                at += (size + 3) & ~3


def _read_of(port: int, version: str) -> list[tuple[bytes, int]]:
    """Find the same listeners in the kernel's tables, which contain all connections."""
    try:
        lines = Path(f"/proc/net/tcp{version}").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return []
    listening = [fields for line in lines if (fields := line.split())[3] == f"{_LISTEN:02X}"]
    here = [(*fields[1].split(":"), int(fields[9])) for fields in listening]
    return [(_address(text), inode) for text, number, inode in here if int(number, 16) == port]


def _address(text: str) -> bytes:
    """Parse an address of the tables: words of four bytes, each in the machine's byte order."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    return struct.pack(f"={len(words)}I", *words)
