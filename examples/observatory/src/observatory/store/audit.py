"""The audit log: what operators did, and what touches security. It is written here alone, and nothing changes it."""

from __future__ import annotations

import datetime as dt
import time
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from .columns import JsonObject
from .database import Database
from .models import AuditEntry, User

__all__ = ["Actor", "RefusalLog", "acting", "audit", "audit_lines"]


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Who does what is done."""

    kind: Literal["operator", "user", "player", "anonymous", "server"]
    user_id: str | None = None
    origin: str | None = None
    """The address of a request, or the operator's name on the machine."""


_SERVER = Actor(kind="server")
_ACTOR: ContextVar[Actor] = ContextVar("actor", default=_SERVER)


@contextmanager
def acting(actor: Actor) -> Generator[None]:
    """Say whose doing it is, whatever is written inside."""
    token = _ACTOR.set(actor)
    try:
        yield
    finally:
        _ACTOR.reset(token)


def audit(
    session: AsyncSession,
    action: str,
    *,
    user_id: str | None = None,
    subject: str | None = None,
    **detail: str | float | list[str] | None,
) -> None:
    """Write a line, in the transaction of what it tells.

    Args:
        session: A writing session.
        action: What was done, as ``noun.verb``.
        user_id: The account that it is about.
        subject: What else it is about: an id, or what people call it.
        detail: What more there is to know. Never a secret: not a token's text, not a secret's value.
    """
    actor = _ACTOR.get()
    session.add(
        AuditEntry(
            action=action,
            actor=actor.kind,
            actor_id=actor.user_id,
            origin=actor.origin,
            user_id=user_id,
            subject=subject[:256] if subject is not None else None,
            detail={key: value for key, value in detail.items() if value is not None},
        )
    )


async def audit_lines(
    session: AsyncSession, *, since: dt.datetime | None = None, user: str | None = None, limit: int | None = None
) -> list[JsonObject]:
    """Lines of the log, the oldest first.

    Args:
        session: A session.
        since: Only from this moment on.
        user: Only what an account did or was done to it, by its name.
        limit: Only the last so many.
    """
    did, of = aliased(User), aliased(User)
    statement = (
        sa.select(AuditEntry, did.name, of.name)
        .outerjoin(did, did.id == AuditEntry.actor_id)
        .outerjoin(of, of.id == AuditEntry.user_id)
        .order_by(AuditEntry.created_at.desc(), AuditEntry.id.desc())
        .limit(limit)
    )
    if since is not None:
        statement = statement.where(AuditEntry.created_at >= since)
    if user is not None:
        statement = statement.where(sa.or_(did.name == user, of.name == user))
    lines: list[JsonObject] = [
        {
            "id": entry.id,
            "at": entry.created_at.isoformat(),
            "action": entry.action,
            "actor": entry.actor,
            "by": by,
            "origin": entry.origin,
            "user": about,
            "subject": entry.subject,
            "detail": entry.detail,
        }
        for entry, by, about in await session.execute(statement)
    ]
    return lines[::-1]


class RefusalLog:
    """Writes down that an account was refused for its quotas, once a minute however often it asks.

    Args:
        most: How many accounts are remembered.
    """

    EVERY = 60.0
    """Seconds."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._written: OrderedDict[tuple[str, str], float] = OrderedDict()

    async def write(self, database: Database, user_id: str, code: str, message: str) -> None:
        """Write it, in a transaction of its own: that of what was refused is undone."""
        now = time.monotonic()
        last = self._written.get((user_id, code))
        if last is not None and now - last < self.EVERY:
            return
        self._written[user_id, code] = now
        self._written.move_to_end((user_id, code))
        while len(self._written) > self._most:
            self._written.popitem(last=False)
        async with database.writing() as session:
            audit(session, "quota.refused", user_id=user_id, code=code, message=message)
