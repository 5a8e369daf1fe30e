"""The plan of an optimizer: what it advises after reports, grades and diagnoses."""

from __future__ import annotations

import json

from pydantic import Field

from ..documents.json_text import Source
from ..documents.records import Record, open_record, read_as

__all__ = ["InputCounts", "OptimizerPlan", "read_optimizer_plan"]


class InputCounts(Record):
    """How many inputs of each kind an optimizer has read."""

    reports: int = Field(default=0, ge=0, description="Reports.")
    grader_outputs: int = Field(default=0, ge=0, description="Grades.")
    diagnoser_outputs: int = Field(default=0, ge=0, description="Diagnoses.")


class OptimizerPlan(Record):
    """What an optimizer advises."""

    optimizer_id: str = Field(description="The optimizer.")
    coworld_name: str = Field(description="The Coworld.")
    policy_workspace_uri: str | None = Field(default=None, description="Where the player is worked on, if anywhere.")
    input_counts: InputCounts = Field(default=InputCounts(), description="What was read.")
    recommendations: tuple[str, ...] = Field(default=(), description="What to do, in order.")

    def to_json(self) -> bytes:
        """The plan as its file: indented by two, with a newline at the end."""
        return (json.dumps(self.model_dump(mode="json"), indent=2, allow_nan=False) + "\n").encode()


def read_optimizer_plan(source: Source) -> OptimizerPlan:
    """Read what an optimizer has written.

    Args:
        source: Its file, or its content as bytes or as a Python value.

    Raises:
        UsageError: The file does not exist (`record_not_found`) or cannot be read (`record_unreadable`).
        RecordError: It is not a plan.
    """
    return read_as(OptimizerPlan, open_record(source, what="plan", name="plan.json"), what="plan of an optimizer")
