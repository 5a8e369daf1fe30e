"""Cancelling episodes that wait in the queue, and forgetting what was cancelled before it began."""

from __future__ import annotations

import datetime as dt
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import lazyload

from ..store.columns import now
from ..store.database import Database, next_revision
from ..store.disabled import disabled_episodes, disabled_roles
from ..store.models import (
    Artifact,
    EpisodeRequest,
    ExperienceRequest,
    GameConfig,
    HostedSession,
    Label,
    Participant,
    RoleRun,
)
from .queue import settle_request

__all__ = ["cancel_disabled", "cancel_waiting", "forget_cancelled"]

_BATCH = 50
"""Requests that are forgotten in one transaction, so that others may write in between."""


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


async def forget_cancelled(database: Database, before: dt.datetime) -> int:
    """Remove requests that were cancelled before anything of them began: they say nothing that anybody will ask for.

    Args:
        database: The database.
        before: Only those that were over at this time.

    Returns:
        The number of episodes.
    """
    over = EpisodeRequest.completed_at < before
    began = sa.or_(EpisodeRequest.status != "cancelled", EpisodeRequest.started_at.is_not(None), ~over)
    of_request = EpisodeRequest.experience_request_id == ExperienceRequest.id
    requests = sa.select(ExperienceRequest.id).where(
        ExperienceRequest.status == "cancelled",
        ExperienceRequest.cancelled_at < before,
        ~sa.exists().where(of_request, sa.or_(began, _used())),
    )
    alone = sa.select(EpisodeRequest.id).where(
        EpisodeRequest.source == "request", EpisodeRequest.experience_request_id.is_(None), over, ~began, ~_used()
    )
    total = 0
    while True:
        async with database.reading() as session:
            parents = (await session.scalars(requests.limit(_BATCH))).all()
            within = EpisodeRequest.experience_request_id.in_(parents)
            columns = sa.select(EpisodeRequest.id, EpisodeRequest.config_id)
            rows = (
                await session.execute(columns.where(sa.or_(within, EpisodeRequest.id.in_(alone.limit(_BATCH)))))
            ).all()
        if not rows and not parents:
            return total
        ids, configs = [row[0] for row in rows], {row[1] for row in rows} - {None}
        removals: list[tuple[Any, Any]] = [
            (Participant.episode_request_id, ids),
            (EpisodeRequest.id, ids),
            (GameConfig.id, configs),
            (ExperienceRequest.id, parents),
            (Label.subject_id, [*ids, *parents]),
        ]
        async with database.writing() as session:
            for column, gone in removals:
                await session.execute(sa.delete(column.class_).where(column.in_(gone)))
        total += len(ids)


def _used() -> sa.ColumnElement[bool]:
    """Whether something else is there of an episode."""
    tables = (Artifact, RoleRun, HostedSession)
    return sa.or_(*(sa.exists().where(table.episode_request_id == EpisodeRequest.id) for table in tables))
