"""The audit log: actions of operators, and events that concern security. Entries are only ever added, and only here."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from ..bounded_mapping import BoundedMapping
from .columns import JsonObject, mentions
from .database import Database
from .models import AuditEntry, User

__all__ = ["Actor", "RefusalLog", "acting", "audit", "audit_entries", "audit_lines"]


@dataclass(frozen=True, kw_only=True)
class Actor:
    """The author of an action."""

    kind: Literal["operator", "user", "player", "anonymous", "server"]
    user_id: str | None = None
    origin: str | None = None
    """The address that a request comes from, or the operator's user name on the machine."""


_SERVER = Actor(kind="server")
_DID, _OF = aliased(User), aliased(User)
_ACTOR: ContextVar[Actor] = ContextVar("actor", default=_SERVER)


@contextmanager
def acting(actor: Actor) -> Generator[None]:
    """Set the author of all entries written in the block."""
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
    """Write an entry, in the transaction of the action itself.

    Args:
        session: A writing session.
        action: The action, as `noun.verb`.
        user_id: The account that it concerns.
        subject: Another subject that it concerns: an id, or a name.
        detail: Further details. Never a secret, such as the text of a token.
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


def audit_entries(words: str = "") -> sa.Select[AuditEntry]:
    """Select the entries that name something: an action, an account, an address or another subject."""
    named = (AuditEntry.action, AuditEntry.subject, AuditEntry.origin, _DID.name, _OF.name)
    return (
        sa.select(AuditEntry)
        .outerjoin(_DID, _DID.id == AuditEntry.actor_id)
        .outerjoin(_OF, _OF.id == AuditEntry.user_id)
        .where(mentions(words, *named))
    )


async def audit_lines(
    session: AsyncSession,
    *,
    since: dt.datetime | None = None,
    user: str | None = None,
    limit: int | None = None,
    among: Sequence[AuditEntry] | None = None,
) -> list[JsonObject]:
    """Entries of the log, oldest first.

    Args:
        session: A session.
        since: Only entries from this moment on.
        user: Only entries by or about the account of this name.
        limit: At most this many entries, the last ones.
        among: Only these; None: all.
    """
    statement = (
        audit_entries()
        .add_columns(_DID.name, _OF.name)
        .order_by(AuditEntry.created_at.desc(), AuditEntry.id.desc())
        .limit(limit)
    )
    if since is not None:
        statement = statement.where(AuditEntry.created_at >= since)
    if user is not None:
        statement = statement.where(sa.or_(_DID.name == user, _OF.name == user))
    if among is not None:
        statement = statement.where(AuditEntry.id.in_([entry.id for entry in among]))
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
    """Records that an account exceeded its quotas, at most once a minute for each account.

    Args:
        most: The number of accounts to remember.
    """

    EVERY = 60.0
    """Seconds."""

    def __init__(self, most: int = 10_000) -> None:
        self._written: BoundedMapping[tuple[str, str], float] = BoundedMapping(most)

    async def write(self, database: Database, user_id: str, code: str, message: str) -> None:
        """Write an entry in a transaction of its own, since that of the refused request is rolled back."""
        now = time.monotonic()
        last = self._written.get((user_id, code))
        if last is not None and now - last < self.EVERY:
            return
        self._written[user_id, code] = now
        async with database.writing() as session:
            audit(session, "quota.refused", user_id=user_id, code=code, message=message)
