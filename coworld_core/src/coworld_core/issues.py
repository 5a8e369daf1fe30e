"""Findings about a document, as data: one issue per cause, all of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .hints import Hint, HintValue, hint_fields

__all__ = ["HintCode", "HintValues", "Hinted", "Issue", "Report", "Severity", "absent"]

Severity = Literal["error", "warning", "info"]


def absent(value: object) -> bool:
    """Whether a field was left out. Older readers refuse some fields even as null, so these are not written."""
    return value is None


HintCode = Annotated[
    str | None, Field(exclude_if=absent, description="Stable snake_case identifier of the hint, if it has one.")
]
"""Type of the field `hint_code` of a `Hinted`."""

HintValues = Annotated[
    dict[str, HintValue] | None, Field(exclude_if=absent, description="The values that the hint tells, by name.")
]
"""Type of the field `hint_values` of a `Hinted`."""


class Hinted(BaseModel):
    """A value with a hint, whose code and values it keeps in fields of their own, so that they outlast a file.

    Each model has its three fields `hint`, `hint_code` and `hint_values` at the place where it wants them.
    """

    # Built on first use, if ever: importing this must not delay the start of a program
    model_config = ConfigDict(defer_build=True)

    if TYPE_CHECKING:
        hint: str | None
        hint_code: HintCode
        hint_values: HintValues

    @model_validator(mode="before")
    @classmethod
    def _from_hint(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        given = cast("Mapping[str, Any]", data)
        hint: object = given.get("hint")
        return {**given, **hint_fields(hint)} if isinstance(hint, Hint) else given

    @model_validator(mode="after")
    def _to_hint(self) -> Self:
        if self.hint is not None and self.hint_code is not None:
            # Frozen for everyone else
            object.__setattr__(self, "hint", Hint.restored(self.hint, self.hint_code, self.hint_values or {}))
        return self


class Issue(Hinted):
    """One finding about one place in a document."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    code: str = Field(description="Stable snake_case identifier of the kind of finding.")
    severity: Severity = Field(default="error", description="error stops a run; warning and info do not.")
    pointer: str = Field(default="", description="JSON pointer (RFC 6901) to the place; empty for the whole document.")
    line: int | None = Field(default=None, ge=1, description="Line in the file, from 1, where known.")
    column: int | None = Field(default=None, ge=1, description="Column in the line, from 1, where known.")
    message: str = Field(description="What is wrong, in plain words.")
    hint: str | None = Field(default=None, description="What to do about it.")
    hint_code: HintCode = None
    hint_values: HintValues = None

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
