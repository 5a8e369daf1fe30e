"""The record of a supporting role that was run on episodes: `role.json`, beside what the role left."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ..documents.records import OpenEnum, Record, SchemaVersion, open_record, read_as
from ..episode.outcome import Fault
from ..episode.record import ArtifactRecord, UnitRecord
from ..episode.role_summary import Role

if TYPE_CHECKING:
    from ..documents.json_text import Source

__all__ = [
    "ROLES_DIRECTORY",
    "ROLE_EVENTS",
    "ROLE_FILES",
    "ROLE_RECORD",
    "DiagnosedPlayer",
    "Role",
    "RoleRecord",
    "read_role_record",
]

ROLE_RECORD = "role.json"
"""File name of a `RoleRecord`."""
ROLE_EVENTS = "events.ndjson"
"""File name of the events of a role, beside its record."""
ROLES_DIRECTORY = "roles"
"""Directory in an episode's workspace that holds a directory for each role that was run."""
ROLE_FILES = "files"
"""Directory of the files of a report or a diagnosis, beside the zip."""


class DiagnosedPlayer(Record):
    """The player of an episode that a diagnoser looked at."""

    slot: int = Field(ge=0, description="Its seat, from 0.")
    name: str = Field(default="", description="Display name.")
    source: str = Field(
        default="", description="Where it is from: a bundled player's id, a file, an image, or a policy version."
    )


class RoleRecord(Record):
    """What the program of a role did with episodes, and how that went."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this record's shape.")
    run_id: str = Field(description="The run's label, which everything it created carries.")
    role: Annotated[Role, OpenEnum] = Field(description="The role.")
    id: str = Field(description="The program: its id in the manifest, or the name of its file or image.")
    key: str = Field(description="Digest of the program and of all that it was given; the same key, the same work.")
    episodes: tuple[str, ...] = Field(description="Ids of the episodes.")
    player: DiagnosedPlayer | None = Field(default=None, description="The player that was diagnosed.")
    backend: str = Field(description="Name of the backend.")
    started_at: dt.datetime = Field(description="When it began (UTC).")
    seconds: float = Field(ge=0, description="Wall time from beginning to end.")
    status: Annotated[Literal["completed", "failed"], OpenEnum] = Field(
        description="completed: what the program left is valid."
    )
    answer: dict[str, Any] | None = Field(
        default=None, description="What it said: the grade, or the manifest of its report or diagnosis."
    )
    outputs: dict[str, ArtifactRecord] = Field(
        default_factory=dict[str, ArtifactRecord], description="The files that it left, by name."
    )
    fault: Fault | None = Field(default=None, description="What went wrong.")
    unit: UnitRecord | None = Field(
        default=None,
        description="The program: its image, command, end and logs. Null: not known, as of one that a platform ran.",
    )
    warnings: tuple[str, ...] = Field(default=(), description="Remarks that are not faults.")

    @property
    def ok(self) -> bool:
        """Whether what the program left is valid."""
        return self.status == "completed"

    @property
    def score(self) -> float | None:
        """The grade; None if it is no grader's, or there is none."""
        return float(self.answer["score"]) if self.role == "grader" and self.ok and self.answer else None


def read_role_record(source: Source) -> RoleRecord:
    """Read the record of a role, written by any version.

    Args:
        source: The path of a `role.json` or of the directory that holds it, its content as bytes, or the JSON as a
            Python value.

    Raises:
        RecordError: It is not such a record, or lacks a required field.
        UsageError: The file does not exist or cannot be read.
    """
    what = "role record"
    return read_as(RoleRecord, open_record(source, what=what, name=ROLE_RECORD), what=what)
