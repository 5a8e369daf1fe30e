"""The table of addresses that are told of events."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from .columns import Base, JsonList, id_column, now, reference

__all__ = ["Webhook"]


class Webhook(Base):
    """An address that is told of the events that concern an account; its key is derived from the installation's."""

    __tablename__ = "webhooks"

    id: Mapped[str] = id_column("hook")
    user_id: Mapped[str] = reference("users.id")
    url: Mapped[str] = mapped_column(sa.Text())
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    after: Mapped[dt.datetime] = mapped_column(default=now)
    """Events from then on are told, but for those of `told`."""
    told: Mapped[JsonList] = mapped_column(default=list)
    """Ids of events since `after` that were told."""
    next_at: Mapped[dt.datetime] = mapped_column(default=now)
    """When it may be tried next."""
    delivered_at: Mapped[dt.datetime | None]
    failures: Mapped[int] = mapped_column(default=0)
    """Attempts since the last one that succeeded."""
    error: Mapped[str | None] = mapped_column(sa.Text())
    """Why the last attempt failed; null if it did not."""
    ended_at: Mapped[dt.datetime | None]
    """When it was given up."""
