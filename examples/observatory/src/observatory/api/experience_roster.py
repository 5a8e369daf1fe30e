"""Resolves a request: its Coworld, its league, and the entries of its roster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.api import EpisodeBody, ExperienceTarget, PolicyRef, RosterEntry
from coworld_core.errors import UsageError

from ..errors import Refusal, not_found
from ..identity.auth import Caller
from ..operations.moderation import require_enabled
from ..store.disabled import enabled_versions
from ..store.models import Coworld, Division, Game, League, Membership, Policy, PolicyVersion, Tally
from ..work.lineups import Candidate, ResolvedEntry

__all__ = ["Arena", "find_arena", "league_champions", "league_coworld", "read_roster"]


@dataclass(frozen=True, kw_only=True)
class Arena:
    """The Coworld and league of a request's episodes."""

    coworld: Coworld
    variant_id: str | None
    league_id: str | None = None
    division_id: str | None = None
    ladder: tuple[Candidate, ...] = ()
    """The division's champions, best first."""
    pool: tuple[Candidate, ...] = ()
    """Members that may be drawn."""


async def find_arena(session: AsyncSession, caller: Caller, body: EpisodeBody) -> Arena:
    """Resolve the Coworld, variant and league of a request.

    Raises:
        Refusal: 404 if one does not exist or is hidden from the caller; 400 for contradictions.
    """
    target = body.target
    if target is None or (target.coworld_id and not _names_league(target)):
        coworld = await _coworld(session, caller, (target.coworld_id if target else body.coworld_id) or "")
        variant = body.variant_id or (target.variant_id if target else None)
        return Arena(coworld=coworld, variant_id=variant, pool=await _pool(session, caller, coworld=coworld))
    division = await _division(session, caller, target)
    league = division.league
    return Arena(
        coworld=await league_coworld(session, caller, league, target.coworld_id),
        variant_id=body.variant_id or target.variant_id or league.variant_id,
        league_id=league.id,
        division_id=division.id,
        ladder=await _ladder(session, caller, division),
        pool=await _pool(session, caller, division=division),
    )


async def league_coworld(session: AsyncSession, caller: Caller, league: League, chosen: str | None = None) -> Coworld:
    """The Coworld that a league plays, or a chosen version of it.

    Raises:
        Refusal: 404 if it does not exist or is hidden from the caller; 400 if it is another game's, or there is none.
    """
    coworld_id = chosen or league.game.coworld_id
    if coworld_id is None:
        raise Refusal(400, f"The league {league.name!r} has no Coworld to play.", code="no_coworld")
    coworld = await _coworld(session, caller, coworld_id)
    if coworld.name_key != league.game.name_key:
        raise Refusal(
            400, f"The league {league.name!r} plays {league.game.name}, not {coworld.name}.", code="other_game"
        )
    return coworld


async def league_champions(session: AsyncSession, caller: Caller, league_id: str) -> tuple[Candidate, ...]:
    """The champions of a league that the caller may choose, newest first; one for each player."""
    statement = (
        _live(caller)
        .join(Division, Division.id == Membership.division_id)
        .where(Membership.league_id == league_id, Membership.is_champion, Division.archived_at.is_(None))
        .order_by(Membership.created_at.desc(), Membership.id)
    )
    if not caller.elevated:
        statement = statement.where(~Division.hidden)
    found: dict[str, Candidate] = {}
    for row in (await session.scalars(statement)).unique():
        champion = Candidate.of(row.policy_version, row.player)
        found.setdefault(champion.subject_id, champion)
    return tuple(found.values())


async def read_roster(
    session: AsyncSession, caller: Caller, arena: Arena, roster: Sequence[RosterEntry]
) -> list[ResolvedEntry]:
    """Resolve the entries of a roster.

    Raises:
        Refusal: 404 for a policy that is neither the caller's nor a live member; 400 for an invalid reference.
    """
    known: dict[str, Candidate] = {}
    entries: list[ResolvedEntry] = []
    for entry in roster:
        slot = None if entry.slot is None or entry.slot < 0 else entry.slot
        reference = entry.player.policy_ref
        if reference is None:
            entries.append(ResolvedEntry(top_n=entry.player.top_n, random=bool(entry.player.random), slot=slot))
            continue
        if reference not in known:
            known[reference] = await _candidate(session, caller, arena, reference)
        entries.append(ResolvedEntry(policy=known[reference], slot=slot))
    return entries


def _names_league(target: ExperienceTarget) -> bool:
    return any((target.league_id, target.division_id, target.league_name, target.division_name))


async def _coworld(session: AsyncSession, caller: Caller, coworld_id: str) -> Coworld:
    row = await session.get(Coworld, coworld_id)
    if row is None or (row.visibility != "public" and not caller.owns(row.user_id)):
        raise not_found("Coworld", coworld_id)
    return row


