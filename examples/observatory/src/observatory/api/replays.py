"""Replays in a browser, shown by the game itself."""

from __future__ import annotations

from typing import Annotated

import sqlalchemy as sa

from coworld_core import api

from ..episodes.access import visible
from ..errors import Refusal
from ..hosted.sessions import viewer_of
from ..store.models import Artifact, EpisodeRequest
from .routing import ApiRouter, Call, Json, gate, refusals

__all__ = ["router"]

router = ApiRouter(tags=["Replays"])


@router.post(
    "/v2/coworlds/replays/session", response_model=api.HostedReplaySession, responses=refusals(404, 422, 502, 503)
)
async def start_session(call: Annotated[Call, gate("anyone", held=False)], body: api.ReplaySessionBody) -> Json:
    """Have the game show the replay of an episode that you may see; other addresses are not fetched."""
    seen = sa.select(EpisodeRequest).where(visible(call.caller, public=call.services.settings.public))
    if body.episode_id is not None:
        seen = seen.where(sa.or_(EpisodeRequest.episode_id == body.episode_id, EpisodeRequest.id == body.episode_id))
    elif body.replay_uri is not None:
        # Only the id of an artifact here is taken from it.
        parts = body.replay_uri.partition("?")[0].split("/")
        mine = sa.select(Artifact.episode_request_id).where(Artifact.id.in_(parts[-2:]))
        seen = seen.where(EpisodeRequest.id.in_(mine))
    else:
        issue: dict[str, object] = {
            "type": "missing",
            "loc": ["body", "episode_id"],
            "msg": "Give either the episode or its replay.",
        }
        raise Refusal(422, [issue], code="validation_error")
    row = await call.db.scalar(seen)
    if row is None or row.coworld_id != body.coworld_id:
        raise Refusal(404, "This Coworld has no such episode.", code="not_found")
    return Json({"viewer_url": await viewer_of(call.services, call.caller, row, call.request), "ready": True})
