"""Plays an episode of any game again with seats that send what was recorded, on the backend where it was played."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import anyio.to_thread

from coworld_core.documents.canonical_json import json_digest
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import EpisodeRecord
from coworld_core.errors import CoworldError, EnvironmentFault, UsageError
from coworld_core.manifest.models import Runnable
from coworld_core.records.frame_places import FRAMES_DELAY_ENV
from coworld_core.records.samples import iter_frames, recording_end
from coworld_core.rules.plain_values import to_json

from ..backend import Backend
from ..episode.episode_options import EpisodeOptions
from ..episode.model_access import ModelAccess
from ..episode.run_context import entered_backend
from ..episode.single import run_episode
from ..package.resolver import Package
from ..runs.scratch import open_scratch
from .recorded_game import plan_of_record

__all__ = ["DELAY", "SeatedAgain", "play_seats_again", "same_parts"]

DELAY: Final = 0.03
"""The most seconds by which seats send something later, to see whether what comes out depends on that."""


@dataclass(frozen=True, kw_only=True)
class SeatedAgain:
    """What came of it.

    Attributes:
        results: Its results; None: it was not played to its end.
        replay_sha256: The digest of its replay, in hex; empty: it left none.
        told: The digest of what its seats were told; empty: it was not recorded whole.
        problem: Why it was not played to its end.
    """

    results: Mapping[str, Any] | None = field(default=None, repr=False)
    replay_sha256: str = ""
    told: str = ""
    problem: str = ""


def digest_of_told(frames: Path) -> str:
    """A digest of what seats were told, in order, whatever the time; empty if there are no frames, or not all."""
    digests: dict[int, Any] = {}
    try:
        end = recording_end(frames)
        for frame in iter_frames(frames):
            if frame.direction == "to_player":
                told = frame.data if frame.text is None else frame.text.encode("utf-8", "surrogatepass")
                if told is None:
                    return ""
                seat = digests.setdefault(frame.seat, hashlib.sha256())
                seat.update(len(told).to_bytes(8) + told)
    except UsageError:
        return ""
    if end is None or not end.complete:
        return ""
    return json_digest({str(seat): digest.hexdigest() for seat, digest in digests.items()})


def same_parts(record: EpisodeRecord, place: Path, again: SeatedAgain) -> list[str]:
    """What of an episode is the same: `results`, `replay`, and `frames`, which is what its seats were told."""
    replays = [file.sha256 for file in record.artifacts if file.path == EpisodeLayout.replay_name]
    same = {
        "results": again.results is not None and to_json(again.results) == to_json(record.results),
        "replay": again.replay_sha256 != "" and replays == [again.replay_sha256],
        "frames": again.told != "" and again.told == digest_of_told(EpisodeLayout(place).frames),
    }
    return [name for name, held in same.items() if held]


async def play_seats_again(
    package: Package,
    record: EpisodeRecord,
    place: Path,
    *,
    backend: Backend | str | None = None,
    delay: float = 0.0,
) -> SeatedAgain:
    """Play an episode again with seats that send the frames that were recorded.

    Args:
        package: The game, which is executed.
        record: The episode's record.
        place: Its directory, with its frames.
        backend: Where to play; None: on the backend that the record names.
        delay: The most seconds by which each message is sent later.

    Raises:
        EnvironmentFault: The machine or the engine failed.
    """
    words = [f"recording:{place}@{seat.slot}" for seat in record.slots]
    async with open_scratch() as scratch, entered_backend(backend or record.backend, package) as entered:
        there = scratch.path / "again"
        try:
            plan = plan_of_record(package, record, words)
            seats = tuple(replace(seat, runnable=_delayed(seat.runnable, delay)) for seat in plan.seats)
            plan = replace(plan, seats=seats)
            # A game may have asked models, too
            models = ModelAccess(replay=place) if record.game is not None and record.game.model_use else None
            options = EpisodeOptions(record="frames", models=models)
            again = await run_episode(plan, backend=entered, workspace=there, options=options)
        except EnvironmentFault:
            raise
        except CoworldError as error:
            return SeatedAgain(problem=error.message.rstrip("."))
        if again.status != "completed":
            fault = again.fault
            return SeatedAgain(problem=(fault.message if fault is not None else "it did not complete").rstrip("."))
        replays = [file.sha256 for file in again.artifacts if file.path == EpisodeLayout.replay_name]
        told = await anyio.to_thread.run_sync(digest_of_told, EpisodeLayout(there).frames)
        return SeatedAgain(results=again.results, replay_sha256=replays[0] if replays else "", told=told)


def _delayed(runnable: Runnable | None, most: float) -> Runnable | None:
    if runnable is None or not most:
        return runnable
    return runnable.model_copy(update={"env": {**runnable.env, FRAMES_DELAY_ENV: str(most)}})
