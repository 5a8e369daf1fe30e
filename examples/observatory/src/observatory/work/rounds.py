"""Rounds that a league plays by itself, one after another, for as long as a server runs."""

from __future__ import annotations

import datetime as dt
import itertools
import logging
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.errors import CoworldError, ManifestError
from coworld_core.manifest.gameconfig import game_config_for, slot_count
from coworld_core.manifest.loading import load_manifest

from ..operating.closing import open_versions
from ..services import Services
from ..store.columns import now
from ..store.database import Database
from ..store.models import (
    Coworld,
    Division,
    EpisodeRequest,
    EpisodeScore,
    League,
    Membership,
    Policy,
    PolicyVersion,
    Round,
    RoundResult,
)
from .ordering import Order, add_episodes
from .scheduling import Candidate, episode_configs, plan_config

__all__ = ["CONTINUOUS", "MOST_EPISODES", "advance", "lifespan", "lineups"]

CONTINUOUS = "continuous"
"""``League.commissioner_key`` of a league that plays on: its champions meet in one round after another."""

MOST_EPISODES = 12
"""Most episodes of a round; more champions than that lets meet are drawn from."""

_LOOK_SECONDS = 1.0
_log = logging.getLogger("observatory.work.rounds")


@asynccontextmanager
async def lifespan(services: Services) -> AsyncGenerator[None]:
    """Have leagues play on while the server runs."""
    async with anyio.create_task_group() as group:
        group.start_soon(_play_on, services)
        yield
        group.cancel_scope.cancel()


async def _play_on(services: Services) -> None:
    said: dict[str, str] = {}
    while True:
        try:
            for division in await _divisions(services.database):
                try:
                    await advance(services.database, division)
                    said.pop(division, None)
                except CoworldError as error:
                    if said.get(division) != error.message:
                        _log.warning("Division %s plays no round: %s", division, error.message)
                    said[division] = error.message
        except (SQLAlchemyError, OSError) as error:
            _log.warning("Rounds cannot be looked after: %s", error)
        await anyio.sleep(_LOOK_SECONDS)


async def _divisions(database: Database) -> Sequence[str]:
    async with database.reading() as session:
        found = await session.scalars(
            sa.select(Division.id)
            .join(League, League.id == Division.league_id)
            .where(League.commissioner_key == CONTINUOUS, League.disabled_at.is_(None), Division.archived_at.is_(None))
        )
        return found.all()


async def advance(database: Database, division_id: str) -> str | None:
    """Close a division's round once all its episodes are over, and begin the next when it is time.

    Returns:
        The id of a round that was begun.

    Raises:
        ManifestError: The league's config does not fit its game.
        UsageError: The league's variant is gone.
    """
    async with database.reading() as session:
        if not await _is_due(session, division_id):
            return None
    async with database.writing() as session:
        # asked again: another server may have been quicker
        division = await session.get_one(Division, division_id, with_for_update={"of": Division})
        if not await _is_due(session, division_id):
            return None
        last = await _last(session, division_id)
        if last is not None and last.status == "running":
            await _close(session, last)
        if last is not None and now() < last.created_at + _every(division.league):
            return None
        return await _begin(session, division, (last.round_number if last is not None else 0) + 1)


async def _last(session: AsyncSession, division_id: str) -> Round | None:
    return await session.scalar(
        sa.select(Round).where(Round.division_id == division_id).order_by(Round.round_number.desc()).limit(1)
    )


async def _is_due(session: AsyncSession, division_id: str) -> bool:
    """Whether there is something to do: a round to close, or one to begin."""
    last = await _last(session, division_id)
    if last is None:
        return await _count(session, division_id) > 1
    if last.status == "running":
        left = sa.select(EpisodeRequest.id).where(
            EpisodeRequest.round_id == last.id, EpisodeRequest.status.in_(("pending", "running"))
        )
        return await session.scalar(left.limit(1)) is None
    return now() >= last.created_at + _every(last.division.league) and await _count(session, division_id) > 1


async def _count(session: AsyncSession, division_id: str) -> int:
    champions = _champions(division_id).with_only_columns(sa.func.count(Membership.id)).order_by(None)
    return await session.scalar(champions) or 0


def _every(league: League) -> dt.timedelta:
    return dt.timedelta(seconds=float((league.commissioner_config or {}).get("every_seconds", 60)))


