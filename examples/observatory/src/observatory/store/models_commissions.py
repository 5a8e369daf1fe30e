"""Tables of leagues whose rounds a commissioner decides: who speaks to it, and what it has said."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from .columns import Base, now, reference

__all__ = ["Commission", "CommissionEvent"]


class Commission(Base):
    """Which server speaks to a league's commissioner, under a lease, and what was wrong the last time."""

    __tablename__ = "commissions"

    league_id: Mapped[str] = reference("leagues.id", index=False, primary_key=True)
    owner: Mapped[str | None]
    """The server that holds the lease."""
    token: Mapped[str | None] = mapped_column(sa.String(64))
    """What it says with every change: whoever was thought dead, and is not, changes nothing any more."""
    run_id: Mapped[str | None] = mapped_column(sa.String(64))
    """The label of the commissioner's program there."""
    expires_at: Mapped[dt.datetime] = mapped_column(default=now)
    trouble: Mapped[str | None] = mapped_column(sa.Text())
    """Why no round goes on; None: the last one did."""
    trouble_at: Mapped[dt.datetime | None]


class CommissionEvent(Base):
    """An event of a season's log (``coworld_core.tournament.log``); whatever else is known of its rounds follows."""

    __tablename__ = "commission_events"

    league_id: Mapped[str] = reference("leagues.id", index=False, primary_key=True)
    season: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    """From 1 without a gap."""
    event: Mapped[str] = mapped_column(sa.Text())
    """JSON."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
