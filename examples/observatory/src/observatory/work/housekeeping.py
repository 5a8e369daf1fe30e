"""Removes expired rows and stale uploads once an hour."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import anyio.to_thread
import sqlalchemy as sa

from ..services import Services
from ..store.columns import now
from ..store.models import AuthCode, Idempotent, Lobby, Token, UsedState
from ..supervisor import Supervisor
from .cancellation import forget_cancelled

__all__ = ["lifespan", "tidy"]

EVERY_SECONDS = 3600.0

KEPT = dt.timedelta(days=7)
"""How long expired tokens and drafts, and answers stored under an idempotency key, are kept."""
CANCELLED_KEPT = dt.timedelta(days=1)
"""How long requests are kept that were cancelled before they began: whoever follows them hears of it."""

_log = logging.getLogger("observatory")


@asynccontextmanager
async def lifespan(services: Services) -> AsyncGenerator[None]:
    """Tidy up regularly while the server runs."""
    tidying = partial(Supervisor(_log).repeat, partial(tidy, services), "Cleanup is delayed", seconds=EVERY_SECONDS)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tidying)
        yield
        tasks.cancel_scope.cancel()


async def tidy(services: Services) -> None:
    """Remove stale uploads, old stored answers, what expired long ago, and requests that were cancelled unbegun."""
    await anyio.to_thread.run_sync(services.blobs.sweep)
    before = now() - KEPT
    async with services.database.writing() as session:
        await session.execute(sa.delete(Idempotent).where(Idempotent.created_at < before))
        await session.execute(sa.delete(Lobby).where(Lobby.session_id.is_(None), Lobby.expires_at < before))
        await session.execute(sa.delete(UsedState).where(UsedState.expires_at < now()))
        await session.execute(sa.delete(AuthCode).where(AuthCode.expires_at < before))
        await session.execute(sa.delete(Token).where(Token.kind != "user", Token.expires_at < before))
    await forget_cancelled(services.database, now() - CANCELLED_KEPT)
