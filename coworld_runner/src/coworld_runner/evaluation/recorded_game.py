"""Whether the game that a record names may be executed because of the record."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from coworld_core.episode.record import EpisodeRecord
from coworld_core.errors import UsageError

from ..package.locations import read_location

__all__ = ["reason_not_to_play"]


def reason_not_to_play(record: EpisodeRecord, workspace: Path) -> tuple[str, str] | None:
    """Code and words why the game that a record names is not executed, unless it is named; None if it may be.

    Nothing that comes with a run is executed: whoever sent it could have written it.
    """
    try:
        path = read_location(record.manifest, what="manifest").path
    except UsageError:
        path = None
    if path is None or not Path(record.manifest).is_absolute():
        return "game_unknown", "its record names no game on this machine; name the game"
    if _resolved(path).is_relative_to(workspace.resolve()):
        return "game_brought", "its game lies in its own directory; name the game to have it executed"
    return None


@lru_cache(64)
def _resolved(path: Path) -> Path:
    return path.resolve()