def _champions(division_id: str) -> sa.Select[Any]:
    return (
        sa.select(Membership)
        .join(PolicyVersion, PolicyVersion.id == Membership.policy_version_id)
        .join(Policy, Policy.id == PolicyVersion.policy_id)
        .where(
            Membership.division_id == division_id,
            Membership.end_time.is_(None),
            Membership.status == "competing",
            Membership.is_champion,
            open_versions(),
        )
        .order_by(Membership.created_at, Membership.id)
    )


async def _begin(session: AsyncSession, division: Division, number: int) -> str | None:
    """Write a round and its episodes down, which whoever plays episodes finds in the queue."""
    league = division.league
    coworld = await session.get(Coworld, league.game.coworld_id)
    members = (await session.scalars(_champions(division.id))).unique().all()
    if coworld is None or len(members) < 2:
        return None
    manifest = load_manifest(dict(coworld.manifest), template=True).manifest
    variant = league.variant_id or manifest.variants[0].id
    seats = slot_count(manifest, game_config_for(manifest, variant))
    drawn = lineups([Candidate.of(row.policy_version, row.player) for row in members], seats=seats, number=number)
    names = [[candidate.label for candidate in lineup] for lineup in drawn]
    try:
        # no two rounds with the same chance, where the game takes a seed
        first = {"seed": number * MOST_EPISODES}
        config = plan_config(manifest, variant, first, seats=seats)
        configs = episode_configs(manifest, config, names, seed_pinned=False)
    except ManifestError:
        config = plan_config(manifest, variant, {}, seats=seats)
        configs = episode_configs(manifest, config, names, seed_pinned=False)
    moment = now()
    row = Round(
        round_number=number,
        commissioner_key=CONTINUOUS,
        execution_backend="any",
        round_config={"variant_id": variant, "episodes": len(drawn)},
        status="running",
        division_id=division.id,
        started_at=moment,
        created_at=moment,
    )
    session.add(row)
    await session.flush()
    order = Order(
        source="round",
        # a league is nobody's: its episodes take the turns of whoever brought the game
        user_id=coworld.user_id,
        coworld_id=coworld.id,
        variant_id=variant,
        league_id=league.id,
        division_id=division.id,
    )
    await add_episodes(session, order, drawn, configs, round_id=row.id)
    return row.id


def lineups(candidates: Sequence[Candidate], *, seats: int, number: int) -> list[tuple[Candidate, ...]]:
    """Who meets whom in a round: every lineup that there is, or as many as a round has, drawn anew each time.

    Where there are fewer candidates than seats, some sit twice. Who sits where changes from round to round.

    Args:
        candidates: Those who compete, at least one.
        seats: How many a game has.
        number: The round's, from 1; the same gives the same.
    """
    dice = random.Random(number)
    if len(candidates) < seats:
        found = [tuple(itertools.islice(itertools.cycle(candidates), seats))]
    elif len(candidates) <= MOST_EPISODES:
        found = list(itertools.islice(itertools.combinations(candidates, seats), 5000))
        found = dice.sample(found, min(MOST_EPISODES, len(found)))
    else:
        found = [tuple(dice.sample(candidates, seats)) for _ in range(MOST_EPISODES)]
    turned = [(number + index) % seats for index in range(len(found))]
    return [lineup[turn:] + lineup[:turn] for lineup, turn in zip(found, turned, strict=True)]


async def _close(session: AsyncSession, row: Round) -> None:
    """Write down how a round ended: the mean score of each policy version over its seats."""
    mean = sa.func.avg(EpisodeScore.score)
    scores = await session.execute(
        sa.select(EpisodeScore.policy_version_id, EpisodeScore.player_id, mean)
        .join(EpisodeRequest, EpisodeRequest.id == EpisodeScore.episode_request_id)
        .where(EpisodeRequest.round_id == row.id)
        .group_by(EpisodeScore.policy_version_id, EpisodeScore.player_id)
        .order_by(mean.desc(), EpisodeScore.policy_version_id)
    )
    results: list[RoundResult] = []
    for place, (version, player, score) in enumerate(scores, start=1):
        rank = results[-1].rank if results and results[-1].score == score else place
        results.append(
            RoundResult(round_id=row.id, policy_version_id=version, player_id=player, rank=rank, score=float(score))
        )
    session.add_all(results)
    row.status, row.completed_at = ("completed" if results else "failed"), now()
    row.error = None if results else "None of its episodes was completed."
    await session.flush()
