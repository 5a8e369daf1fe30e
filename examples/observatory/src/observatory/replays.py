"""Replays in a browser: the game itself shows what it has kept."""

from __future__ import annotations

import sqlalchemy as sa
from pydantic import Field

from coworld_core import api

from .columns import JsonObject
from .episodes_access import visible
from .errors import Refusal
from .hosted_sessions import viewer_of
from .models import Artifact, EpisodeRequest
from .routing import Body, Call, LongText, Router, Text

__all__ = ["router"]

router = Router("Replays")


class ReplaySession(Body):
    """Which replay is to be shown."""

    coworld_id: Text = Field(description="The Coworld that played it.")
    episode_id: Text | None = Field(default=None, description="The episode, or the episode request.")
    replay_uri: LongText | None = Field(default=None, description="Its replay, as the episode request names it.")


@router.post(
    "/v2/coworlds/replays/session",
    access="anyone",
    answer=api.HostedReplaySession,
    transaction=False,
    refusals=(404, 422, 502, 503),
)
async def start_session(call: Call, body: ReplaySession) -> JsonObject:
    """Have the game show the replay of an episode one may see; nothing from elsewhere is fetched."""
    seen = sa.select(EpisodeRequest).where(visible(call.caller, public=call.services.settings.public))
    if body.episode_id is not None:
        seen = seen.where(sa.or_(EpisodeRequest.episode_id == body.episode_id, EpisodeRequest.id == body.episode_id))
    elif body.replay_uri is not None:
        # only the name of an artifact of ours is taken from it
        parts = body.replay_uri.partition("?")[0].split("/")
        mine = sa.select(Artifact.episode_request_id).where(Artifact.id.in_(parts[-2:]))
        seen = seen.where(EpisodeRequest.id.in_(mine))
    else:
        issue: dict[str, object] = {
            "type": "missing",
            "loc": ["body", "episode_id"],
            "msg": "Name the episode, or its replay.",
        }
        raise Refusal(422, [issue], code="validation_error")
    row = await call.db.scalar(seen)
    if row is None or row.coworld_id != body.coworld_id:
        raise Refusal(404, "There is no such episode of this Coworld.", code="not_found")
    return {"viewer_url": await viewer_of(call.services, call.caller, row), "ready": True}
