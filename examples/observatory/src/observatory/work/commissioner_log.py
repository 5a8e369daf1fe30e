"""A season whose rounds a commissioner decides: read from the database, and stored event by event.

As in a tournament in a folder, the log holds the commissioner's decisions. Members and episodes have tables of their
own. Rounds, divisions and memberships follow from the log, and change in the transaction that stores the event.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.tournament import Commission as CommissionView
from coworld_core.tournament import (
    DueRound,
    LeagueDivision,
    LeagueSet,
    LogEvent,
    Move,
    PlayedEpisode,
    RoundDecided,
    RoundScheduled,
    ScheduledBlock,
    Tournament,
    commissioner,
    decode_event,
    enter,
    take_in,
    withdraw_others,
)

from ..store.models import (
    FINAL_STATUSES,
    CommissionEvent,
    Coworld,
    Division,
    EpisodeRequest,
    League,
    Membership,
    Round,
)
from .finished_episodes import finished_episodes
from .game_setup import GameSetup, setup_of
from .league_members import QUALIFYING, champions
from .league_settings import LeagueSettings
from .lineups import Candidate
from .season_standings import season_rules

__all__ = ["CommissionedSeason", "Member", "division_key", "living_members", "open_season", "take_in_played"]


@dataclass(frozen=True, kw_only=True)
class Member:
    """A member that competes: the champion of its entry."""

    membership_id: str
    division_id: str
    candidate: Candidate


@dataclass(kw_only=True)
class CommissionedSeason:
    """A season as read from the database, with the events since then."""

    league_id: str
    number: int
    setup: GameSetup
    members: dict[str, Member]
    """Members that compete, by entry, in the order in which they joined."""
    tournament: Tournament
    written: int
    """The number of events in the database."""
    pending: list[LogEvent] = field(default_factory=list[LogEvent])
    """Events that are not in the database yet."""
    began: dict[int, dt.datetime] = field(default_factory=dict[int, dt.datetime])
    """When each round that has a row began, by round number."""
    taken: set[int] = field(default_factory=set[int])
    """Blocks whose finished episode the tournament already knows."""

    def happen(self, *events: LogEvent) -> None:
        """Apply events, and queue them for the database."""
        for event in events:
            self.tournament.apply(event)
            self.pending.append(event)

    def take_in(self, blocks: Iterable[ScheduledBlock], episodes: Iterable[PlayedEpisode]) -> None:
        """Pass finished episodes of a round to the tournament; the index of each is that of its block in the round."""
        known = {episode.index: episode for episode in episodes}
        played = {block.block: known[block.match - 1] for block in blocks if block.match - 1 in known}
        self.taken |= played.keys()
        take_in(self.tournament, ((block, [episode]) for block, episode in played.items()))

    def view(self) -> CommissionView:
        """The season as its commissioner sees it, with the platform's ids."""
        return CommissionView(self.tournament, self.setup.config, own_ids=self._own_id)

    @property
    def played(self) -> DueRound | None:
        """The round in progress."""
        due = self.tournament.league.open
        return due if due is not None and due.round in self.began else None

    def round_id(self, number: int) -> str:
        """The id of a round's row."""
        return f"round_{self._own_id('round', number)}"

    def _own_id(self, kind: str, name: object) -> uuid.UUID | None:
        league = _bare(self.league_id)
        if kind == "round":
            return uuid.uuid5(league, f"{self.number}:{name}")
        if kind == "league":
            return league
        member = self.members.get(str(name))
        if member is None or kind not in ("player", "membership"):
            return None
        return _bare(member.candidate.policy_version_id if kind == "player" else member.membership_id)


def _bare(id: str) -> uuid.UUID:
    return uuid.UUID(id.rpartition("_")[2])


def division_key(id: str) -> str:
    """The id of a division's row; its commissioner knows the division by the bare UUID."""
    return f"div_{id}"


async def living_members(session: AsyncSession, league_id: str) -> dict[str, Member]:
    """The members that compete in a league, by entry, in the order in which they joined."""
    # Includes members that the commissioner has excluded: it may change its mind.
    rows = await session.scalars(champions(Membership.league_id == league_id, Membership.status != QUALIFYING))
    return {
        row.entry_id: Member(
            membership_id=row.id,
            division_id=row.division_id,
            candidate=Candidate.of(row.policy_version, row.player),
        )
        for row in rows.unique()
    }


