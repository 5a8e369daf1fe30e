"""The hosted check of a Coworld: after the upload, its own players play the certification episode."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.manifest import game_config_for, load_manifest
from coworld_runner.telemetry import current_traceparent

from ..store.columns import JsonObject
from ..store.database import next_revision
from ..store.models import COWORLD_UPLOAD, Coworld, EpisodeRequest, Participant

__all__ = ["check_state", "order_check"]


"""`EpisodeRequest.source` of such an episode."""

_STATES = {"pending": "queued", "running": "certifying", "completed": "certified"}


async def order_check(session: AsyncSession, coworld: Coworld, user_id: str) -> EpisodeRequest:
    """Order the certification episode of a Coworld, played by its own players."""
    manifest = load_manifest(dict(coworld.manifest)).manifest
    before = await session.scalar(
        sa.select(sa.func.count()).where(
            EpisodeRequest.coworld_id == coworld.id, EpisodeRequest.source == COWORLD_UPLOAD
        )
    )
    episode = EpisodeRequest(
        user_id=user_id,
        source=COWORLD_UPLOAD,
        index=before or 0,
        coworld_id=coworld.id,
        game_config=game_config_for(manifest, None),
        traceparent=current_traceparent(),
        revision=await next_revision(session),
    )
    session.add(episode)
    await session.flush()
    names = {entry.id: entry.name for entry in manifest.player}
    for position, seat in enumerate(manifest.certification.players):
        session.add(
            Participant(
                episode_request_id=episode.id,
                position=position,
                policy_name=names.get(seat.player_id, seat.player_id),
                bundled_player=seat.player_id,
            )
        )
    await session.flush()
    return episode


async def check_state(session: AsyncSession, coworld: Coworld) -> JsonObject:
    """The state of a Coworld's last check, as in the API."""
    episode = await session.scalar(
        sa.select(EpisodeRequest)
        .where(EpisodeRequest.coworld_id == coworld.id, EpisodeRequest.source == COWORLD_UPLOAD)
        .order_by(EpisodeRequest.index.desc())
        .limit(1)
    )
    if episode is None:
        return {"coworld_id": coworld.id, "state": "never_run", "certified": False}
    state = _STATES.get(episode.status, "failed")
    failed = state == "failed"
    return {
        "coworld_id": coworld.id,
        "state": state,
        "certified": state == "certified",
        "certification_job_id": episode.job_id,
        "episode_request_id": episode.id,
        "failed_step": "episode" if failed else None,
        "failure": {
            "kind": episode.error_type or episode.status,
            "detail": episode.error,
            "remediation": "Certify it on your own machine, fix the problems, and upload a new version.",
            "retryable": True,
        }
        if failed
        else None,
        "transcript_summary": [{"id": "episode", "status": state}],
        "completed_at": episode.completed_at,
    }
