"""Rounds that a league plays by itself, one after another, while a server runs.

A pairing decides who meets, as in a tournament in a folder (`work.season_standings`).
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.tournament import PlayedRound, TournamentRules, TournamentState
from coworld_runner.evaluation.tournament import find_pairing

from ..services import Services
from ..store.columns import now
from ..store.database import Database
from ..store.disabled import disabled_versions
from ..store.models import (
    Coworld,
    Division,
    EpisodeRequest,
    EpisodeScore,
    League,
    Membership,
    Round,
    RoundResult,
)
from ..supervisor import Supervisor
from .cancellation import cancel_disabled
from .finished_episodes import finished_episodes
from .game_setup import GameSetup, setup_of
from .league_members import champions, check_newcomers, judge_members
from .league_seeds import open_seeds
from .league_settings import LeagueSettings
from .lineups import Candidate
from .new_episodes import add_round, add_round_episodes
from .season_standings import SeasonStandings, compute_standings, played_round, season_rules, stored_state
from .seasons import CONTINUOUS, close_season, keep_report

__all__ = ["advance", "lifespan"]

_LOOK_SECONDS = 1.0
_log = logging.getLogger("observatory.work.rounds")


@asynccontextmanager
async def lifespan(services: Services) -> AsyncGenerator[None]:
    """Keep leagues playing while the server runs."""
    async with anyio.create_task_group() as group:
        group.start_soon(_play_on, services)
        yield
        group.cancel_scope.cancel()


async def _play_on(services: Services) -> None:
    database, supervisor = services.database, Supervisor(_log, repeats=False)

    async def look() -> None:
        with supervisor.trying("Disabled accounts cannot be checked"):
            await cancel_disabled(database)
        with supervisor.trying("New submissions cannot be checked"):
            await check_newcomers(database)
        for division in await _divisions(database):
            with supervisor.trying(f"Division {division} cannot play a round"):
                await advance(database, division)

    await supervisor.repeat(look, "Rounds cannot be checked", seconds=_LOOK_SECONDS)


async def _divisions(database: Database) -> Sequence[str]:
    async with database.reading() as session:
        found = await session.scalars(
            sa.select(Division.id)
            .join(League, League.id == Division.league_id)
            .where(League.commissioner_key == CONTINUOUS, League.disabled_at.is_(None), Division.archived_at.is_(None))
        )
        return found.all()


@dataclass(frozen=True, kw_only=True)
class _Step:
    """What is to be done next in a division."""

    last: str | None
    """Id of the division's last round."""
    season: int
    closes: bool
    """Whether that round is over and has to be closed."""
    begins: bool
    """Whether it is time for another round."""


@dataclass(frozen=True, kw_only=True)
class _Due:
    """A division's next step, and what it needs, as read from the database."""

    step: _Step
    terms: LeagueSettings
    setup: GameSetup
    entrants: Mapping[str, Candidate]
    """The members that compete, by entry, in the order in which they joined."""
    rules: TournamentRules
    state: TournamentState | None
    """The state stored with the last closed round."""
    rounds: Sequence[PlayedRound]
    """The rounds that have ended since; without a stored state, all rounds of the season."""


async def advance(database: Database, division_id: str) -> str | None:
    """Close a division's round once all its episodes are over, and begin the next one when it is due.

    When no division has another round, the season ends.

    Returns:
        The id of the round that began, if one did.

    Raises:
        ManifestError: The league's config does not fit its game.
        UsageError: The league's variant or its pairing no longer exists.
    """
    async with database.reading() as session:
        due = await _look(session, division_id)
    if due is None:
        return None
    pairing = find_pairing(due.terms.pairing)
    owners = {entry: candidate.owner_user_id for entry, candidate in due.entrants.items()}
    # In a thread and without a connection, since the computation may cover a whole season.
    table = await anyio.to_thread.run_sync(
        partial(
            compute_standings,
            due.rounds,
            list(due.entrants),
            rules=due.rules,
            pairing=pairing,
            state=due.state,
            owners=owners,
        )
    )
    async with database.writing() as session:
        # Read again: another server may have been faster, or a player's account may have been closed. Whoever changes
        # champions meanwhile does so for the next round.
        division = await session.get_one(Division, division_id, with_for_update={"of": Division})
        step, again = due.step, await _next_step(session, division)
        if again is None or (again.last, again.season) != (step.last, step.season):
            return None
        versions = {candidate.policy_version_id for candidate in due.entrants.values()}
        if versions.intersection(await session.scalars(disabled_versions())):
            return None
        shrunk = False
        if step.closes and step.last is not None:
            shrunk = await _close(session, await session.get_one(Round, step.last), table, due.terms)
        if table.report["over"] == "rounds":
            await _end_season(session, division)
        if shrunk or not step.begins or table.config is None:
            return None
        return await _begin(session, division, due, table)


async def _next_step(session: AsyncSession, division: Division) -> _Step | None:
    """What is to be done next; None if there is no round to close and none to begin."""
    league = division.league
    last = await session.scalar(
        sa.select(Round).where(Round.division_id == division.id).order_by(Round.round_number.desc()).limit(1)
    )
    closes = last is not None and last.status == "running"
    if last is not None and closes:
        left = sa.select(EpisodeRequest.id).where(
            EpisodeRequest.round_id == last.id, EpisodeRequest.status.in_(("pending", "running"))
        )
        if await session.scalar(left.limit(1)) is not None:
            return None
    terms = LeagueSettings.of(league.commissioner_config)
    early = last is not None and now() < last.created_at + dt.timedelta(seconds=terms.every_seconds)
    begins = league.paused_at is None and not early
    if begins and not closes and last is not None and last.season == league.season:
        report = await session.scalar(sa.select(Round.report).where(Round.id == last.id))
        begins = not (report or {}).get("over")
    if not closes and not begins:
        return None
    return _Step(last=last.id if last is not None else None, season=league.season, closes=closes, begins=begins)


