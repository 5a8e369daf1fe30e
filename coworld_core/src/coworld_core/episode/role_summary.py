"""What a supporting role said about an episode, as the episode's record tells it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ..documents.records import OpenEnum, Record
from ..role_kinds import Role

__all__ = ["Role", "RoleSummary"]


class RoleSummary(Record):
    """What became of a role that was asked for together with its episode; the role's own `role.json` has all of it."""

    role: Annotated[Role, OpenEnum] = Field(description="The role.")
    id: str = Field(description="The program: its id in the manifest, or the name of its file or image.")
    slot: int | None = Field(default=None, ge=0, description="The slot of the player that was diagnosed.")
    status: Annotated[Literal["completed", "failed"], OpenEnum] = Field(
        description="completed: what the program left is valid."
    )
    score: float | None = Field(default=None, description="The grade, on the grader's own scale.")
    directory: str | None = Field(
        default=None,
        description="What it left, relative to the workspace, with its role.json; null if it could not be run.",
    )
    page: str | None = Field(default=None, description="Its page, Markdown or HTML, relative to the workspace.")
    error_type: str | None = Field(default=None, description="What went wrong, if anything did.")
    message: str | None = Field(default=None, description="The same in a sentence.")

    def __str__(self) -> str:
        who = f"{self.role} {self.id}" + (f" on slot {self.slot}" if self.slot is not None else "")
        said = f": {self.score:g}" if self.score is not None else f": {self.message}" if self.message else ""
        return f"{who}{said}"
