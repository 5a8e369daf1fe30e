"""Stores events of a commissioner's season together with their effects: rounds, episodes, divisions and members."""

from __future__ import annotations

import json
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.text import strip_controls
from coworld_core.tournament import (
    DivisionPlaces,
    LeagueSet,
    LogEvent,
    Move,
    RoundDecided,
    RoundDropped,
    RoundScheduled,
)

from ..store.columns import now
from ..store.database import Database
from ..store.event_log import record_event
from ..store.models import Commission, CommissionEvent, Division, EpisodeRequest, League, Membership, Round, RoundResult
from .cancellation import cancel_waiting
from .commissioner_log import CommissionedSeason, division_key
from .league_members import judge_members
from .league_seeds import open_seeds
from .league_settings import LeagueSettings, describe_division
from .new_episodes import add_round, add_round_episodes
from .scores import discount
from .season_standings import report_of
from .seasons import COMMISSIONED, change_division, keep_report, replace_report

__all__ = ["LeaseLost", "write_events"]

_MOST = 2**31 - 1


class LeaseLost(Exception):
    """Another server talks to the commissioner, or the league was changed: the season as read is out of date."""


async def write_events(database: Database, season: CommissionedSeason, token: str) -> None:
    """Store pending events and their effects in one transaction.

    Args:
        database: The database.
        season: The season.
        token: The token of the lease on the league.

    Raises:
        LeaseLost: Another server holds the lease, or the season has changed.
        ManifestError: Episodes do not fit the game's schema.
    """
    if not season.pending:
        return
    async with database.writing() as session:
        league = await session.get_one(League, season.league_id, with_for_update={"of": League})
        lease = await session.get_one(Commission, season.league_id)
        if lease.token != token or (league.season, league.commissioner_key) != (season.number, COMMISSIONED):
            raise LeaseLost
        writing = _Writing(session, season, league)
        for number, event in enumerate(season.pending, season.written + 1):
            await writing.apply(event)
            session.add(
                CommissionEvent(league_id=league.id, season=season.number, number=number, event=event.model_dump_json())
            )
        if any(_succeeds(event) for event in season.pending):
            lease.trouble = lease.trouble_at = None
    season.written += len(season.pending)
    season.pending.clear()


