"""The grade of an episode, as a grader gives it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..documents.json_text import Source
from ..documents.records import open_record, read_as
from .open_shape import OpenShape

__all__ = ["Grade", "read_grade"]


class Grade(OpenShape):
    """How good an episode was, on a scale of the grader's own. Further fields are the grader's."""

    score: Annotated[float, Field(strict=True, allow_inf_nan=False)] = Field(description="The grade: a finite number.")
    grader_id: str | None = Field(default=None, description="The grader.")


def read_grade(source: Source) -> Grade:
    """Read what a grader has written.

    Args:
        source: Its file, or its content as bytes or as a Python value.

    Raises:
        UsageError: The file does not exist (`record_not_found`) or cannot be read (`record_unreadable`).
        RecordError: It is not a grade: `score` is missing, or is no finite number.
    """
    return read_as(Grade, open_record(source, what="grade", name="grade.json"), what="grade")
