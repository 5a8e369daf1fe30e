"""Where programs listen in a network, from the kernel's tables; explains why a unit cannot be reached from outside.

The collector in a pod and the runner both use this module, so it needs only the standard library.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Container

__all__ = ["listens_elsewhere", "open_ports"]

_LISTEN = "0A"
_OF_THE_ENGINE = "127.0.0.11"
"""Address of Docker's DNS server in a container's own network."""
_MOST = 3


def listens_elsewhere(
    port: int, tables: str = "/proc/self/net", *, besides: int = 0, sockets: Container[int] | None = None
) -> str:
    """Describe where programs listen if others cannot reach any on a port.

    Args:
        port: The port that others use.
        tables: The directory of the network's tables.
        besides: A port to ignore.
        sockets: Inodes of the sockets of a program on this machine, which others reach on 127.0.0.1; None: all of a
            network of its own.

    Returns:
        Empty if others can reach a program on the port, if no program listens, or if the tables cannot be read.
    """
    places = sorted(
        {
            (address, number)
            for address, number, inode in _listening(tables)
            if number != besides and address != _OF_THE_ENGINE and (sockets is None or inode in sockets)
        }
    )
    there = [place for place in places if place[1] == port]
    if any(address != "::1" if sockets is not None else not _is_loopback(address) for address, _ in there):
        return ""
    names = [
        f"[{address}]:{number}" if ":" in address else f"{address}:{number}" for address, number in there or places
    ]
    if not names:
        return ""
    return f"it listens on {' and '.join(names[:_MOST])}" + (" only" if there else "")


def open_ports(tables: str = "/proc/self/net") -> list[int]:
    """Ports on which a program listens beyond loopback; empty if the tables cannot be read."""
    return sorted({port for address, port, _ in _listening(tables) if not _is_loopback(address)})


def _is_loopback(address: str) -> bool:
    return address.startswith(("127.", "::ffff:127.")) or address == "::1"


def _listening(tables: str) -> set[tuple[str, int, int]]:
    """Return the address, the port and the inode of each socket on which a program listens."""
    found: set[tuple[str, int, int]] = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        try:
            with open(f"{tables}/{table}", encoding="ascii") as file:  # noqa: PTH123
                lines = file.read().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN:
                address, _, port = fields[1].partition(":")
                # Words of four bytes, each in this machine's byte order
                packed = b"".join(
                    int(address[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(address), 8)
                )
                found.add((socket.inet_ntop(family, packed), int(port, 16), int(fields[9])))
    return found
