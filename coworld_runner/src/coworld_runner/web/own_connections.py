"""This process's own connections to games, so that nobody takes them for those of players."""

from __future__ import annotations

__all__ = ["is_own", "note_own"]

_MOST = 4096
_ports: dict[tuple[int, int], None] = {}


def note_own(local: int, remote: int) -> None:
    """Remember a connection that this process has opened, by its local and its remote port.

    With the local port alone, one of a few thousand that were remembered would soon be a player's.
    """
    _ports[local, remote] = None
    if len(_ports) > _MOST:
        del _ports[next(iter(_ports))]


def is_own(local: int, remote: int) -> bool:
    """Whether a connection that is closed now was this process's own; its ports may then be another's."""
    return _ports.pop((local, remote), 0) is None
