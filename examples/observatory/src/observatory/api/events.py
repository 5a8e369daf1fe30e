"""Events of competitions."""

from __future__ import annotations

from typing import Annotated

import sqlalchemy as sa
from fastapi import Query
from pydantic import Field

from coworld_core import api

from ..store.columns import JsonObject
from ..store.models import Event, League
from .leagues import visible_leagues
from .pagination import PageQuery, paginate
from .routing import Anyone, ApiRouter, Call, Json
from .serializers import division_json, league_json, of_player, player_ref, policy_version_json

__all__ = ["router"]

router = ApiRouter(tags=["Events"])


class EventQuery(PageQuery):
    """Filters for events."""

    league_id: str | None = Field(default=None, pattern="^league_")
    division_id: str | None = Field(default=None, pattern="^div_")
    round_id: str | None = Field(default=None, pattern="^round_")
    event_type: str | None = Field(default=None, max_length=64)
    audience: str | None = Field(default=None, max_length=16)
    player_id: str | None = Field(default=None, max_length=64)
    policy_version_id: str | None = Field(default=None, max_length=64)


@router.get("/v2/competition-events", response_model=list[api.CompetitionEvent])
async def list_events(call: Anyone, query: Annotated[EventQuery, Query()]) -> Json:
    """Events of leagues that you may see, newest first, including those only for you."""
    statement = sa.select(Event).where(
        sa.or_(Event.league_id.is_(None), Event.league_id.in_(_visible(call))),
    )
    if not call.caller.elevated:
        own = Event.user_id.in_(call.caller.accounts) if call.caller.user_id else sa.false()
        statement = statement.where(sa.or_(Event.audience == "public", own))
    if query.player_id is not None:
        statement = statement.where(of_player(Event, query.player_id))
    given = query.model_dump(exclude={"limit", "offset", "cursor", "player_id"}, exclude_none=True)
    for name, value in given.items():
        statement = statement.where(getattr(Event, name) == value)
    page = await paginate(call.db, statement, query, moment=Event.created_at, key=Event.id)
    return page.bare(lambda event: _event_json(event, call.base_url))


def _visible(call: Call) -> sa.Select[str]:
    return visible_leagues(call.caller).with_only_columns(League.id)


def _event_json(event: Event, base_url: str) -> JsonObject:
    return {
        "id": event.id,
        "event_type": event.event_type,
        "audience": event.audience,
        "user_id": event.user_id,
        "player": player_ref(event.player, event.policy_version) if event.policy_version else None,
        "policy_version": policy_version_json(event.policy_version) if event.policy_version else None,
        "league": league_json(event.league, base_url) if event.league else None,
        "division": division_json(event.division, base_url) if event.division else None,
        "round_id": event.round_id,
        "headline": event.headline,
        "summary": event.summary,
        "payload": event.payload,
        "created_at": event.created_at,
    }
