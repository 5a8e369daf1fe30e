"""Supporting roles on a platform: graders, reporters and diagnosers that are run on its episodes."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ..role_kinds import HostedRole
from ._open_enums import RequestStatus
from ._wire_models import Body, Text, Time, Wire, required
from .experience import MAX_ROSTER

__all__ = ["HostedRole", "RoleRun", "RoleRunBody"]


class RoleRun(Wire):
    """The program of a role, run on an episode."""

    id: str = required("`role_<uuid>`.")
    episode_request_id: str = required("The episode, `ereq_<uuid>`.")
    role: str = required("`grader`, `reporter` or `diagnoser`.")
    runnable_id: str = required("The program: its id in the Coworld's manifest.")
    automatic: bool = required("Whether the league orders it after each episode, not somebody by a request.", False)
    position: int | None = Field(default=None, description="The slot of the player that is diagnosed.")
    slots: tuple[int, ...] = Field(
        default=(),
        description="The slots whose players' logs and artifacts it was given. Only who may read them may see it.",
    )
    status: RequestStatus = required("Its status.", RequestStatus(""))
    answer: Any = Field(
        default=None, description="What it says: a grade with its `score`, or the manifest of a report or diagnosis."
    )
    error_type: str | None = Field(default=None, description="The kind of failure, such as `program_error`.")
    error: str | None = Field(default=None, description="What went wrong, in words.")
    log_tail: str | None = Field(default=None, description="The end of its log, if it has failed.")
    output_size: int | None = Field(
        default=None, description="Size in bytes of the file that it wrote, if that is kept."
    )
    page_url: str | None = Field(default=None, description="Where its page can be seen in a browser, if it has one.")
    seconds: float | None = Field(default=None, description="How long it ran.")
    created_at: Time | None = required("When it was asked for.", None)
    started_at: Time | None = Field(default=None, description="When it began.")
    completed_at: Time | None = Field(default=None, description="When it ended.")


class RoleRunBody(Body):
    """A role to be run on an episode."""

    role: HostedRole = Field(description="The role.")
    runnable_id: Text | None = Field(
        default=None, description="The program: its id in the Coworld's manifest. By default the only one of this role."
    )
    position: int | None = Field(
        default=None, ge=0, lt=MAX_ROSTER, description="For a diagnoser, the slot of your own player."
    )
    private: bool = Field(
        default=False,
        description="Whether a reporter is given the logs and artifacts of your own players, too. Nobody else sees it.",
    )
