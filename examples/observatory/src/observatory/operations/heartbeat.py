"""Workers announce themselves, so that operators see which ones run and which have died."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import sqlalchemy as sa

from ..store.columns import now
from ..store.database import Database
from ..store.models import WORKER_GONE, WorkerRow
from ..supervisor import Supervisor

if TYPE_CHECKING:
    from ..work.worker import Worker

__all__ = ["heartbeat"]

_EVERY_SECONDS = WORKER_GONE.total_seconds() / 3
"""How often a worker announces itself."""

_log = logging.getLogger("observatory.work.worker")


@asynccontextmanager
async def heartbeat(database: Database, worker: Worker, backend: str, name: str) -> AsyncGenerator[None]:
    """Announce a worker while the block lasts, and remove it at the end.

    Args:
        database: The database.
        worker: The worker.
        backend: The name of its backend.
        name: The owner of its leases.
    """
    supervisor = Supervisor(_log)

    async def say() -> None:
        row = WorkerRow(
            name=name, backend=backend, parallel=worker.options.parallel, trouble=worker.disk.trouble, seen_at=now()
        )
        async with database.writing() as session:
            await session.merge(row)

    async def say_on() -> None:
        await anyio.sleep(_EVERY_SECONDS)
        await supervisor.repeat(say, "The worker cannot record that it is running", seconds=_EVERY_SECONDS)

    async with database.writing() as session:
        await session.execute(sa.delete(WorkerRow).where(WorkerRow.name == name))
    await say()
    async with anyio.create_task_group() as group:
        group.start_soon(say_on)
        try:
            yield
        finally:
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True), supervisor.trying("The worker cannot record that it has stopped"):
                async with database.writing() as session:
                    await session.execute(sa.delete(WorkerRow).where(WorkerRow.name == name))
