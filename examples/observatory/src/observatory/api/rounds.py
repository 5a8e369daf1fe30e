"""Rounds of divisions, and their results."""

from __future__ import annotations

from typing import Annotated

import sqlalchemy as sa
from fastapi import Query
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core import api

from ..errors import not_found
from ..identity.auth import Caller
from ..store.columns import JsonObject
from ..store.models import Division, League, Round, RoundResult
from ..work.league_seeds import published_seeds
from .leagues import visible_leagues
from .pagination import Envelope, PageQuery, paginate
from .routing import Anyone, ApiRouter, Json
from .serializers import division_json, player_ref, policy_version_json

__all__ = ["find_round", "router"]

router = ApiRouter(tags=["Rounds"])


class RoundQuery(PageQuery):
    """Filters for rounds."""

    limit: int = Field(default=25, ge=1, le=200, description="Maximum number of rows in the page.")
    league_id: str | None = Field(default=None, pattern="^league_")
    division_id: str | None = Field(default=None, pattern="^div_")
    status: str | None = Field(default=None, max_length=32)


@router.get("/v2/rounds", response_model=Envelope[api.Round])
async def list_rounds(call: Anyone, query: Annotated[RoundQuery, Query()]) -> Json:
    """Rounds of leagues that you may see, newest first."""
    statement = _visible(call.caller)
    if query.league_id is not None:
        statement = statement.where(Division.league_id == query.league_id)
    if query.division_id is not None:
        statement = statement.where(Round.division_id == query.division_id)
    if query.status is not None:
        statement = statement.where(Round.status == query.status)
    page = await paginate(call.db, statement, query, moment=Round.created_at, key=Round.id)
    return Json(page.envelope(lambda row: _round_json(row, call.base_url)))


@router.get("/v2/rounds/{round_id}", response_model=api.RoundDetail)
async def get_round(call: Anyone, round_id: str) -> Json:
    """One round with its results, best first."""
    found = await find_round(call.db, call.caller, round_id)
    results = await call.db.scalars(
        sa.select(RoundResult).where(RoundResult.round_id == found.id).order_by(RoundResult.rank, RoundResult.id)
    )
    return Json(
        {
            **_round_json(found, call.base_url),
            "seeds": published_seeds(found),
            "results": [
                {
                    "id": row.id,
                    "rank": row.rank,
                    "score": row.score,
                    "result_metadata": row.result_metadata,
                    "policy_version": policy_version_json(row.policy_version),
                    "player": player_ref(row.player, row.policy_version),
                    "created_at": row.created_at,
                }
                for row in results
            ],
        }
    )


async def find_round(session: AsyncSession, caller: Caller, round_id: str) -> Round:
    """Find a round that the caller may see.

    Raises:
        Refusal: 404 if there is none.
    """
    found = await session.scalar(_visible(caller).where(Round.id == round_id))
    if found is None:
        raise not_found("round", round_id)
    return found


def _visible(caller: Caller) -> sa.Select[Round]:
    statement = (
        sa.select(Round)
        .join(Division, Division.id == Round.division_id)
        .where(Division.league_id.in_(visible_leagues(caller).with_only_columns(League.id)))
    )
    return statement if caller.elevated else statement.where(~Division.hidden)


def _round_json(row: Round, base_url: str) -> JsonObject:
    return {
        "id": row.id,
        "round_number": row.round_number,
        "commissioner_key": row.commissioner_key,
        "execution_backend": row.execution_backend,
        "round_config": row.round_config,
        "round_display": row.round_display,
        "status": row.status,
        "error": row.error,
        "started_at": row.started_at,
        "completed_at": row.completed_at,
        "division": division_json(row.division, base_url),
        "created_at": row.created_at,
    }
