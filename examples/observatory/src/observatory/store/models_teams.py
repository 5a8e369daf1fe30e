"""Tables of people: how they sign in, the teams that they act for, and the leagues that they help to run."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from .columns import Base, now, reference

__all__ = ["LeagueOfficer", "SignInLink", "TeamMember"]


class SignInLink(Base):
    """The account to which an OpenID Connect provider signs somebody in."""

    __tablename__ = "sign_in_links"

    issuer: Mapped[str] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    """What the provider calls the person, for ever (`sub`)."""
    user_id: Mapped[str] = reference("users.id")
    created_at: Mapped[dt.datetime] = mapped_column(default=now)


class TeamMember(Base):
    """Somebody who acts for a team, which is an account (`User.is_shared`)."""

    __tablename__ = "team_members"

    team_id: Mapped[str] = reference("users.id", primary_key=True, index=False)
    user_id: Mapped[str] = reference("users.id", primary_key=True)
    joined_at: Mapped[dt.datetime] = mapped_column(default=now)
    """The first of those who are there is the captain."""


class LeagueOfficer(Base):
    """Somebody who helps to run a league. Who has an entry is an entrant, and everybody else a spectator."""

    __tablename__ = "league_officers"

    league_id: Mapped[str] = reference("leagues.id", primary_key=True, index=False)
    user_id: Mapped[str] = reference("users.id", primary_key=True)
    role: Mapped[str] = mapped_column(sa.String(16))
    """`organiser`: sees all of its league, retires entries, names assistants; `assistant`: sees all of it."""
