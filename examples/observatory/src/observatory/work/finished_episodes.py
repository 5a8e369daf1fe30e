"""Finished episodes of rounds as plain values: only their outcome."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.tournament import PlayedEpisode

from ..store.models import EpisodeRequest, EpisodeScore

__all__ = ["finished_episodes"]


async def finished_episodes(session: AsyncSession, condition: sa.ColumnElement[bool]) -> dict[str, list[PlayedEpisode]]:
    """Read the episodes of rounds, by round id.

    Args:
        session: A session.
        condition: A condition on `EpisodeRequest`.
    """
    scores: dict[str, list[float]] = {}
    for episode, score in await session.execute(
        sa.select(EpisodeScore.episode_request_id, EpisodeScore.score)
        .join(EpisodeRequest, EpisodeRequest.id == EpisodeScore.episode_request_id)
        .where(condition)
        .order_by(EpisodeScore.episode_request_id, EpisodeScore.position)
    ):
        scores.setdefault(episode, []).append(score)
    episodes: dict[str, list[PlayedEpisode]] = {}
    columns = (
        EpisodeRequest.round_id,
        EpisodeRequest.id,
        EpisodeRequest.index,
        EpisodeRequest.status,
        EpisodeRequest.error_type,
        EpisodeRequest.error,
        EpisodeRequest.failed_policy_index,
    )
    for round_id, id, index, status, error_type, error, slot in await session.execute(
        sa.select(*columns).where(condition)
    ):
        episodes.setdefault(str(round_id), []).append(
            PlayedEpisode(
                id=id,
                index=index,
                status=status,
                error_type=error_type,
                error=error,
                failed_slot=slot,
                scores=tuple(scores.get(id, ())),
            )
        )
    return episodes
