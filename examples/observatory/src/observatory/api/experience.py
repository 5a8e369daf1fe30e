"""Experience requests, for many episodes at once by a roster, and requests for single episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import Query
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import joinedload

from coworld_core import api
from coworld_core.errors import ManifestError, UsageError
from coworld_core.manifest import load_manifest

from ..episodes.access import view_of
from ..errors import Refusal, conflict, explained, not_found
from ..identity.limits import require_episodes, require_stored
from ..store.columns import JsonObject, new_id, now
from ..store.database import next_revision
from ..store.kept_labels import labelled, labelled_episode, labels_of, labels_of_episodes, set_labels
from ..store.models import Coworld, EpisodeRequest, ExperienceRequest, User
from ..work.lineups import Candidate, draw_seats, episode_configs, plan_config
from ..work.new_episodes import EpisodeTemplate, add_episodes
from ..work.queue import settle_request
from .experience_roster import Arena, find_arena, read_roster
from .pagination import Envelope, LabelledQuery, paginate, paginate_episodes
from .routing import MAX_BODY, ApiRouter, Call, Json, SignedIn, refusals

__all__ = ["router"]

router = ApiRouter(tags=["Experience requests"])


_NOT_HERE = {"episode_player_llm_spend_limit_usd", "game_config_overlay_secret", "state"}
"""Features of other platforms, refused rather than ignored."""


class ExperienceQuery(LabelledQuery):
    """Filters for experience requests."""

    mine: bool = Field(default=False, description="Only the caller's own; team members may list all.")


@router.post("/v2/experience-requests", response_model=api.ExperienceDetail, responses=refusals(400, 404))
async def create_request(call: SignedIn, body: api.ExperienceBody) -> Json:
    """Request up to 100 episodes."""
    for name in _NOT_HERE & body.model_fields_set:
        issue: dict[str, object] = {
            "type": "extra_forbidden",
            "loc": ["body", name],
            "msg": "This platform does not support this field.",
        }
        raise Refusal(422, [issue], code="validation_error")
    user = call.caller.require()
    arena, drawn, configs = await _prepare(call, body, body.num_episodes)
    row = ExperienceRequest(
        id=new_id("xreq"),
        user_id=user.id,
        player_id=call.caller.player_id,
        coworld_id=arena.coworld.id,
        variant_id=arena.variant_id,
        league_id=arena.league_id,
        division_id=arena.division_id,
        body=body.model_dump(mode="json", exclude_none=True),
        episode_count=body.num_episodes,
        title=body.title,
        description=body.description,
    )
    call.db.add(row)
    await set_labels(call.db, row.id, body.tags)
    await add_episodes(call.db, _of(call, arena, "experience"), drawn, configs, request_id=row.id)
    row.revision = await next_revision(call.db)
    await call.db.flush()
    return Json(await _detail(call, row, arena.coworld, user))


@router.post("/v2/episode-requests", response_model=api.EpisodeRequest, responses=refusals(400, 404))
async def create_episode(call: SignedIn, body: api.EpisodeBody) -> Json:
    """Request one episode."""
    arena, drawn, configs = await _prepare(call, body, 1)
    (episode_id,) = await add_episodes(call.db, _of(call, arena, "request"), drawn, configs)
    await set_labels(call.db, episode_id, body.tags)
    row = await call.db.get_one(EpisodeRequest, episode_id, populate_existing=True)
    return Json((await _written(call, [row]))[0])


@router.get("/v2/experience-requests", response_model=Envelope[api.ExperienceRequest])
async def list_requests(call: SignedIn, query: Annotated[ExperienceQuery, Query()]) -> Json:
    """Your own requests, newest first."""
    statement = sa.select(ExperienceRequest)
    if query.mine or not call.caller.elevated:
        statement = statement.where(_mine(call))
    page = await paginate(
        call.db,
        statement.where(labelled(ExperienceRequest.id, query.labels)),
        query,
        moment=ExperienceRequest.created_at,
        key=ExperienceRequest.id,
        options=(joinedload(ExperienceRequest.coworld), joinedload(ExperienceRequest.user)),
    )
    counts = await _counts(call.db, [row.id for row in page.rows])
    tags = await labels_of(call.db, [row.id for row in page.rows])
    return Json(page.envelope(lambda row: _row(row, row.coworld, row.user, counts.get(row.id, {}), tags[row.id])))


@router.get("/v2/experience-requests/{xreq}", response_model=api.ExperienceDetail)
async def get_request(call: SignedIn, xreq: str) -> Json:
    """A request with its episodes."""
    row = await _find(call, xreq)
    return Json(await _detail(call, row, row.coworld, row.user))


@router.get("/v2/experience-requests/{xreq}/episodes", response_model=list[api.EpisodeRequest])
async def list_episodes(call: SignedIn, xreq: str) -> Json:
    """All episodes of a request, in order."""
    row = await _find(call, xreq)
    return Json(await _written(call, await _episodes(call.db, row.id)))


@router.get("/v2/experience-requests/{xreq}/episode-requests", response_model=Envelope[api.EpisodeRequest])
async def page_episodes(call: SignedIn, xreq: str, query: Annotated[LabelledQuery, Query()]) -> Json:
    """Episodes of a request, page by page."""
    row = await _find(call, xreq)
    statement = sa.select(EpisodeRequest).where(EpisodeRequest.experience_request_id == row.id)
    page = await paginate_episodes(call, statement.where(labelled_episode(query.labels)), query)
    view, tags = view_of(call.services, call.caller), await labels_of_episodes(call.db, page.rows)
    return Json(page.envelope(lambda row: view.row(row, tags[row.id])))


@router.post("/v2/experience-requests/{xreq}/cancel", response_model=api.ExperienceDetail, responses=refusals(404, 409))
async def cancel_request(call: SignedIn, xreq: str) -> Json:
    """Cancel a request's waiting episodes; running ones finish. Repeating this has no effect."""
    found = await _find(call, xreq)
    coworld, user = found.coworld, found.user
    row = await call.db.get_one(ExperienceRequest, xreq, with_for_update=True, populate_existing=True)
    if row.status in ("completed", "failed"):
        raise conflict(f"The experience request {xreq} is already {row.status}.", code="already_finished")
    if row.status != "cancelled":
        row.status, row.cancelled_at = "cancelled", now()
        waiting = await call.db.scalars(
            sa.select(EpisodeRequest)
            .where(EpisodeRequest.experience_request_id == xreq, EpisodeRequest.status == "pending")
            .order_by(EpisodeRequest.id)
            .with_for_update(of=EpisodeRequest)
        )
        for episode in waiting.all():
            episode.status, episode.completed_at = "cancelled", now()
            episode.revision = await next_revision(call.db)
        await call.db.flush()
        await settle_request(call.db, xreq)
        await call.db.flush()
    return Json(await _detail(call, row, coworld, user))


