"""Tables of leagues whose rounds a commissioner decides: the lease on it, and its events."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from .columns import Base, now, reference

__all__ = ["Commission", "CommissionEvent"]


class Commission(Base):
    """The lease of the server that talks to a league's commissioner, and the commissioner's last failure."""

    __tablename__ = "commissions"

    league_id: Mapped[str] = reference("leagues.id", index=False, primary_key=True)
    owner: Mapped[str | None]
    """The server that holds the lease."""
    token: Mapped[str | None] = mapped_column(sa.String(64))
    """Required for every change, so that a server wrongly taken for dead can change nothing."""
    run_id: Mapped[str | None] = mapped_column(sa.String(64))
    """The run label of the commissioner's program."""
    expires_at: Mapped[dt.datetime] = mapped_column(default=now)
    trouble: Mapped[str | None] = mapped_column(sa.Text())
    """Why no round is played; None if there is no problem."""
    trouble_at: Mapped[dt.datetime | None]


class CommissionEvent(Base):
    """An event of a season's log (`coworld_core.tournament.tournament_log`), which tells the state of its rounds."""

    __tablename__ = "commission_events"

    league_id: Mapped[str] = reference("leagues.id", index=False, primary_key=True)
    season: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    """Counts from 1 without gaps."""
    event: Mapped[str] = mapped_column(sa.Text())
    """JSON."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
