"""Members of leagues: submissions, placement, champions, retirement."""

from __future__ import annotations

from typing import Annotated

import sqlalchemy as sa
from fastapi import Query
from pydantic import Field

from coworld_core import api

from ..errors import conflict, forbidden, not_found
from ..identity.auth import Caller
from ..operations.moderation import require_enabled
from ..operations.teams import require_one_name
from ..store.columns import JsonObject, now
from ..store.models import Image, League, Membership, Player, PolicyVersion, Submission
from ..work.league_members import QUALIFYING, make_champion, place_submission, retire_member
from ..work.league_settings import LeagueSettings
from .leagues import find_league, visible_leagues
from .pagination import PageQuery, paginate
from .playable import require_version_runs
from .routing import Anyone, ApiRouter, Call, Json, SignedIn, refusals
from .serializers import division_json, league_json, of_player, player_ref, policy_version_json

__all__ = ["own_rows", "router"]

router = ApiRouter(tags=["Memberships"])


_NO_REASON = api.RetireBody()


class MembershipQuery(PageQuery):
    """Filters for memberships."""

    limit: int = Field(default=200, ge=1, le=1000, description="Maximum number of rows in the page.")
    active_only: bool = Field(default=False, description="Only memberships that have not ended.")
    champions_only: bool = Field(default=False, description="Only champions, the policies that their owners nominate.")
    mine: bool = Field(default=False, description="Only the caller's own.")
    league_id: str | None = Field(default=None, pattern="^league_")
    division_id: str | None = Field(default=None, pattern="^div_")
    policy_version_id: str | None = Field(default=None, max_length=64)
    player_id: str | None = Field(default=None, max_length=64)


class SubmissionQuery(PageQuery):
    """Filters for submissions."""

    limit: int = Field(default=200, ge=1, le=1000, description="Maximum number of rows in the page.")
    mine: bool = Field(default=False, description="Only the caller's own.")
    league_id: str | None = Field(default=None, pattern="^league_")
    policy_version_id: str | None = Field(default=None, max_length=64)
    player_id: str | None = Field(default=None, max_length=64)


@router.get("/v2/league-policy-memberships", response_model=list[api.Membership])
async def list_memberships(call: Anyone, query: Annotated[MembershipQuery, Query()]) -> Json:
    """Memberships in leagues that you may see, newest first."""
    statement = sa.select(Membership).where(Membership.league_id.in_(_visible(call)))
    if query.active_only:
        statement = statement.where(Membership.end_time.is_(None))
    if query.champions_only:
        statement = statement.where(Membership.is_champion, Membership.end_time.is_(None))
    if query.mine:
        statement = statement.where(own_rows(call.caller, Membership))
    if query.player_id is not None:
        statement = statement.where(of_player(Membership, query.player_id))
    for name in ("league_id", "division_id", "policy_version_id"):
        if (value := getattr(query, name)) is not None:
            statement = statement.where(getattr(Membership, name) == value)
    page = await paginate(call.db, statement, query, moment=Membership.created_at, key=Membership.id)
    return page.bare(lambda row: _shown(row, call))


@router.get("/v2/league-policy-memberships/portfolio", response_model=list[api.Membership])
async def portfolio(call: SignedIn, query: Annotated[PageQuery, Query()]) -> Json:
    """Your own memberships that have not ended, newest first."""
    statement = sa.select(Membership).where(own_rows(call.caller, Membership), Membership.end_time.is_(None))
    page = await paginate(call.db, statement, query, moment=Membership.created_at, key=Membership.id)
    return page.bare(lambda row: _shown(row, call))


@router.post(
    "/v2/league-policy-memberships/{membership_id}/retire", response_model=api.Membership, responses=refusals(409)
)
async def retire(call: SignedIn, membership_id: str, body: api.RetireBody = _NO_REASON) -> Json:
    """End one of your own memberships, or one in a league that you organise."""
    membership = await _own_membership(call, membership_id, organised=True)
    if membership.end_time is not None:
        raise conflict(f"{_label(membership.policy_version)} is already retired.", code="already_retired")
    await retire_member(call.db, membership, body.reason)
    await call.db.flush()
    return Json(_shown(membership, call))


@router.post(
    "/v2/league-policy-memberships/{membership_id}/champion", response_model=api.Membership, responses=refusals(409)
)
async def nominate(call: SignedIn, membership_id: str) -> Json:
    """Make one of your own memberships your champion in its league."""
    membership = await _own_membership(call, membership_id)
    if membership.end_time is not None:
        raise conflict(f"{_label(membership.policy_version)} is retired.", code="already_retired")
    if membership.status == QUALIFYING:
        raise conflict(f"{_label(membership.policy_version)} is being checked.", code="not_qualified")
    _require_open(membership.division.league, frozen=True)
    await make_champion(call.db, membership)
    return Json(_shown(membership, call))


