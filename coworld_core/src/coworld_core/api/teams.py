"""Teams, for which several people act, and the people who help to run a league."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ._wire_models import Body, LongText, Text, Time, Wire, required
from .identity import PlayerName

__all__ = [
    "LeagueOfficer",
    "LeagueOfficerBody",
    "Team",
    "TeamBody",
    "TeamInvitation",
    "TeamInvitationBody",
    "TeamJoinBody",
    "TeamLeft",
    "TeamMember",
]


class TeamMember(Wire):
    """A member of a team."""

    user_id: str = required("The account.")
    name: str = required("Its name.")
    is_captain: bool = Field(default=False, description="Whether it may remove others: the one there for longest.")
    joined_at: Time | None = required("When it joined.", None)


class Team(Wire):
    """A team of yours: an owner of policies and entries like an account."""

    id: str = required("The account of the team.")
    name: str = required("Shown where an owner is.")
    members: tuple[TeamMember, ...] = Field(default=(), description="Its members, the captain first.")
    created_at: Time | None = required("When it was made.", None)


class TeamBody(Body):
    """Make a team."""

    name: PlayerName = Field(description="Its name, unlike that of any account or team.")


class TeamInvitationBody(Body):
    """Invite somebody into a team."""

    days: int = Field(default=14, ge=1, le=365, description="Days that the link works.")


class TeamInvitation(Wire):
    """A link by which one person joins a team, once."""

    team: str = required("The team's name.")
    link: str = Field(default="", description="The link.", repr=False, json_schema_extra={"x-required": True})
    days: int | None = required("Days that it works.", None)


class TeamJoinBody(Body):
    """Join a team."""

    code: LongText = Field(description="The link of an invitation, or the code at its end.", repr=False)


class TeamLeft(Wire):
    """Who has left a team."""

    team: str = required("The team's name.")
    member: str = required("The name of who has left.")
    entries_ended: int | None = Field(
        default=None, description="Entries of the team that have ended, if it was the last member."
    )


class LeagueOfficer(Wire):
    """Somebody who helps to run a league."""

    user_id: str = required("The account.")
    name: str = required("Its name.")
    role: str = required("`organiser` (sees everything, retires entries, names assistants) or `assistant` (sees it).")


class LeagueOfficerBody(Body):
    """Give somebody a role in a league, or take it away."""

    user: Text = Field(min_length=1, description="The account's name or id.")
    role: Literal["organiser", "assistant", "none"] = Field(description="The role; `none` takes it away.")
