"""Plays an episode again of which only the row was kept, so that it has a replay and the rest of its evidence."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio.to_thread

from coworld_core.episode.layout import directory_of
from coworld_core.episode.record import EpisodeRecord, EpisodeRow, read_record, read_rows
from coworld_core.errors import UsageError
from coworld_core.evaluation.designs import parse_key
from coworld_core.evaluation.evaluation_files import PLAYERS_NAME, read_plan
from coworld_core.player_seeds import block_secret

from ..episode.venue import Wanted
from ..kit.rollout.match_worker import Chunk, SeatedGame
from ..package.plan import EpisodePlan, plan_episode
from ..package.resolver import Package, resolve_package
from .worker_rows import Ended, ended_row, game_seed, write_evidence
from .worker_venue import WorkerVenue

__all__ = ["EpisodeAgain", "play_plan_again", "play_row_again"]

_CONFIG = -1
"""Number of the config, which no run uses."""


@dataclass(frozen=True, kw_only=True)
class EpisodeAgain:
    """An episode that has its evidence now."""

    directory: Path
    record: EpisodeRecord
    played: bool
    """Whether it was played again; otherwise it had its evidence."""
    same: bool
    """Whether it ended as before. It does unless a player has chance or memory of its own, or depends on time."""


async def play_row_again(
    directory: str | os.PathLike[str], key: str, *, what: Package | str | os.PathLike[str] | None = None
) -> EpisodeAgain:
    """Play an episode of an evaluation or a tournament again, with its players and its seed, and keep its evidence.

    Args:
        directory: The directory of the evaluation or the tournament.
        key: The episode's key, such as `block-0007.1-2`.
        what: The game; None: where it was when the episode was played.

    Raises:
        UsageError: There is no such episode, or the game or a player is not there any more as it was.
        EnvironmentFault: The machine failed.
    """
    place = Path(directory)
    rows, workspace = _rows_of(place)
    row = next((row for row in rows if row.key == key), None)
    if row is None:
        raise UsageError(
            f"{place} has no episode {key!r}.",
            code="episode_unknown",
            hint="Its episodes.jsonl has the key of each.",
        )
    there = place / row.workspace if row.workspace else workspace / directory_of(key)
    if (there / "episode.json").is_file():
        return EpisodeAgain(directory=there, record=read_record(there), played=False, same=True)
    package, plan = await _plan_of(row, workspace, what)
    plan = replace(plan, player_secret=block_secret(_base_of(place), (parse_key(key) or (0,))[0]))
    seats = [
        SlotImage(name=seat.name, now=seat.image, before=before.image)
        for seat, before in zip(plan.seats, row.slots, strict=True)
    ]
    if changed := [seat for seat in seats if seat.now != seat.before]:
        raise UsageError(
            f"{changed[0].name} has changed: it was {changed[0].before} and is {changed[0].now} now.",
            code="player_changed",
            hint="Restore the old content to play that episode again.",
        )
    async with WorkerVenue(package, workers=1) as venue:
        if reason_against := await venue.reason_against(plan.seats):
            raise UsageError(f"The episode cannot be played again: {reason_against}.", code="not_portable")
        return await play_plan_again(venue, plan, row, there)


async def play_plan_again(venue: WorkerVenue, plan: EpisodePlan, row: EpisodeRow, there: Path) -> EpisodeAgain:
    """Play an episode again, and keep its evidence.

    Args:
        venue: Where to play; it has a worker.
        plan: What to play.
        row: The episode's row.
        there: The directory of its evidence.

    Raises:
        EnvironmentFault: The machine failed.
    """
    players = tuple(number for seat in plan.seats if (number := venue.player(seat)) is not None)
    game = SeatedGame(
        number=1,
        config=_CONFIG,
        seed=game_seed(plan),
        player_secret=plan.player_secret,
        players=players,
        keep=True,
    )
    config: Mapping[str, Any] = plan.config_with_tokens(plan.new_tokens())
    chunk = Chunk(games=(game,), configs={_CONFIG: config}, players=venue.programs)
    play = venue.workers[0].play
    (outcome,) = await anyio.to_thread.run_sync(
        lambda: play(chunk) or play(replace(chunk, alone=True)), abandon_on_cancel=True
    )
    wanted = Wanted(index=row.index, key=row.key, plan=plan)
    ended = Ended(episode=wanted, outcome=outcome, seconds=row.seconds)
    again = ended_row(ended, row.slots, row.run_id, check=True, whole=False, kept=True)
    write_evidence(there, ended, again)
    record = read_record(there)
    same = (again.scores, again.status, again.error_type) == (row.scores, row.status, row.error_type)
    return EpisodeAgain(directory=there, record=record, played=True, same=same)


@dataclass(frozen=True, kw_only=True)
class SlotImage:
    """What plays in a seat, now and before."""

    name: str
    now: str
    before: str


def _rows_of(place: Path) -> tuple[Iterator[EpisodeRow], Path]:
    if (place / "tournament.toml").is_file():
        from .tournament.tournament_folder import EPISODES, read_tournament

        return read_tournament(place).rows(), place / EPISODES
    return read_rows(place), place


def _base_of(place: Path) -> int | bytes:
    """What the seeds of its blocks are derived from."""
    if (place / "tournament.toml").is_file():
        from .tournament.tournament_settings import read_secret, read_settings

        settings = read_settings(place)
        return settings.seed if settings.seed is not None else read_secret(place) or 0
    return read_plan(place).seed


async def _plan_of(
    row: EpisodeRow, workspace: Path, what: Package | str | os.PathLike[str] | None
) -> tuple[Package, EpisodePlan]:
    try:
        noted: dict[str, Any] = json.loads((workspace / PLAYERS_NAME).read_bytes())
        files: dict[str, str] = noted["players"]
        source = what if what is not None else str(noted["manifest"])
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(
            f"{workspace} does not say where its players are: there is no {PLAYERS_NAME}.",
            code="player_unknown",
            hint="Only episodes that were played in worker processes can be played again from their rows.",
        ) from None
    package = await resolve_package(source)
    words = [seat.player_id or files.get(seat.image, "") for seat in row.slots]
    known = {variant.id for variant in package.manifest.variants}
    variant = row.variant if row.variant in known else None
    return package, plan_episode(package, variant=variant, players=words, seed=row.seed, config=row.config_changes)