@dataclass
class _Writing:
    """One transaction."""

    session: AsyncSession
    season: CommissionedSeason
    league: League

    async def apply(self, event: LogEvent) -> None:
        """Store the effects of an event."""
        if isinstance(event, LeagueSet):
            await self._divisions(event)
            await self._move(event.moves)
        elif isinstance(event, RoundScheduled):
            await self._schedule(event)
        elif isinstance(event, RoundDecided):
            await self._decide(event)
        elif isinstance(event, RoundDropped):
            await self._drop(event)

    @property
    def _terms(self) -> LeagueSettings:
        return LeagueSettings.of(self.league.commissioner_config)

    # --- divisions and members

    async def _divisions(self, event: LeagueSet) -> None:
        session, there = self.session, {division_key(one.id): one for one in event.divisions}
        rows = {
            row.id: row
            for row in (await session.scalars(sa.select(Division).where(Division.league_id == self.league.id))).unique()
        }
        # Each level belongs to one division; the levels of archived divisions do not count.
        for number, row in enumerate(rows.values(), 1):
            row.level = -_MOST + number
        await session.flush()
        for level, one in enumerate(sorted(event.divisions, key=lambda division: division.level), 1):
            id = division_key(one.id)
            row = rows.setdefault(id, Division(id=id, league_id=self.league.id))
            row.name, row.type, row.level, row.archived_at = _text(one.name), _text(one.type)[:32], level, None
            row.description = _text(one.description) if one.description is not None else row.description
            row.commissioner_description = row.commissioner_description or describe_division(self._terms, plays=True)
            session.add(row)
        await session.flush()
        for level, row in enumerate((row for id, row in rows.items() if id not in there), 1):
            row.archived_at, row.level = row.archived_at or now(), -level
        await session.flush()
        # Members of a removed division that the commissioner has not moved start in the lowest division.
        lowest = min(event.divisions, key=lambda division: division.level)
        await session.execute(
            sa.update(Membership)
            .where(
                Membership.league_id == self.league.id,
                Membership.end_time.is_(None),
                Membership.division_id.not_in(there),
            )
            .values(division_id=division_key(lowest.id))
        )

    async def _move(self, moves: tuple[Move, ...]) -> list[str]:
        """Move members; returns a description of each move."""
        session, words = self.session, list[str]()
        for move in moves:
            if (member := self.season.members.get(move.name)) is None:
                continue
            row = await session.get_one(Membership, member.membership_id, populate_existing=True)
            before, to = row.division, division_key(move.division)
            as_what = f", {_text(move.status)}" if move.status != row.status else ""
            await change_division(session, self.league.id, move.name, to)
            row.status = _text(move.status)[:32]
            row.substatus = _text(move.substatus) if move.substatus else "champion"
            row.reason = _text(move.reason) or None
            await session.flush()
            await session.refresh(row)
            where = row.division.name if before.id == to else f"{before.name} → {row.division.name}"
            words.append(f"{member.candidate.label}: {where}{as_what}{f': {row.reason}' if row.reason else ''}")
            if before.id != to:
                headline = f"{member.candidate.label} moved from {before.name} to {row.division.name}"
                await record_event(session, "membership_moved", headline, summary=row.reason or "", membership=row)
        return words

    # --- rounds

    async def _row(self, number: int) -> Round:
        """The row of a round, created when the round begins."""
        session, season = self.session, self.season
        if (row := await session.get(Round, season.round_id(number))) is not None:
            return row
        due = season.tournament.league.rounds[number]
        config = {
            "commissioner": self._terms.commissioner_runnable_id,
            "variant_id": season.setup.variant,
            "season": season.number,
            "asked": due.config,
        }
        row = await add_round(
            session,
            division_key(due.division),
            config,
            key=COMMISSIONED,
            season=season.number,
            id=season.round_id(number),
        )
        season.began[number] = row.created_at
        return row

    async def _schedule(self, event: RoundScheduled) -> None:
        season = self.season
        row = await self._row(event.round)
        seeds = await open_seeds(self.session, row, self.league.id, season.setup)
        episodes = [
            (
                seeds.seed(block.block) if seeds is not None and block.seed is None else block.seed,
                [season.members[name].candidate for name in block.lineup],
            )
            for block in event.blocks
        ]
        if seeds is not None:
            # A seed that the commissioner chose is its word, and none of ours.
            drawn = (block.block for block in event.blocks if block.seed is None)
            row.round_config = seeds.committed(row.round_config, drawn)
        first = event.blocks[0].match - 1
        await add_round_episodes(self.session, row, self.league.id, season.setup, episodes, first=first)

    async def _decide(self, event: RoundDecided) -> None:
        session, season = self.session, self.season
        row = await self._row(event.round)
        row.status, row.completed_at, row.error = "completed", now(), None
        row.round_display = json.loads(event.model_dump_json(include={"display"}))["display"]
        if event.state_refused:
            row.error = f"Its state of {event.state_refused} bytes is too large. The previous state is kept."
        self._results(row, event.results)
        # An operator may have withdrawn the hook during the round.
        if event.description and "describe_division" in self._terms.hooks:
            division = await session.get_one(Division, row.division_id)
            division.commissioner_description = {
                key: _text(words, most=2000) for key, words in event.description.items()
            }
        await session.flush()
        row.round_config = {**row.round_config, "moves": await self._move(event.moves)}
        await keep_report(session, row, self._report(row.division_id))
        # A member that changes division appears in the new table at once, not after the next round.
        for division in {division_key(move.division) for move in event.moves} - {row.division_id}:
            await replace_report(session, division, season.number, self._report(division))
        ids = [member.membership_id for member in season.members.values()]
        members = (await session.scalars(sa.select(Membership).where(Membership.id.in_(ids)))).unique().all()
        await judge_members(session, row.id, members, self._terms)

    def _results(self, row: Round, results: tuple[DivisionPlaces, ...]) -> None:
        for place in (place for result in results for place in result.rankings):
            if (member := self.season.members.get(place.name)) is None:
                continue
            self.session.add(
                RoundResult(
                    round_id=row.id,
                    policy_version_id=member.candidate.policy_version_id,
                    player_id=member.candidate.player_id,
                    rank=min(place.rank, _MOST),
                    score=place.score,
                )
            )

    def _report(self, division: str) -> dict[str, object]:
        """A division's standings, in the order given by the commissioner."""
        tournament = self.season.tournament
        here = [
            name for name in tournament.active if division_key(tournament.league.membership(name).division) == division
        ]
        return report_of(tournament, among=here)

    async def _drop(self, event: RoundDropped) -> None:
        """Drop a round: cancel its waiting episodes, and remove the scores of those that were played."""
        row = await self._row(event.round)
        row.status, row.completed_at, row.error = "failed", now(), _text(event.reason)
        await self.session.flush()
        await cancel_waiting(
            self.session,
            EpisodeRequest.round_id == row.id,
            f"Its round was cancelled: {row.error}",
            error_type="cancelled",
        )
        await discount(self.session, row.id)


def _succeeds(event: LogEvent) -> bool:
    """Whether an event shows that the commissioner works."""
    return isinstance(event, RoundDecided) or (isinstance(event, LeagueSet) and bool(event.commissioner))


def _text(text: str | None, *, most: int = 250) -> str:
    """A commissioner's text, made fit to be stored and shown on one line."""
    plain = strip_controls(text or "").encode(errors="replace").decode()
    return " ".join(plain.split())[:most]