async def _look(session: AsyncSession, division_id: str) -> _Due | None:
    """Read what the next step needs; None if there is none, or nobody to play."""
    division = await session.get_one(Division, division_id)
    league = division.league
    step = await _next_step(session, division)
    if step is None:
        return None
    members = (await session.scalars(_competing(division_id))).unique().all()
    coworld = await session.get(Coworld, league.game.coworld_id)
    if coworld is None or (len({row.user_id for row in members}) < 2 and not step.closes):
        return None
    terms, setup = LeagueSettings.of(league.commissioner_config), setup_of(coworld, league.variant_id)
    rules = season_rules(terms, setup)
    since, state = await _stored(session, division_id, league.season, rules)
    return _Due(
        step=step,
        terms=terms,
        setup=setup,
        entrants={row.entry_id: Candidate.of(row.policy_version, row.player) for row in members},
        rules=rules,
        state=state,
        rounds=await _played(session, division_id, league.season, since, rules),
    )


def _competing(division_id: str) -> sa.Select[Any]:
    return champions(Membership.division_id == division_id, Membership.status == "competing")


async def _stored(
    session: AsyncSession, division_id: str, season: int, rules: TournamentRules
) -> tuple[int, TournamentState | None]:
    """The last stored state of the season's table, and the number of the round that it was stored with."""
    found = await session.execute(
        sa.select(Round.round_number, Round.state)
        .where(Round.division_id == division_id, Round.season == season, Round.state.is_not(None))
        .order_by(Round.round_number.desc())
        .limit(1)
    )
    number, stored = next(iter(found.all()), (0, None))
    state = stored_state(stored, rules)
    return (number if state is not None else 0), state


async def _played(
    session: AsyncSession, division_id: str, season: int, since: int, rules: TournamentRules
) -> list[PlayedRound]:
    """The rounds of a season after a given one, with their episodes, in order; the round to close is the last."""
    of_season = (Round.division_id == division_id, Round.season == season, Round.round_number > since)
    rounds = (
        await session.execute(sa.select(Round.id, Round.round_config).where(*of_season).order_by(Round.round_number))
    ).all()
    of_rounds = sa.select(Round.id).where(*of_season)
    episodes = await finished_episodes(session, EpisodeRequest.round_id.in_(of_rounds))
    found = [played_round(config, episodes.get(id, ()), rules) for id, config in rounds]
    return [one for one in found if one is not None]


async def _begin(session: AsyncSession, division: Division, due: _Due, table: SeasonStandings) -> str:
    """Store a round and its episodes; workers find the episodes in the queue."""
    assert table.config is not None
    league = division.league
    config = {**table.config, "season": league.season, "episodes": len(table.lineups)}
    row = await add_round(session, division.id, config, key=CONTINUOUS, season=league.season)
    seeds = await open_seeds(session, row, league.id, due.setup)
    episodes = [
        (seeds.seed(block) if seeds else None, tuple(due.entrants[name] for name in lineup if name is not None))
        for block, lineup in table.lineups
    ]
    if seeds is not None:
        row.round_config = seeds.committed(config, (block for block, _ in table.lineups))
    await add_round_episodes(session, row, league.id, due.setup, episodes)
    return row.id


async def _close(session: AsyncSession, row: Round, table: SeasonStandings, terms: LeagueSettings) -> bool:
    """Store how a round ended and how its division now stands, and send away members that fail repeatedly.

    A round's result for a policy version is its mean score over all its seats.

    Returns:
        Whether a member was disqualified or benched.
    """
    mean = sa.func.avg(EpisodeScore.score)
    scores = await session.execute(
        sa.select(
            EpisodeScore.policy_version_id, EpisodeScore.player_id, mean, sa.func.rank().over(order_by=mean.desc())
        )
        .join(EpisodeRequest, EpisodeRequest.id == EpisodeScore.episode_request_id)
        .where(EpisodeRequest.round_id == row.id)
        .group_by(EpisodeScore.policy_version_id, EpisodeScore.player_id)
        .order_by(mean.desc(), EpisodeScore.policy_version_id)
    )
    results = [
        RoundResult(round_id=row.id, policy_version_id=version, player_id=player, rank=rank, score=float(score))
        for version, player, score, rank in scores
    ]
    session.add_all(results)
    row.status, row.completed_at = ("completed" if results else "failed"), now()
    row.error = None if results else "No episode of the round was completed."
    await keep_report(session, row, table.report, table.state)
    members = (await session.scalars(_competing(row.division_id))).unique().all()
    return await judge_members(session, row.id, members, terms)


async def _end_season(session: AsyncSession, over: Division) -> None:
    """End the season, unless another division still has a round to play."""
    league = await session.get_one(League, over.league_id, with_for_update={"of": League})
    others = await session.scalars(
        sa.select(Division.id).where(
            Division.league_id == league.id, Division.archived_at.is_(None), Division.id != over.id
        )
    )
    for division in others.all():
        last = await session.execute(
            sa.select(Round.report)
            .where(Round.division_id == division, Round.season == league.season)
            .order_by(Round.round_number.desc())
            .limit(1)
        )
        begun = last.first()
        count = _competing(division).with_only_columns(sa.func.count(Membership.id)).order_by(None)
        if not (begun[0] or {}).get("over") if begun else (await session.scalar(count) or 0) > 1:
            return
    await close_season(session, league)