@router.get("/v2/league-submissions", response_model=list[api.Submission])
async def list_submissions(call: SignedIn, query: Annotated[SubmissionQuery, Query()]) -> Json:
    """Submissions to leagues that you may see, newest first."""
    statement = sa.select(Submission).where(Submission.league_id.in_(_visible(call)))
    if query.mine:
        statement = statement.where(own_rows(call.caller, Submission))
    if query.player_id is not None:
        statement = statement.where(of_player(Submission, query.player_id))
    for name in ("league_id", "policy_version_id"):
        if (value := getattr(query, name)) is not None:
            statement = statement.where(getattr(Submission, name) == value)
    page = await paginate(call.db, statement, query, moment=Submission.created_at, key=Submission.id)
    return page.bare(lambda row: _submission(row, call))


@router.post("/v2/league-submissions", response_model=api.Submission, responses=refusals(409))
async def submit(call: SignedIn, body: api.SubmissionBody) -> Json:
    """Submit one of your own policy versions to a league; it is placed at once, or rejected with a reason."""
    league = await find_league(call.db, call.caller, body.league_id)
    version = await call.db.get(PolicyVersion, body.policy_version_id)
    if version is None or version.user_id not in call.caller.accounts:
        raise not_found("policy version of yours", body.policy_version_id)
    require_enabled(version)
    _require_open(league)
    await require_one_name(call.db, version.user_id, league.id)
    await require_version_runs(call, version, await call.db.get_one(Image, version.image_id), is_played=True)
    player_id = body.player_id or call.caller.player_id or version.player_id
    if call.caller.player_id is not None and player_id != call.caller.player_id:
        raise forbidden("A player's session can submit only as that player.", code="other_player")
    if version.player_id is not None and player_id != version.player_id:
        raise forbidden(f"{_label(version)} belongs to another of your players.", code="other_player")
    if player_id is not None and version.player_id is None:
        await _own_player(call, version.user_id, player_id)
    submission = Submission(
        league_id=league.id,
        policy_version_id=version.id,
        auto_champion=body.auto_champion,
        preferences=body.preferences,
        user_id=version.user_id,
        player_id=player_id,
    )
    call.db.add(submission)
    await place_submission(call.db, submission, version)
    await call.db.flush()
    await call.db.refresh(submission)
    return Json(_submission(submission, call))


def _require_open(league: League, *, frozen: bool = False) -> None:
    """Refuse what changes the entries of a league that takes no submissions; with `frozen`, of one in its final season.

    Raises:
        Refusal: 409 (code `submissions_closed`) with the reason.
    """
    terms = LeagueSettings.of(league.commissioner_config)
    why = terms.why_closed(league.season, now())
    if why is not None and (terms.is_frozen(league.season) or not frozen):
        raise conflict(why, code="submissions_closed")


async def _own_membership(call: Call, membership_id: str, *, organised: bool = False) -> Membership:
    membership = await call.db.get(Membership, membership_id)
    if membership is None:
        raise not_found("membership", membership_id)
    organises = organised and call.caller.offices.get(membership.league_id) == "organiser"
    if not organises and not call.caller.owns(membership.user_id, membership.player_id):
        raise forbidden("This membership belongs to another account.")
    return membership


async def _own_player(call: Call, user_id: str, player_id: str) -> None:
    player = await call.db.get(Player, player_id)
    if player is None or player.user_id != user_id or player.disabled_at is not None:
        raise not_found("player of yours", player_id)


def _visible(call: Call) -> sa.Select[str]:
    return visible_leagues(call.caller).with_only_columns(League.id)


def own_rows(caller: Caller, table: type[Membership] | type[Submission]) -> sa.ColumnElement[bool]:
    """The condition on what a caller and its teams have entered; of a player's session, what that player has.

    Raises:
        Refusal: 401 if anonymous.
    """
    caller.require()
    own = table.user_id.in_(caller.accounts)
    return own if caller.player_id is None else sa.and_(own, table.player_id == caller.player_id)


def _label(version: PolicyVersion) -> str:
    return f"{version.policy.name}:v{version.version}"


def _shown(row: Membership, call: Call) -> JsonObject:
    """A membership with its league, division, policy version and player; with its reason for its owner."""
    own = call.caller.owns(row.user_id, row.player_id) or call.caller.oversees(row.league_id)
    return {
        "id": row.id,
        "status": row.status,
        "substatus": row.substatus,
        "is_champion": row.is_champion,
        "is_active": row.end_time is None,
        "start_time": row.start_time,
        "end_time": row.end_time,
        "league": league_json(row.division.league, call.base_url),
        "division": division_json(row.division, call.base_url),
        "policy_version": policy_version_json(row.policy_version),
        "player": player_ref(row.player, row.policy_version),
        "created_at": row.created_at,
        **({"reason": row.reason} if own and row.reason is not None else {}),
    }


def _submission(row: Submission, call: Call) -> JsonObject:
    """A submission with its league, policy version and player; what became of it in words is its owner's alone."""
    own = call.caller.owns(row.user_id, row.player_id) or call.caller.oversees(row.league_id)
    return {
        "id": row.id,
        "auto_champion": row.auto_champion,
        "status": row.status,
        "league": league_json(row.league, call.base_url),
        "policy_version": policy_version_json(row.policy_version),
        "player": player_ref(row.player, row.policy_version),
        "league_policy_membership_id": row.membership_id,
        "notes": row.notes if own else None,
        "created_at": row.created_at,
    }
