"""The sockets of this machine's processes and their connections, read from the kernel's tables."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import socket
import struct
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TextIO

from ..web.own_connections import is_own

__all__ = ["Connections", "held_sockets", "listening_sockets"]

_LOOKS = 5
"""How often in a row to check whether a new socket becomes a connection."""
_LATER = 25
"""After that it is checked at one look in this many."""
_BLIND_SECONDS = 0.1
"""Seconds between two checks of a network in which new sockets cannot be detected."""


class Connections:
    """Detects processes that have said something to a port with a given number on any host; made for polling.

    A connection on which nothing was sent does not count: whoever opens one has not asked for anything.

    Reading the kernel's connection tables is expensive even when they are short, so this happens mostly for new
    sockets, and once for all processes of a network. Where they are those of this process's own network, the kernel is
    asked instead.

    Args:
        port: The port number.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._looks: dict[int, int] = {}
        """How often each socket, by inode, was seen."""
        self._due = 0.0
        self._own = _network("self")
        self._closed = _closings(port)
        """Reports connections of our own network that are closed; None if the kernel does not."""
        self._counters: dict[str, TextIO] = {}
        """Counters of other networks, which are kept open because they can then be read when all processes are gone."""
        self._known: set[int] = set()
        """Local ports of the connections found in our own network."""
        self._unknown = False
        """Whether there was one that was closed before it was found."""

    def of(self, pids: Iterable[int]) -> set[int]:
        """Return the processes that have such a connection.

        If this process may not see another one's sockets, all connections of the other's network namespace count; such
        a process has a namespace of its own.
        """
        read: dict[str, list[_Socket]] = {}
        found = {pid for pid in pids if self._has(pid, read)}
        self._note_closed()
        return found

    def network_of(self, pid: int) -> str:
        """Return the network of a process, and keep what tells later whether anything was sent in it."""
        network = _network(pid)
        if network not in {self._own, *self._counters}:
            with contextlib.suppress(OSError):
                file = Path(f"/proc/{pid}/net/netstat").open(encoding="ascii")  # noqa: SIM115 - closed by `close`
                self._counters[network] = file
        return network

    def may_have_been_one(self, network: str) -> bool:
        """Whether a process of a network may have had a connection for a time too short to be found by polling."""
        if network == self._own:
            self._note_closed()
            return self._unknown or self._closed is None
        # A connection's end is a packet, too
        return self._packets(network) > 1

    def _packets(self, network: str) -> float:
        """Return how many packets with data were sent on the connections of a network; infinity if unknown."""
        file = self._counters.get(network)
        return math.inf if file is None else _packets(file)

    def close(self) -> None:
        """Stop; from now on every process may have had a connection."""
        for file in (self._closed, *self._counters.values()):
            if file is not None:
                file.close()
        self._closed = None
        self._counters.clear()

    def _note_closed(self) -> None:
        """Note whether a connection was closed that is neither our own nor known."""
        while self._closed is not None and not self._unknown:
            try:
                found = _parsed(self._closed.recv(1 << 16), socket.AF_INET)
            except BlockingIOError:
                return
            except OSError:
                self._unknown = True  # There were too many
                return
            self._unknown = any(
                one.remote_port == self._port
                and one.has_sent
                and one.local_port not in self._known
                and not is_own(one.local_port, one.remote_port)
                for one in found
            )

    def _has(self, pid: int, read: dict[str, list[_Socket]]) -> bool:
        if os.access(f"/proc/{pid}/fd", os.R_OK):
            held = {inode for inode in held_sockets(pid) if self._is_due(inode)}
            if not held:
                return False
        else:
            held = None
            if time.monotonic() < self._due:
                return False
            self._due = time.monotonic() + _BLIND_SECONDS
        network = _network(pid)
        if network not in read:
            read[network] = _connections(pid, network) if self._packets(network) else []
        connected = [
            found.local_port
            for found in read[network]
            if found.state in _CONNECTED
            and found.remote_port == self._port
            and found.has_sent
            and (held is None or found.inode in held)
        ]
        self._known.update(connected)
        return bool(connected)

    def _is_due(self, inode: int) -> bool:
        looks = self._looks[inode] = self._looks.get(inode, 0) + 1
        return looks <= _LOOKS or looks % _LATER == 0


class _Socket(NamedTuple):
    """A TCP socket in the kernel's tables."""

    state: int
    local_port: int
    remote_port: int
    address: bytes
    """Its local address."""
    inode: int
    has_sent: bool = True
    """Whether anything was sent on it; True if unknown."""


