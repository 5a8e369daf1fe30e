"""Retention: replays, logs, players' files and reports of old episodes are removed; results, scores and grades stay."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import sqlalchemy as sa

from ..services import Services
from ..settings import Retention
from ..store.audit import audit
from ..store.columns import JsonObject, now
from ..store.models import FINAL_STATUSES, Artifact, EpisodeRequest, RoleRun
from ..supervisor import Supervisor

__all__ = ["PRUNED", "lifespan", "prune"]

EVERY_SECONDS = 3600.0

PRUNED = ("replay", "events", "game_logs", "player_logs", "player_artifact")
"""Kinds of artifacts to remove; results and error information stay, with the row and the scores."""

_BATCH = 200

_log = logging.getLogger("observatory")


@asynccontextmanager
async def lifespan(services: Services) -> AsyncGenerator[None]:
    """Prune old episodes regularly while the server runs, if there is a rule."""
    async with anyio.create_task_group() as tasks:
        if services.settings.retention != Retention():
            what = "Old episodes cannot be pruned yet"
            tasks.start_soon(partial(Supervisor(_log).repeat, partial(_prune, services), what, seconds=EVERY_SECONDS))
        yield
        tasks.cancel_scope.cancel()


async def prune(services: Services, rule: Retention, *, dry_run: bool = False) -> JsonObject:
    """Remove artifacts of episodes that a rule does not keep.

    Bytes are removed before their rows, so that an interrupted run is completed by the next.

    Args:
        services: The stores.
        rule: The rule of what to keep.
        dry_run: Whether only to count.

    Returns:
        The numbers of `episodes`, `files` and `bytes` that were removed, or would be.
    """
    async with services.database.reading() as session:
        ids = (await session.scalars(_old(rule))).all()
    files = size = 0
    for first in range(0, len(ids), _BATCH):
        batch = ids[first : first + _BATCH]
        going = sa.and_(Artifact.episode_request_id.in_(batch), Artifact.kind.in_(PRUNED))
        said = sa.and_(RoleRun.episode_request_id.in_(batch), RoleRun.role != "grader", RoleRun.output_key.is_not(None))
        async with services.database.reading() as session:
            left = sa.select(Artifact.key, Artifact.size).where(going)
            written = sa.select(RoleRun.output_key, RoleRun.output_size).where(said)
            kept = [(str(key), int(count)) for key, count in await session.execute(sa.union_all(left, written))]
        freed = sum(count for _, count in kept)
        files, size = files + len(kept), size + freed
        if dry_run:
            continue
        await services.artifacts.delete(key for key, _ in kept)
        async with services.database.writing() as session:
            await session.execute(sa.delete(Artifact).where(going))
            await session.execute(sa.update(RoleRun).where(said).values(output_key=None, output_size=0))
            await session.execute(sa.update(EpisodeRequest).where(EpisodeRequest.id.in_(batch)).values(pruned_at=now()))
            audit(session, "episodes.pruned", episodes=len(batch), files=len(kept), bytes=freed)
    return {"episodes": len(ids), "files": files, "bytes": size}


def _old(rule: Retention) -> sa.Select[str]:
    """Ids of the episodes whose artifacts a rule does not keep, oldest first."""
    place = (
        sa.func.row_number()
        .over(
            partition_by=EpisodeRequest.user_id, order_by=(EpisodeRequest.completed_at.desc(), EpisodeRequest.id.desc())
        )
        .label("place")
    )
    over = (
        sa.select(EpisodeRequest.id, EpisodeRequest.completed_at, EpisodeRequest.pruned_at, place)
        .where(EpisodeRequest.status.in_(FINAL_STATUSES))
        .subquery()
    )
    rules: list[sa.ColumnElement[bool]] = []
    if rule.days is not None:
        rules.append(over.c.completed_at < now() - dt.timedelta(days=rule.days))
    if rule.episodes is not None:
        rules.append(over.c.place > rule.episodes)
    return (
        sa.select(over.c.id)
        .where(over.c.pruned_at.is_(None), sa.or_(sa.false(), *rules))
        .order_by(over.c.completed_at, over.c.id)
    )


async def _prune(services: Services) -> None:
    gone = await prune(services, services.settings.retention)
    if gone["episodes"]:
        _log.info("Pruned: %(files)s files, %(bytes)s bytes of %(episodes)s episodes", gone)
