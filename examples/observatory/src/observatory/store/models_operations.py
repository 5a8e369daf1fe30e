"""Tables for operators: the audit log, and the workers."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from .columns import Base, JsonObject, id_column, now, reference

__all__ = ["AuditEntry", "WorkerRow"]


class AuditEntry(Base):
    """An entry of the audit log, added by ``store.audit``. The database refuses to change or delete entries."""

    __tablename__ = "audit_entries"

    id: Mapped[str] = id_column("aud")
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)
    action: Mapped[str] = mapped_column(sa.String(64), index=True)
    actor: Mapped[str] = mapped_column(sa.String(16))
    """``operator``: a person on the server's machine; ``user``, ``player`` or ``anonymous``: a request; ``server``:
    the program itself."""
    actor_id: Mapped[str | None] = reference("users.id", index=False)
    """The account behind a request."""
    origin: Mapped[str | None]
    """The address that a request came from, or the operator's user name on the machine."""
    user_id: Mapped[str | None] = reference("users.id")
    """The account that it concerns."""
    subject: Mapped[str | None]
    """What it concerns, if not the account itself."""
    detail: Mapped[JsonObject] = mapped_column(default=dict)


class WorkerRow(Base):
    """A worker's announcement; a worker that stopped cleanly has no row."""

    __tablename__ = "workers"

    name: Mapped[str] = mapped_column(primary_key=True)
    """The owner of its leases."""
    backend: Mapped[str]
    parallel: Mapped[int]
    trouble: Mapped[str | None] = mapped_column(sa.Text())
    """Why it starts no episodes."""
    started_at: Mapped[dt.datetime] = mapped_column(default=now)
    seen_at: Mapped[dt.datetime] = mapped_column(default=now)
