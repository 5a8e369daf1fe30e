"""What tables with work for workers have in common: a place in the queue, and the lease of the worker that does it."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, ClassVar

import sqlalchemy as sa
from sqlalchemy.engine.default import DefaultExecutionContext
from sqlalchemy.orm import Mapped, mapped_column

from .columns import now, reference

__all__ = ["Queued", "queue_indexes"]


def queue_indexes(table: str, line: tuple[str, ...]) -> tuple[sa.Index, sa.Index]:
    """The index from which a claim reads who is next, of what waits, by line; and that of what people ask for teams."""
    for_team = sa.column("person_id") != sa.column("user_id")
    return (
        sa.Index(f"ix_{table}_queue", "status", *line, "created_at", "index"),
        sa.Index(f"ix_{table}_person", "person_id", sqlite_where=for_team, postgresql_where=for_team),
    )


def _account(context: DefaultExecutionContext) -> str:
    return context.get_current_parameters()["user_id"]


class Queued:
    """Work for a worker.

    A worker claims a `pending` row by writing `lease_token` and `lease_expires_at`, and finishes it in one
    transaction that requires the same token: a worker that has lost the lease changes nothing.
    """

    if TYPE_CHECKING:
        id: Mapped[str]

    LINE: ClassVar[tuple[str, ...]] = ("user_id", "person_id")
    """The columns that tell one line of the queue from another; rows of one line are claimed one after the other."""

    user_id: Mapped[str] = reference("users.id")
    """The account whose turns in the queue it uses."""
    person_id: Mapped[str] = mapped_column(sa.String(64), sa.ForeignKey("users.id"), default=_account)
    """Who asked for it, whose turns it uses as well: a member of a team, or the account itself."""
    index: Mapped[int] = mapped_column(default=0)
    """Its place among what was added at the same moment, such as the episodes of one request; from 0."""
    status: Mapped[str] = mapped_column(sa.String(32), default="pending")
    """`pending`, `running`, then `completed`, `failed` or `cancelled`."""
    attempts: Mapped[int] = mapped_column(default=0)
    lease_token: Mapped[str | None] = mapped_column(sa.String(64))
    lease_owner: Mapped[str | None]
    lease_expires_at: Mapped[dt.datetime | None] = mapped_column(index=True)
    run_id: Mapped[str | None]
    """Run label of the last attempt, for cleaning up after a crash."""
    error_type: Mapped[str | None] = mapped_column(sa.String(64))
    error: Mapped[str | None] = mapped_column(sa.Text())
    started_at: Mapped[dt.datetime | None]
    completed_at: Mapped[dt.datetime | None] = mapped_column(index=True)
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
