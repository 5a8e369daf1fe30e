"""Findings about a document, as data: one issue per cause, all of them at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Issue", "Report", "Severity"]

Severity = Literal["error", "warning", "info"]


class Issue(BaseModel):
    """One finding about one place in a document."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    code: str = Field(description="Stable snake_case identifier of the kind of finding.")
    severity: Severity = Field(default="error", description="error stops a run; warning and info do not.")
    pointer: str = Field(default="", description="JSON pointer (RFC 6901) to the place; empty for the whole document.")
    line: int | None = Field(default=None, ge=1, description="Line in the file, from 1, where known.")
    column: int | None = Field(default=None, ge=1, description="Column in the line, from 1, where known.")
    message: str = Field(description="What is wrong, in plain words.")
    hint: str | None = Field(default=None, description="What to do about it.")

    def __str__(self) -> str:
        where = f"{self.line}:{self.column}: " if self.line is not None else ""
        pointer = f" (at {self.pointer})" if self.pointer else ""
        hint = f" {self.hint}" if self.hint else ""
        return f"{where}{self.severity}[{self.code}]: {self.message}{pointer}{hint}"


class Report(BaseModel):
    """All findings about one document: errors first, then in document order."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    source: str = Field(description="The file, URI or name that was read.")
    issues: tuple[Issue, ...] = Field(default=(), description="The findings.")

    @property
    def ok(self) -> bool:
        """True when nothing in the report is an error."""
        return not self.errors

    @property
    def errors(self) -> tuple[Issue, ...]:
        """The findings that stop a run."""
        return tuple(issue for issue in self.issues if issue.severity == "error")

    @property
    def warnings(self) -> tuple[Issue, ...]:
        """The findings that are worth reading but do not stop a run."""
        return tuple(issue for issue in self.issues if issue.severity == "warning")

    def extended(self, issues: Iterable[Issue]) -> Report:
        """A copy of the report with more findings."""
        return self.model_copy(update={"issues": (*self.issues, *issues)})

    def summary(self) -> str:
        """One or two sentences: how many errors, and the first of them."""
        errors = self.errors
        if not errors:
            return f"{self.source} has no errors."
        first = errors[0]
        where = f":{first.line}:{first.column}" if first.line is not None else ""
        rest = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        return f"{self.source}{where}: {first.message}{rest}"

    def __str__(self) -> str:
        return "\n".join([f"{self.source}: {len(self.errors)} error(s)", *(f"  {issue}" for issue in self.issues)])
