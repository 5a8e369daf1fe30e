"""Cancelling episodes that wait in the queue."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import lazyload

from ..store.columns import now
from ..store.database import Database, next_revision
from ..store.disabled import disabled_episodes, disabled_roles
from ..store.models import EpisodeRequest, ExperienceRequest, RoleRun
from .queue import settle_request

__all__ = ["cancel_disabled", "cancel_waiting"]


async def cancel_disabled(database: Database) -> int:
    """Cancel what was requested in the moment of disabling an account or a policy, and still waits: episodes and roles.

    Until then no worker starts it (`Queue.claim`).

    Returns:
        The number of episodes.
    """
    left, roles = disabled_episodes(), sa.and_(RoleRun.status == "pending", disabled_roles())
    async with database.reading() as session:
        waiting = sa.select(EpisodeRequest.id).where(EpisodeRequest.status == "pending", left).limit(1)
        asked = sa.select(RoleRun.id).where(roles).limit(1)
        if await session.scalar(waiting) is None and await session.scalar(asked) is None:
            return 0
    async with database.writing() as session:
        why = "An operator disabled the account that asked for it."
        closed = {"status": "cancelled", "completed_at": now(), "error_type": "disabled", "error": why}
        await session.execute(sa.update(RoleRun).where(roles).values(**closed))
        return await cancel_waiting(
            session, left, "An operator disabled an account or a policy in this episode before it was played."
        )


async def cancel_waiting(
    session: AsyncSession, condition: sa.ColumnElement[bool], why: str, *, error_type: str = "disabled"
) -> int:
    """Cancel waiting episodes that satisfy a condition.

    Args:
        session: A writing session.
        condition: A condition on `EpisodeRequest`.
        why: The error message of each episode.
        error_type: The code of the error.

    Returns:
        The number of episodes.
    """
    waiting = sa.and_(EpisodeRequest.status == "pending", condition)
    parents = (await session.scalars(sa.select(EpisodeRequest.experience_request_id).where(waiting).distinct())).all()
    requests = [parent for parent in parents if parent is not None]
    # Lock in the same order as the queue: requests, their episodes, the counter.
    await session.execute(
        sa.select(ExperienceRequest.id)
        .where(ExperienceRequest.id.in_(requests))
        .order_by(ExperienceRequest.id)
        .with_for_update()
    )
    rows = (
        await session.scalars(
            sa.select(EpisodeRequest)
            .where(waiting)
            .order_by(EpisodeRequest.id)
            .options(lazyload("*"))
            .with_for_update(of=EpisodeRequest)
        )
    ).all()
    for row in rows:
        row.status, row.completed_at, row.error_type, row.error = "cancelled", now(), error_type, why
        row.revision = await next_revision(session)
    await session.flush()
    for request in requests:
        await settle_request(session, request)
    return len(rows)