# --- parts


async def _prepare(
    call: Call, body: api.EpisodeBody, count: int
) -> tuple[Arena, list[tuple[Candidate, ...]], list[dict[str, Any]]]:
    """The lineups and configs of a request's episodes."""
    user, quotas = call.caller.require(), call.services.settings.quotas
    await require_episodes(call.db, user, quotas, count, person=call.caller.person_id)
    # The size of future artifacts is unknown, so an account is refused only once it is full.
    await require_stored(call.db, user, quotas, more=1, status=429)
    arena = await find_arena(call.db, call.caller, body)
    entries = await read_roster(call.db, call.caller, arena, body.roster)
    try:
        manifest = load_manifest(dict(arena.coworld.manifest), template=True).manifest
        arena = replace(arena, variant_id=arena.variant_id or manifest.variants[0].id)
        overrides = body.game_config_overrides or {}
        config = plan_config(manifest, arena.variant_id, overrides, seats=len(entries))
        drawn = draw_seats(entries, episodes=count, ladder=arena.ladder, pool=arena.pool, seed=new_id())
        configs = episode_configs(
            manifest,
            config,
            [[candidate.label for candidate in seats] for seats in drawn],
            seed_pinned="seed" in overrides,
        )
    except (ManifestError, UsageError) as error:
        raise Refusal(400, explained(error), code=error.code) from error
    return arena, drawn, configs


