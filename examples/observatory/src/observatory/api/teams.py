"""Teams of the caller, and the people who help to run a league."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core import api

from ..errors import forbidden
from ..operations.teams import (
    Entries,
    appoint,
    find_team,
    invite_to_team,
    join_team,
    leave_team,
    make_team,
    members_of,
    officers_of,
    teams_of,
)
from ..store.columns import JsonObject
from ..store.models import League, User
from .leagues import find_league
from .routing import ApiRouter, Call, InPerson, Json, QueryModel, gate, refusals

__all__ = ["router"]

router = ApiRouter(tags=["Teams"])


class Leaving(QueryModel):
    """What becomes of what the team has."""

    entries: Entries | None = Field(
        default=None,
        description="For the last member: `retire` ends the team's entries and closes it; `keep` lets them play on.",
    )


@router.get("/v2/teams", response_model=list[api.Team])
async def list_teams(call: InPerson) -> Json:
    """Your teams with their members, by name."""
    return Json([await _team(call.db, team) for team in await teams_of(call.db, _person(call).id)])


@router.post("/v2/teams", response_model=api.Team, responses=refusals(409))
async def create_team(call: InPerson, body: api.TeamBody) -> Json:
    """Make a team, with you as its captain."""
    team = await make_team(call.db, _person(call), body.name, call.services.settings.quotas)
    return Json(await _team(call.db, team))


@router.post("/v2/teams/join", response_model=api.Team, responses=refusals(409, 410))
async def join(call: InPerson, body: api.TeamJoinBody) -> Json:
    """Join a team by an invitation, which works once."""
    code = body.code.rstrip("/").rpartition("/")[2]
    return Json(await _team(call.db, await join_team(call.db, _person(call), code, call.services.settings.quotas)))


@router.post("/v2/teams/{team}/invitations", response_model=api.TeamInvitation)
async def invite(call: Annotated[Call, gate("user", secret=True)], team: str, body: api.TeamInvitationBody) -> Json:
    """Make a link by which one person joins a team of yours; it is shown only here."""
    person = _person(call)
    found = await find_team(call.db, person.id, team)
    code = await invite_to_team(call.db, found, person.id, days=body.days)
    return Json({"team": found.name, "link": f"{call.base_url}/teams/join/{code}", "days": body.days})


@router.delete("/v2/teams/{team}/members/{user}", response_model=api.TeamLeft, responses=refusals(409))
async def leave(call: InPerson, team: str, user: str, query: Annotated[Leaving, Query()]) -> Json:
    """Leave a team of yours (`me`), or, as its captain, take another member out of it."""
    person = _person(call)
    found = await find_team(call.db, person.id, team)
    name = person.id if user == "me" else user
    member, ended = await leave_team(call.db, found, name, by=person.id, entries=query.entries)
    return Json({"team": found.name, "member": member.name, "entries_ended": ended})


@router.get("/v2/leagues/{league_id}/officers", response_model=list[api.LeagueOfficer])
async def list_officers(call: Annotated[Call, gate("known")], league_id: str) -> Json:
    """The people who help to run a league."""
    league = await find_league(call.db, call.caller, league_id)
    return Json([_officer(user, role) for user, role in await officers_of(call.db, league.id)])


@router.put("/v2/leagues/{league_id}/officers", response_model=list[api.LeagueOfficer], responses=refusals(409))
async def change_officer(call: InPerson, league_id: str, body: api.LeagueOfficerBody) -> Json:
    """Give somebody a role in a league, or take it away: its organisers name assistants, operators both."""
    league: League = await find_league(call.db, call.caller, league_id)
    await appoint(call.db, call.caller, league, body.user, body.role)
    await call.db.flush()
    return Json([_officer(user, role) for user, role in await officers_of(call.db, league.id)])


def _person(call: Call) -> User:
    if call.caller.person_id is not None:
        raise forbidden("People are in teams, not teams: ask in your own name.", code="is_team")
    return call.caller.require()


async def _team(session: AsyncSession, team: User) -> JsonObject:
    members = await members_of(session, team.id)
    return {
        "id": team.id,
        "name": team.name,
        "members": [
            {"user_id": user.id, "name": user.name, "joined_at": joined_at, "is_captain": place == 0}
            for place, (user, joined_at) in enumerate(members)
        ],
        "created_at": team.created_at,
    }


def _officer(user: User, role: str) -> JsonObject:
    return {"user_id": user.id, "name": user.name, "role": role}
