"""Changing the labels of one's own episodes, experience requests, policy versions and Coworlds."""

from __future__ import annotations

import sqlalchemy as sa

from coworld_core import api
from coworld_core.records import MAX_LABELS

from ..episodes.access import find_episode
from ..errors import forbidden, invalid, not_found
from ..store.kept_labels import change_labels
from ..store.models import ExperienceRequest, PolicyVersion
from .catalogue import find_coworld
from .routing import ApiRouter, Call, Json, SignedIn

__all__ = ["router"]

router = ApiRouter(tags=["Labels"])


@router.patch("/v2/episode-requests/{ereq}/tags", response_model=api.Tagged)
async def label_episode(call: SignedIn, ereq: str, body: api.TagChangesBody) -> Json:
    """Change the labels of an episode that you requested; those of its experience request stay as they are."""
    row = await find_episode(call.db, call.services, call.caller, ereq)
    # A league's episodes count as those of the game's owner, who has not requested them
    if row.round_id is not None and not call.caller.elevated:
        raise forbidden("This episode belongs to a league. You can label episodes that you requested.")
    if not call.caller.owns(row.user_id, row.player_id):
        raise forbidden("This episode was requested by another account.")
    return await _changed(call, ereq, body, above=row.experience_request_id)


@router.patch("/v2/experience-requests/{xreq}/tags", response_model=api.Tagged)
async def label_request(call: SignedIn, xreq: str, body: api.TagChangesBody) -> Json:
    """Change the labels of your own experience request, which its episodes have, too."""
    row = await call.db.get(ExperienceRequest, xreq)
    if row is None or not call.caller.owns(row.user_id, row.player_id):
        raise not_found("experience request", xreq)
    return await _changed(call, xreq, body)


@router.patch("/v2/policy-versions/{version_id}/tags", response_model=api.Tagged)
async def label_policy_version(call: SignedIn, version_id: str, body: api.TagChangesBody) -> Json:
    """Change the labels of a version of your own policy."""
    row = await call.db.scalar(sa.select(PolicyVersion).where(PolicyVersion.id == version_id))
    if row is None or not call.caller.owns(row.user_id, row.player_id):
        raise not_found("policy version of yours", version_id)
    return await _changed(call, version_id, body)


@router.patch("/v2/coworlds/{coworld_id}/tags", response_model=api.Tagged)
async def label_coworld(call: SignedIn, coworld_id: str, body: api.TagChangesBody) -> Json:
    """Change the labels of a version of your own Coworld."""
    row = await find_coworld(call.db, call.caller, coworld_id)
    if not call.caller.owns(row.user_id):
        raise forbidden("This Coworld belongs to another account.")
    return await _changed(call, coworld_id, body)


async def _changed(call: Call, id: str, body: api.TagChangesBody, *, above: str | None = None) -> Json:
    tags = await change_labels(call.db, id, body.tags, above=above)
    if len(tags) > MAX_LABELS:
        raise invalid(f"These are {len(tags)} labels in all; at most {MAX_LABELS} are kept.", at=("body", "tags"))
    return Json({"id": id, "tags": tags})
