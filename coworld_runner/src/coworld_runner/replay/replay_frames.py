"""The frames of a replay, for views that are not the game's own: of games of the kit, and of any that has `frames`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from coworld_core.errors import EpisodeError
from coworld_core.rules import ReplayFormatError, read_replay

__all__ = ["ReplayFrames", "read_frames"]

_MAX_BYTES = 256 << 20
_MAX_MESSAGES = 20
"""Number of messages between seats that a state has, as spectators got them."""


@dataclass(frozen=True, kw_only=True)
class ReplayFrames:
    """What a replay shows, tick by tick."""

    names: tuple[str, ...]
    frames: Sequence[Mapping[str, Any]]
    """The states, as spectators got them."""
    scores: tuple[float, ...] = ()
    """The scores at the end; empty if the replay does not have them."""


def read_frames(path: Path) -> ReplayFrames:
    """Read the frames of a replay that is not compressed.

    Raises:
        EpisodeError: Code `replay_opaque`: only the game itself can show it.
    """
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    try:
        found = read_replay(data, source=path.name)
    except ReplayFormatError:
        return _own_frames(data)
    ticks: list[dict[str, Any]] = []
    said: list[dict[str, Any]] = []
    for tick in found.ticks:
        said = [*said, *(one.model_dump() for one in tick.said)][-_MAX_MESSAGES:]
        ticks.append({**tick.model_dump(include={"tick", "actions", "to_act", "drawing", "scores"}), "said": said})
    return ReplayFrames(names=tuple(found.header.names), frames=ticks, scores=_scores(found.results))


def _own_frames(data: bytes) -> ReplayFrames:
    try:
        value: Any = json.loads(data) if len(data) <= _MAX_BYTES else None
    except (ValueError, RecursionError):
        value = None
    document = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    frames = document.get("frames")
    if not isinstance(frames, list) or not all(isinstance(frame, dict) for frame in cast("list[Any]", frames)):
        raise EpisodeError(
            "Only the game itself can show this replay: it has no frames that a terminal could.",
            code="replay_opaque",
            hint="Show it in the browser.",
        )
    names = document.get("player_names")
    named = tuple(map(str, cast("list[Any]", names))) if isinstance(names, list) else ()
    shown = cast("list[dict[str, Any]]", frames)
    return ReplayFrames(names=named, frames=shown, scores=_scores(document.get("results")))


def _scores(results: object) -> tuple[float, ...]:
    scores = cast("dict[str, Any]", results).get("scores") if isinstance(results, dict) else None
    listed = cast("list[Any]", scores) if isinstance(scores, list) else []
    return tuple(float(score) for score in listed if isinstance(score, int | float))