async def open_season(session: AsyncSession, league: League) -> CommissionedSeason | None:
    """Read a league's current season; None if its Coworld no longer exists.

    Changes made by an operator since the log was written become its first pending event.

    Raises:
        ManifestError: The manifest can no longer be read.
        UsageError: The league's variant no longer exists.
    """
    coworld = await session.get(Coworld, league.game.coworld_id)
    if coworld is None:
        return None
    setup = setup_of(coworld, league.variant_id)
    rules = season_rules(LeagueSettings(pairing="commissioner"), setup)
    texts = await session.scalars(
        sa.select(CommissionEvent.event)
        .where(CommissionEvent.league_id == league.id, CommissionEvent.season == league.season)
        .order_by(CommissionEvent.number)
    )
    events = [decode_event(text.encode()) for text in texts]
    season = CommissionedSeason(
        league_id=league.id,
        number=league.season,
        setup=setup,
        members=await living_members(session, league.id),
        tournament=Tournament(rules, commissioner),
        written=len(events),
    )
    await _replay(session, season, [event for event in events if event is not None])
    divisions = await session.scalars(
        sa.select(Division)
        .where(Division.league_id == league.id, Division.archived_at.is_(None))
        .order_by(Division.level)
    )
    _align(season, divisions.unique().all())
    return season


async def _replay(session: AsyncSession, season: CommissionedSeason, events: Iterable[LogEvent]) -> None:
    events, tournament = list(events), season.tournament
    names = [name for event in events for name in _names(event)]
    enter(tournament, [*names, *season.members])
    numbers = {event.round for event in events if isinstance(event, RoundScheduled)}
    ids = {season.round_id(number): number for number in numbers}
    began = await session.execute(sa.select(Round.id, Round.created_at).where(Round.id.in_(ids)))
    season.began = {ids[id]: moment for id, moment in began}
    over = sa.and_(EpisodeRequest.round_id.in_(ids), EpisodeRequest.status.in_(FINAL_STATUSES))
    episodes = await finished_episodes(session, over)
    for event in events:
        tournament.apply(event)
        if isinstance(event, RoundScheduled):
            season.take_in(event.blocks, episodes.get(season.round_id(event.round), ()))
    withdraw_others(tournament, season.members)


def _names(event: LogEvent) -> Iterable[str]:
    if isinstance(event, RoundScheduled):
        return [name for block in event.blocks for name in block.players]
    return [move.name for move in event.moves] if isinstance(event, LeagueSet | RoundDecided) else ()


def _align(season: CommissionedSeason, rows: Iterable[Division]) -> None:
    """Add an event to the log if an operator, not the commissioner, has changed divisions or their members."""
    league, there = season.tournament.league, {str(_bare(row.id)): row for row in rows}
    moves = [
        Move(name=name, division=str(_bare(member.division_id)), status=league.membership(name).status)
        for name, member in season.members.items()
        if league.membership(name).division != str(_bare(member.division_id))
        and str(_bare(member.division_id)) in there
    ]
    known = league.divisions.keys() == there.keys()
    if (known and not moves) or not there:
        return
    divisions = tuple(
        league.divisions.get(id) or LeagueDivision(id=id, name=row.name, level=row.level, type=row.type)
        for id, row in there.items()
    )
    # Without a commissioner in the event, the commissioner is asked again which divisions it wants.
    season.happen(LeagueSet(commissioner=league.commissioner if known else "", divisions=divisions, moves=tuple(moves)))


async def take_in_played(session: AsyncSession, season: CommissionedSeason) -> None:
    """Pass newly finished episodes of the current round to the tournament."""
    if season.played is None:
        return
    id, blocks = season.round_id(season.played.round), season.tournament.history.blocks_of(season.played.round)
    waiting = {block.match - 1 for block in blocks if block.block not in season.taken}
    of_round = sa.and_(EpisodeRequest.round_id == id, EpisodeRequest.status.in_(FINAL_STATUSES))
    over = await session.execute(sa.select(EpisodeRequest.id, EpisodeRequest.index).where(of_round))
    if new := [episode for episode, index in over if index in waiting]:
        season.take_in(blocks, (await finished_episodes(session, EpisodeRequest.id.in_(new)))[id])
