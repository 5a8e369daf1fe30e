"""This process's own connections to games, so that nobody takes them for those of players."""

from __future__ import annotations

__all__ = ["is_own", "note_own"]

_MOST = 4096
_ports: dict[int, None] = {}


def note_own(port: int) -> None:
    """Remember the local port of a connection that this process has opened."""
    _ports[port] = None
    if len(_ports) > _MOST:
        del _ports[next(iter(_ports))]


def is_own(port: int) -> bool:
    """Whether a connection that is closed now was this process's own; its port may then be another's."""
    return _ports.pop(port, 0) is None
