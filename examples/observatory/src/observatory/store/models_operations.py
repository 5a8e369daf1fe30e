"""Tables of the installation itself: the audit log, workers and servers, and what they share."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.orm import Mapped, mapped_column

from .columns import Base, JsonObject, id_column, now, reference

__all__ = ["WORKER_GONE", "AuditEntry", "InstallationKey", "ServerRow", "UsedState", "WorkerRow"]

WORKER_GONE = dt.timedelta(seconds=30)
"""How long after its last announcement a worker counts as dead."""


class AuditEntry(Base):
    """An entry of the audit log, added by `store.audit`. The database refuses to change or delete entries."""

    __tablename__ = "audit_entries"

    id: Mapped[str] = id_column("aud")
    created_at: Mapped[dt.datetime] = mapped_column(default=now, index=True)
    action: Mapped[str] = mapped_column(sa.String(64), index=True)
    actor: Mapped[str] = mapped_column(sa.String(16))
    """`operator`: a person on the server's machine; `user`, `player` or `anonymous`: a request; `server`:
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


_GROWS_ONLY = {
    "sqlite": [
        f"CREATE TRIGGER audit_entries_no_{change.lower()} BEFORE {change} ON audit_entries "
        "BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END"
        for change in ("UPDATE", "DELETE")
    ],
    "postgresql": [
        "CREATE FUNCTION audit_only_grows() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the audit log only grows'; END $$",
        "CREATE TRIGGER audit_only_grows BEFORE UPDATE OR DELETE ON audit_entries "
        "FOR EACH ROW EXECUTE FUNCTION audit_only_grows()",
    ],
}
for _dialect, _statements in _GROWS_ONLY.items():
    for _statement in _statements:
        event.listen(AuditEntry.__table__, "after_create", sa.DDL(_statement).execute_if(dialect=_dialect))
event.listen(
    AuditEntry.__table__, "after_drop", sa.DDL("DROP FUNCTION audit_only_grows").execute_if(dialect="postgresql")
)


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


class ServerRow(Base):
    """Where a server answers others of the installation; one that stopped cleanly has no row."""

    __tablename__ = "servers"

    id: Mapped[str] = mapped_column(sa.String(16), primary_key=True)
    """Of its name (`settings.server_id`)."""
    address: Mapped[str]
    """`host:port`."""
    seen_at: Mapped[dt.datetime] = mapped_column(default=now)


class InstallationKey(Base):
    """The fingerprint of the key that all servers and workers have; one row."""

    __tablename__ = "installation_key"

    fingerprint: Mapped[str] = mapped_column(sa.String(64), primary_key=True)


class UsedState(Base):
    """What may be used once, and was, until it expires: the state of a sign-in by a provider."""

    __tablename__ = "used_states"

    digest: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    """Its SHA-256."""
    expires_at: Mapped[dt.datetime] = mapped_column(index=True)
