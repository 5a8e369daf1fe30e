"""Teams: accounts for which several people act, each with a token of their own; and the people who run a league.

A team is the owner of its policies and entries, for pairing, turns and quotas as everywhere else. So that nobody is the
owner of several entries by it, a person plays in a league in one name: the own one, or that of one team.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.text import plural

from ..errors import Refusal, conflict, forbidden, not_found
from ..identity.accounts import make_account, revoke_all
from ..identity.auth import Caller, new_code, usable_code
from ..identity.limits import quotas_of
from ..quotas import Quotas
from ..store.account_lock import lock_account
from ..store.audit import audit
from ..store.columns import now
from ..store.models import AuthCode, EpisodeRequest, League, LeagueOfficer, Membership, TeamMember, User
from ..work.cancellation import cancel_waiting
from ..work.league_members import retire_member

__all__ = [
    "Entries",
    "Office",
    "appoint",
    "find_team",
    "invite_to_team",
    "invited_to",
    "join_team",
    "leave_team",
    "make_team",
    "may_appoint",
    "members_of",
    "officers_of",
    "require_one_name",
    "teams_of",
]

Entries = Literal["retire", "keep"]
"""What becomes of a team's entries when its last member leaves."""

Office = Literal["organiser", "assistant", "none"]


async def make_team(session: AsyncSession, person: User, name: str, base: Quotas) -> User:
    """Make a team with one member, its captain.

    Raises:
        NameRefused: The name cannot be used, is taken, or looks like another account's.
        Refusal: 409 (code `quota_exceeded`): the person is in as many teams as one may be.
    """
    await _require_room(session, person, base)
    team = await make_account(session, name, shared=True)
    session.add(TeamMember(team_id=team.id, user_id=person.id))
    await session.flush()
    return team


async def teams_of(session: AsyncSession, user_id: str) -> list[User]:
    """The teams of a person, by name."""
    mine = sa.select(TeamMember.team_id).where(TeamMember.user_id == user_id)
    return list(await session.scalars(sa.select(User).where(User.id.in_(mine)).order_by(User.name)))


async def find_team(session: AsyncSession, user_id: str, name: str) -> User:
    """Find a team of a person by name or id.

    Raises:
        Refusal: 404.
    """
    found = next((team for team in await teams_of(session, user_id) if name in (team.id, team.name)), None)
    if found is None:
        raise not_found("team of yours", name)
    return found


async def members_of(session: AsyncSession, team_id: str) -> Sequence[tuple[User, dt.datetime]]:
    """The members of a team with when they joined: its captain first, who has been in it for longest."""
    rows = await session.execute(
        sa.select(User, TeamMember.joined_at)
        .join(TeamMember, TeamMember.user_id == User.id)
        .where(TeamMember.team_id == team_id)
        .order_by(TeamMember.joined_at, User.id)
    )
    return [(row[0], row[1]) for row in rows]


async def invite_to_team(session: AsyncSession, team: User, member_id: str, *, days: int) -> str:
    """Make a code by which one person, who has an account, joins a team; it is void once the member has left."""
    audit(session, "team.invited", user_id=team.id, days=days)
    return await new_code(session, member_id, lifetime=dt.timedelta(days=days), team_id=team.id)


async def invited_to(session: AsyncSession, code: str) -> User | None:
    """The team into which a code invites; None if it is unknown, used or expired."""
    return await session.scalar(
        sa.select(User).join(AuthCode, AuthCode.team_id == User.id).where(usable_code(code, team=True))
    )


async def join_team(session: AsyncSession, person: User, code: str, base: Quotas) -> User:
    """Join a team by an invitation, which is used up.

    Raises:
        Refusal: 410 (code `code_expired`); 409: the person is a member (`already_member`), is in as many teams as one
            may be (`quota_exceeded`), or plays in a league of the team in another name (`plays_already`).
    """
    team = await invited_to(session, code)
    if team is None or team.disabled_at is not None:
        raise Refusal(
            410, "This invitation was already used, or has expired. Ask for another one.", code="code_expired"
        )
    if await session.get(TeamMember, (team.id, person.id)) is not None:
        raise conflict(f"You are a member of {team.name} already.", code="already_member")
    await _require_room(session, person, base)
    session.add(TeamMember(team_id=team.id, user_id=person.id))
    await session.flush()
    leagues = sa.select(Membership.league_id).where(Membership.user_id == team.id, Membership.end_time.is_(None))
    for league in set(await session.scalars(leagues)):
        await require_one_name(session, team.id, league)
    await session.execute(sa.update(AuthCode).where(usable_code(code, team=True)).values(used_at=now()))
    audit(session, "team.joined", user_id=team.id, subject=person.id)
    return team


