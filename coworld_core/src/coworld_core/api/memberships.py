"""Memberships and submissions: how a policy enters a league, and its standing there."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ._open_enums import MembershipStatus, SubmissionStatus
from ._wire_models import Body, LongText, Text, Time, Wire, newer, part, required
from .identity import Player
from .leagues import Division, League
from .policies import PolicyVersion

__all__ = ["AutoChampion", "Membership", "RetireBody", "Submission", "SubmissionBody", "SubmissionCreated"]

AutoChampion = Literal["always", "never", "lineage"]
"""Whether a submission becomes its owner's champion: always, never, or if it descends from the current one."""


class Membership(Wire):
    """A policy version in a division."""

    id: str = required("`lpm_<uuid>`.")
    status: MembershipStatus = required("Its status.", MembershipStatus(""))
    substatus: str | None = Field(default=None, description="The status in more detail, defined by the commissioner.")
    is_champion: bool = Field(default=False, description="Whether its owner nominates it, not whether it has won.")
    start_time: Time | None = Field(default=None, description="When it began.")
    end_time: Time | None = Field(default=None, description="When it ended, if it has.")
    league: League = part(League, "The league.")
    division: Division = part(Division, "The division.")
    policy_version: PolicyVersion = part(PolicyVersion, "The policy version.")
    player: Player | None = Field(default=None, description="The player that it belongs to.")
    created_at: Time | None = required("When it was created.", None)
    is_active: bool | None = newer("Whether it competes, on older servers.")
    reason: str | None = newer("Why it is benched, disqualified or retired, for its owner.")


class RetireBody(Body):
    """End a membership."""

    reason: LongText | None = Field(default=None, description="The reason, as free text.")


class Submission(Wire):
    """A request to enter a policy version into a league."""

    id: str = required("`sub_<uuid>`.")
    auto_champion: str = Field(default="always", description="always, never or lineage.")
    status: SubmissionStatus = required("Its status.", SubmissionStatus(""))
    league: League = part(League, "The league.")
    policy_version: PolicyVersion = part(PolicyVersion, "The policy version.")
    player: Player | None = Field(default=None, description="The player that it belongs to.")
    league_policy_membership_id: str | None = Field(default=None, description="The membership, once it is placed.")
    notes: str | None = Field(default=None, description="The platform's notes.")
    created_at: Time | None = required("When it was created.", None)


class SubmissionCreated(Wire):
    """The answer to a new submission. Newer servers send the whole `Submission`, whose fields are kept here, too."""

    id: str = required("`sub_<uuid>`.")
    status: SubmissionStatus = required("Its status.", SubmissionStatus(""))
    league_policy_membership_id: str | None = Field(default=None, description="The membership, if it is placed.")
    notes: str | None = Field(default=None, description="The platform's notes.")


class SubmissionBody(Body):
    """Submit a policy version to a league."""

    league_id: Text = Field(description="`league_<uuid>`.")
    policy_version_id: Text = Field(description="UUID.")
    auto_champion: AutoChampion = Field(default="always", description="Whether it becomes your champion.")
    preferences: dict[str, Any] | None = Field(
        default=None, description="Preferences that the commissioner understands."
    )
    player_id: Text | None = Field(default=None, description="The player to submit as.")