async def _division(session: AsyncSession, caller: Caller, target: ExperienceTarget) -> Division:
    """The division of a target; for a league alone, its highest competing division."""
    statement = (
        sa.select(Division)
        .join(League, League.id == Division.league_id)
        .where(League.disabled_at.is_(None), Division.archived_at.is_(None))
        .order_by(Division.level.desc())
    )
    if not caller.elevated:
        statement = statement.where(~League.hidden, ~Division.hidden)
    named = (
        (League.id, target.league_id, "league"),
        (League.name, target.league_name, "league"),
        (Division.id, target.division_id, "division"),
        (Division.name, target.division_name, "division"),
    )
    for column, value, _ in named:
        if value is not None:
            statement = statement.where(column == value)
    if target.division_id is None and target.division_name is None:
        statement = statement.where(Division.type == "competition")
    rows = (await session.scalars(statement.limit(2 if target.league_id or target.league_name else 3))).unique().all()
    if not rows:
        _, value, kind = next(item for item in named if item[1] is not None)
        raise not_found(kind, str(value))
    if len({row.league_id for row in rows}) > 1:
        raise Refusal(400, "Several leagues have a division with this name. Also give the league.", code="ambiguous")
    return rows[0]


def _live(caller: Caller) -> sa.Select[Membership]:
    """Competing members that others may choose."""
    statement = (
        sa.select(Membership)
        .join(PolicyVersion, PolicyVersion.id == Membership.policy_version_id)
        .join(Policy, Policy.id == PolicyVersion.policy_id)
        .where(Membership.end_time.is_(None), Membership.status == "competing", enabled_versions())
    )
    if caller.elevated:
        return statement
    return statement.where(sa.or_(Policy.selection_scope == "any_request", Policy.user_id.in_(caller.accounts)))


async def _ladder(session: AsyncSession, caller: Caller, division: Division) -> tuple[Candidate, ...]:
    standing = (
        sa.select(Tally.policy_version_id, (sa.func.sum(Tally.total) / sa.func.sum(Tally.episodes)).label("score"))
        .where(Tally.division_id == division.id)
        .group_by(Tally.policy_version_id)
        .subquery()
    )
    rows = await session.scalars(
        _live(caller)
        .outerjoin(standing, standing.c.policy_version_id == Membership.policy_version_id)
        .where(Membership.division_id == division.id, Membership.is_champion)
        .order_by(standing.c.score.desc().nulls_last(), Membership.created_at, Membership.id)
    )
    return tuple(Candidate.of(row.policy_version, row.player) for row in rows.unique())


async def _pool(
    session: AsyncSession, caller: Caller, *, division: Division | None = None, coworld: Coworld | None = None
) -> tuple[Candidate, ...]:
    statement = _live(caller).order_by(Membership.created_at, Membership.id)
    if division is not None:
        statement = statement.where(Membership.division_id == division.id)
    if coworld is not None:
        leagues = (
            sa.select(League.id)
            .join(Game, Game.id == League.game_id)
            .where(Game.name_key == coworld.name_key, ~League.hidden, League.disabled_at.is_(None))
        )
        statement = statement.where(Membership.league_id.in_(leagues))
    members = (await session.scalars(statement)).unique()
    found = {row.policy_version_id: Candidate.of(row.policy_version, row.player) for row in members}
    return tuple(found.values())


async def _candidate(session: AsyncSession, caller: Caller, arena: Arena, text: str) -> Candidate:
    try:
        reference = PolicyRef.parse(text)
    except UsageError as error:
        raise Refusal(400, f"{error.message} {error.hint}", code="bad_policy_ref") from error
    own = sa.select(PolicyVersion).join(Policy, Policy.id == PolicyVersion.policy_id)
    if reference.id is not None:
        own = own.where(PolicyVersion.id == reference.id)
    else:
        own = own.where(Policy.name == reference.name, PolicyVersion.user_id.in_(caller.accounts))
        if reference.version is not None:
            own = own.where(PolicyVersion.version == reference.version)
    in_own_name = PolicyVersion.user_id == caller.user_id
    rows = (await session.scalars(own.order_by(in_own_name.desc(), PolicyVersion.version.desc()))).unique()
    mine = next((row for row in rows if caller.owns(row.user_id, row.player_id)), None)
    if mine is not None:
        require_enabled(mine)
        return Candidate.of(mine)
    for member in arena.pool:
        if reference.id is not None:
            meant = member.policy_version_id == reference.id
        else:
            meant = member.name == reference.name and reference.version in (None, member.version)
        if meant:
            return member
    raise Refusal(
        404, f"The policy {text!r} is neither yours nor an active member of a league of this game.", code="not_found"
    )