def _of(call: Call, arena: Arena, source: str) -> EpisodeTemplate:
    return EpisodeTemplate(
        source=source,
        user_id=call.caller.require().id,
        person_id=call.caller.person_id,
        player_id=call.caller.player_id,
        league_id=arena.league_id,
        division_id=arena.division_id,
        coworld_id=arena.coworld.id,
        variant_id=arena.variant_id,
    )


def _mine(call: Call) -> sa.ColumnElement[bool]:
    mine = ExperienceRequest.user_id.in_(call.caller.accounts)
    if call.caller.player_id is None:
        return mine
    return sa.and_(
        mine, sa.or_(ExperienceRequest.player_id.is_(None), ExperienceRequest.player_id == call.caller.player_id)
    )


async def _find(call: Call, xreq: str) -> ExperienceRequest:
    statement = (
        sa.select(ExperienceRequest)
        .where(ExperienceRequest.id == xreq)
        .options(joinedload(ExperienceRequest.coworld), joinedload(ExperienceRequest.user))
    )
    if not call.caller.elevated:
        statement = statement.where(_mine(call))
    row = await call.db.scalar(statement)
    if row is None:
        raise not_found("experience request", xreq)
    return row


async def _episodes(session: AsyncSession, request_id: str) -> Sequence[EpisodeRequest]:
    return (
        await session.scalars(
            sa.select(EpisodeRequest)
            .where(EpisodeRequest.experience_request_id == request_id)
            .order_by(EpisodeRequest.index)
            .execution_options(populate_existing=True)
        )
    ).all()


async def _counts(session: AsyncSession, ids: Sequence[str]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    if ids:
        found = await session.execute(
            sa.select(EpisodeRequest.experience_request_id, EpisodeRequest.status, sa.func.count())
            .where(EpisodeRequest.experience_request_id.in_(ids))
            .group_by(EpisodeRequest.experience_request_id, EpisodeRequest.status)
        )
        for key, status, count in found:
            counts.setdefault(str(key), {})[status] = count
    return counts


async def _detail(call: Call, row: ExperienceRequest, coworld: Coworld, user: User) -> JsonObject:
    episodes = await _episodes(call.db, row.id)
    counts: dict[str, int] = {}
    for episode in episodes:
        counts[episode.status] = counts.get(episode.status, 0) + 1
    tags = (await labels_of(call.db, [row.id]))[row.id]
    return _row(row, coworld, user, counts, tags) | {"episodes": await _written(call, episodes)}


async def _written(call: Call, episodes: Sequence[EpisodeRequest]) -> list[JsonObject]:
    """Episodes with their configs; configs too long for a list are left out, and given with each episode."""
    view, tags = view_of(call.services, call.caller), await labels_of_episodes(call.db, episodes)
    long = sum(row.shared.size for row in episodes if row.shared is not None) > MAX_BODY
    return [view.full(row, tags[row.id]) | ({"game_config": None} if long else {}) for row in episodes]


def _row(
    row: ExperienceRequest, coworld: Coworld, user: User, counts: dict[str, int], tags: dict[str, str]
) -> JsonObject:
    return {
        "id": row.id,
        "requester_user_id": row.user_id,
        "requester": user.name,
        "coworld_id": row.coworld_id,
        "coworld_name": coworld.name,
        "coworld_version": coworld.version,
        "variant_id": row.variant_id,
        "league_id": row.league_id,
        "division_id": row.division_id,
        "status": row.status,
        "episode_count": row.episode_count,
        "pending_count": counts.get("pending", 0),
        "submitted_count": 0,
        "running_count": counts.get("running", 0),
        "completed_count": counts.get("completed", 0),
        # A cancelled episode does not count as completed.
        "failed_count": counts.get("failed", 0) + counts.get("cancelled", 0),
        "cancelled_count": counts.get("cancelled", 0),
        "error": row.error,
        "title": row.title,
        "description": row.description,
        "tags": tags,
        "created_at": row.created_at,
        "started_at": row.started_at,
        "completed_at": row.completed_at,
    }
