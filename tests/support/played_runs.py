"""Runs of games of the kit that were played in a worker process, and what others may do to them."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import EpisodeRow, read_record
from coworld_runner.evaluation.episode_again import play_plan_again
from coworld_runner.evaluation.worker_venue import WorkerVenue
from coworld_runner.package import plan_episode, resolve_package
from coworld_runner.runs.workspace import artifact_records

__all__ = ["Lines", "leave_run", "reseal", "rewrite_replay"]

Lines = list[dict[str, Any]]
"""The lines of a replay: the header, the ticks and the end."""


async def leave_run(game: Path, place: Path, *, seed: int = 3, players: Sequence[str] = ("random",)) -> Path:
    """Play a game, between random players unless others are named, and leave all that a run leaves."""
    package = await resolve_package(str(game))
    plan = plan_episode(package, players=players, seed=seed)
    row = EpisodeRow(index=1, run_id="ab" * 8, workspace=place.name, status="completed", ok=True, seconds=0.1)
    async with WorkerVenue(package, workers=1) as venue:
        assert not await venue.reason_against(plan.seats)
        await play_plan_again(venue, plan, row, place)
    return place


def reseal(place: Path, **changes: Any) -> None:
    """Change fields of a record, and let it say of its files what they are now, as a forger would."""
    layout = EpisodeLayout(place)
    record = read_record(place)
    changed = record.model_copy(update={"artifacts": artifact_records(layout), **changes})
    layout.record.write_bytes(changed.to_document())


def rewrite_replay(place: Path, change: Callable[[Lines], object]) -> None:
    """Change the lines of a replay."""
    path = EpisodeLayout(place).replay
    lines: Lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    change(lines)
    path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))


def sha256(path: Path) -> str:
    """The digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