async def leave_team(
    session: AsyncSession, team: User, name: str, *, by: str, entries: Entries | None = None
) -> tuple[User, int | None]:
    """Take a member out of a team, with the invitations that it has made; sessions of the team's players end.

    Args:
        session: A writing session.
        team: The team.
        name: Who leaves: a name or an id.
        by: The id of who says so: the member, or the captain.
        entries: For the last one: `retire` ends the team's entries, and closes the team; `keep` lets them play on.

    Returns:
        Who has left, and for the last one, the number of the team's entries that have ended; else None.

    Raises:
        Refusal: 403 (code `not_captain`), 404; 409 (code `last_member`): `entries` is missing.
    """
    members = [one for one, _ in await members_of(session, team.id)]
    member = next((one for one in members if name in (one.id, one.name)), None)
    if member is None:
        raise not_found(f"member of {team.name}", name)
    if by not in (member.id, members[0].id):
        raise forbidden(f"Only the captain of {team.name} may remove others.", code="not_captain")
    ended = None
    if len(members) == 1:
        live = sa.select(Membership).where(Membership.user_id == team.id, Membership.end_time.is_(None))
        there = (await session.scalars(live)).unique().all()
        if there and entries is None:
            count = plural(len(there), "membership")
            raise conflict(
                f"You are the last member of {team.name}, which has {count} of leagues. "
                "Say what becomes of them: `retire` takes them out, and closes the team; `keep` lets them "
                "play on, and nobody can change them.",
                code="last_member",
            )
        ended = 0
        if not there or entries == "retire":
            ended = len(there)
            for membership in there:
                await retire_member(session, membership, "The last member of the team has left.")
            why = "The last member has left."
            await cancel_waiting(session, EpisodeRequest.user_id == team.id, f"{team.name} is closed. {why}")
            team.disabled_at, team.disabled_reason = now(), why
    await session.execute(sa.delete(TeamMember).where(TeamMember.team_id == team.id, TeamMember.user_id == member.id))
    await session.execute(sa.delete(AuthCode).where(AuthCode.team_id == team.id, AuthCode.user_id == member.id))
    await revoke_all(session, team)
    audit(session, "team.left", user_id=team.id, subject=member.id, entries=entries)
    return member, ended


async def require_one_name(session: AsyncSession, owner_id: str, league_id: str) -> None:
    """Refuse an entry of an owner if somebody in it plays in the league in another name.

    Raises:
        Refusal: 409 (code `plays_already`).
    """
    people = sa.select(TeamMember.user_id).where(TeamMember.team_id == owner_id).union(sa.select(sa.literal(owner_id)))
    teams = sa.select(TeamMember.team_id).where(TeamMember.user_id.in_(people))
    name = await session.scalar(
        sa.select(User.name)
        .join(Membership, Membership.user_id == User.id)
        .where(
            Membership.league_id == league_id,
            Membership.end_time.is_(None),
            User.id != owner_id,
            sa.or_(User.id.in_(people), User.id.in_(teams)),
        )
    )
    if name is not None:
        raise conflict(
            f"One person plays in a league in one name, and {name} plays in it already. Retire its policies first.",
            code="plays_already",
        )


async def officers_of(session: AsyncSession, league_id: str) -> Sequence[tuple[User, str]]:
    """The people who help to run a league, with their roles: organisers first, by name."""
    rows = await session.execute(
        sa.select(User, LeagueOfficer.role)
        .join(LeagueOfficer, LeagueOfficer.user_id == User.id)
        .where(LeagueOfficer.league_id == league_id)
        .order_by(LeagueOfficer.role.desc(), User.name)
    )
    return [(row[0], row[1]) for row in rows]


def may_appoint(caller: Caller, league_id: str) -> bool:
    """Whether a caller appoints and dismisses people who help to run a league: an organiser of it, or an operator."""
    return caller.elevated or caller.offices.get(league_id) == "organiser"


async def appoint(session: AsyncSession, caller: Caller, league: League, name: str, role: Office) -> User:
    """Give somebody a role in a league, or take it away with `none`: organisers name assistants, operators both.

    Args:
        session: A writing session.
        caller: Who says so.
        league: The league.
        name: The account's name or id; a person's.
        role: The role.

    Raises:
        Refusal: 404; 403 (codes `not_organiser`, `not_operator`); 409 (code `is_team`).
    """
    if not may_appoint(caller, league.id):
        raise forbidden(f"Only the organisers of {league.name} may do this.", code="not_organiser")
    user = await session.scalar(sa.select(User).where(sa.or_(User.name == name, User.id == name)))
    if user is None:
        raise not_found("account", name)
    if user.is_shared:
        raise conflict(f"{user.name} is a team. Name its members, one by one.", code="is_team")
    row = await session.get(LeagueOfficer, (league.id, user.id))
    if not caller.elevated and "organiser" in (role, row and row.role):
        raise forbidden("Only an operator names organisers, and dismisses them.", code="not_operator")
    if role == "none":
        if row is not None:
            await session.delete(row)
    else:
        await session.merge(LeagueOfficer(league_id=league.id, user_id=user.id, role=role))
    audit(session, "league.appointed", user_id=user.id, subject=league.name, role=role)
    return user


async def _require_room(session: AsyncSession, person: User, base: Quotas) -> None:
    most = quotas_of(person, base).teams
    await lock_account(session, person.id)
    there = len(await teams_of(session, person.id))
    if most is not None and there >= most:
        raise conflict(
            f"You are in {plural(there, 'team')}, and your quota is {most}. Leave one.", code="quota_exceeded"
        )