def _network(pid: int | str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")  # noqa: PTH115
    except OSError:
        return str(pid)


def _connections(pid: int, network: str) -> list[_Socket]:
    """Return all connections of a process's network, and some of its other sockets."""
    if network == _network("self"):
        with contextlib.suppress(OSError):
            return [found for family in _ADDRESS_BYTES for found in _asked_for(family, *_CONNECTED)]
    return [found for version in ("", "6") for found in _read(f"/proc/{pid}/net", version)]


def _packets(counters: TextIO) -> float:
    try:
        counters.seek(0)
        names, values = [line.split() for line in counters if line.startswith("TcpExt:")]
        return float(dict(zip(names, values, strict=True))["TCPOrigDataSent"])
    except (OSError, ValueError, KeyError):
        return math.inf


def _read(net: str, version: str) -> list[_Socket]:
    """Read one of the kernel's tables; version: `""` or `"6"`."""
    try:
        if f"\nTCP{version}: inuse 0" in "\n" + Path(f"{net}/sockstat{version}").read_text(encoding="ascii"):
            return []
        lines = Path(f"{net}/tcp{version}").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return []
    found: list[_Socket] = []
    for fields in map(str.split, lines):
        address, _, port = fields[1].partition(":")
        remote = int(fields[2].rpartition(":")[2], 16)
        found.append(_Socket(int(fields[3], 16), int(port, 16), remote, _address(address), int(fields[9])))
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
_LISTENING = 10
"""The state of a socket that accepts connections."""
_CONNECTED = (1, 8)
"""The states of one that is connected: both sides are there, or only the other one has closed it."""
_SOCK_DIAG = 4
_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x301
_ERROR, _DONE = 2, 3
_INFO = 2
"""The extension with a connection's counters."""
_HEADER = struct.Struct("=IHHII")
"""A message's length, type, flags, sequence number and port id."""
_QUESTION = struct.Struct("=BBBBIH46x")
"""Family, protocol, extensions, states and port; address, interface and cookie are zero."""
_ANSWER = struct.Struct("=xB2xHH16s44xI")
"""A socket's state, local port, remote port, local address and inode."""
_ATTRIBUTE = struct.Struct("=HH")
"""The length and type of what follows an answer."""
_ACKNOWLEDGED = 120
"""Where in a connection's counters is the number of bytes sent and acknowledged, in eight bytes."""
_ENDS = 2
"""How many of these may be no bytes: a connection's beginning and its end count as one each."""
_CLOSINGS = 1
"""The multicast group of sockets that are closed."""
_ATTACH_FILTER = 26
_REMOTE_PORT_AT = _HEADER.size + 6
"""Where in a message the remote port of its socket is, in two bytes."""
_INSTRUCTION = struct.Struct("=HBBI")
"""An instruction of a packet filter: code, where to go on if true and if false, operand."""


def listening_sockets(port: int) -> set[int]:
    """Return the inodes of sockets that accept connections to a loopback port; empty if the kernel does not tell."""
    try:
        found = {family: _asked_for(family, _LISTENING, port=port) for family in _ADDRESS_BYTES}
    except OSError:
        versions = {socket.AF_INET: "", socket.AF_INET6: "6"}
        found = {
            family: [one for one in _read("/proc/net", version) if one.state == _LISTENING and one.local_port == port]
            for family, version in versions.items()
        }
    for family, address in _ANSWER_ON_LOOPBACK:
        inodes = {one.inode for one in found[family] if one.address == address}
        if inodes:
            return inodes
    return set()


def _closings(port: int) -> socket.socket | None:
    """Return what tells of closed connections to a port of this network; None where nothing does, in a sandbox say."""
    try:
        closed = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _SOCK_DIAG)
    except OSError:
        return None
    try:
        _take_only(closed, port)
        closed.bind((0, _CLOSINGS))
    except OSError:
        # One that is not bound would tell of none, as if there were none
        closed.close()
        return None
    return closed


def _take_only(closed: socket.socket, port: int) -> None:
    """Have the kernel keep back what concerns other remote ports: a few hundred messages between two looks overflow.

    Raises:
        OSError: This system does not support it.
    """
    load_half, equals, give = 0x28, 0x15, 0x06
    program = (load_half, 0, 0, _REMOTE_PORT_AT), (equals, 0, 1, port), (give, 0, 0, 0xFFFFFFFF), (give, 0, 0, 0)
    code = ctypes.create_string_buffer(b"".join(_INSTRUCTION.pack(*each) for each in program))
    closed.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(code)))


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
    question = _QUESTION.pack(family, socket.IPPROTO_TCP, 1 << _INFO - 1, 0, wanted, socket.htons(port))
    head = _HEADER.pack(_HEADER.size + len(question), _DIAG_BY_FAMILY, _REQUEST_DUMP, 0, 0)
    found: list[_Socket] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(1.0)
        kernel.sendto(head + question, (0, 0))
        while True:
            data = kernel.recv(1 << 16)
            found += _parsed(data, family)
            at = 0
            while at < len(data):
                size, kind, *_ = _HEADER.unpack_from(data, at)
                if kind == _DONE:
                    return found
                if kind == _ERROR:
                    raise OSError(-struct.unpack_from("=i", data, at + _HEADER.size)[0], "sockets are not listed")
                at += (size + 3) & ~3


def _parsed(data: bytes, family: int) -> list[_Socket]:
    """Read the sockets of one of the kernel's answers."""
    found: list[_Socket] = []
    at = 0
    while at < len(data):
        size, kind, *_ = _HEADER.unpack_from(data, at)
        if kind == _DIAG_BY_FAMILY:
            state, local, remote, address, inode = _ANSWER.unpack_from(data, at + _HEADER.size)
            sent = _sent(data[at + _HEADER.size + _ANSWER.size : at + size])
            ports = socket.ntohs(local), socket.ntohs(remote)
            found.append(_Socket(state, *ports, address[: _ADDRESS_BYTES[family]], inode, sent))
        at += (size + 3) & ~3
    return found


def _sent(attributes: bytes) -> bool:
    """Whether anything was sent on a connection, from the attributes of the kernel's answer; True if they lack it."""
    while len(attributes) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(attributes)
        counters = attributes[_ATTRIBUTE.size : size]
        if kind == _INFO and len(counters) >= _ACKNOWLEDGED + 8:
            return int.from_bytes(counters[_ACKNOWLEDGED : _ACKNOWLEDGED + 8], sys.byteorder) > _ENDS
        attributes = attributes[max(size + 3 & ~3, _ATTRIBUTE.size) :]
    return True


def _address(text: str) -> bytes:
    """Parse an address of the tables: words of four bytes, each in the machine's byte order."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    return struct.pack(f"={len(words)}I", *words)
