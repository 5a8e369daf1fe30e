"""Plays episodes again of which only the row was kept: for their evidence, or to see whether they end as before."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
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

__all__ = ["EpisodeAgain", "RowsAgain", "open_rows_again", "play_plan_again", "play_row_again", "rows_of"]

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
    rows, workspace = rows_of(place)
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
    async with open_rows_again(place, what=what) as again:
        return await play_plan_again(again.venue, await again.plan(row), row, there)


@dataclass(frozen=True, kw_only=True)
class RowsAgain:
    """The players of an evaluation or a tournament, to play episodes again of which only the row was kept."""

    package: Package
    venue: WorkerVenue
    files: Mapping[str, str]
    """Where the files of players are, by image."""
    base: int | bytes
    """What the seeds of its blocks are derived from."""

    async def plan(self, row: EpisodeRow) -> EpisodePlan:
        """Plan an episode as it was planned.

        Raises:
            UsageError: A player is not there any more as it was (`player_changed`), or cannot play here
                (`not_portable`).
        """
        words = [seat.player_id or self.files.get(seat.image, "") for seat in row.slots]
        known = {variant.id for variant in self.package.manifest.variants}
        variant = row.variant if row.variant in known else None
        plan = plan_episode(self.package, variant=variant, players=words, seed=row.seed, config=row.config_changes)
        plan = replace(plan, player_secret=block_secret(self.base, (parse_key(row.key) or (0,))[0]))
        for seat, before in zip(plan.seats, row.slots, strict=True):
            if seat.image != before.image:
                raise UsageError(
                    f"{seat.name} has changed: it was {before.image} and is {seat.image} now.",
                    code="player_changed",
                    hint="Restore the old content to play that episode again.",
                )
        if reason_against := await self.venue.reason_against(plan.seats):
            raise UsageError(f"The episode cannot be played again: {reason_against}.", code="not_portable")
        return plan

    async def play(self, row: EpisodeRow) -> EpisodeRow:
        """Play an episode again, and return its row; nothing is written.

        Raises:
            UsageError: As for `plan`.
            EnvironmentFault: The machine failed.
        """
        return (await _ended_again(self.venue, await self.plan(row), row))[1]


@asynccontextmanager
async def open_rows_again(
    directory: Path, *, what: Package | str | os.PathLike[str] | None = None
) -> AsyncGenerator[RowsAgain]:
    """Find the game and the players of an evaluation or a tournament; the arguments are those of `play_row_again`.

    Raises:
        UsageError: It does not say where they are (`player_unknown`), or the game is not there any more.
        EnvironmentFault: The machine failed.
    """
    _, workspace = rows_of(directory)
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
    package = source if isinstance(source, Package) else await resolve_package(source)
    async with WorkerVenue(package, workers=1) as venue:
        yield RowsAgain(package=package, venue=venue, files=files, base=_base_of(directory))


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
    ended, again = await _ended_again(venue, plan, row)
    write_evidence(there, ended, again)
    record = read_record(there)
    same = (again.scores, again.status, again.error_type) == (row.scores, row.status, row.error_type)
    return EpisodeAgain(directory=there, record=record, played=True, same=same)


async def _ended_again(venue: WorkerVenue, plan: EpisodePlan, row: EpisodeRow) -> tuple[Ended, EpisodeRow]:
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
    return ended, ended_row(ended, row.slots, row.run_id, check=True, whole=row.results is not None, kept=True)


def rows_of(place: Path) -> tuple[Iterator[EpisodeRow], Path]:
    """Return the rows of an evaluation or a tournament, and the directory of its evidence.

    Raises:
        UsageError: There are none.
    """
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
