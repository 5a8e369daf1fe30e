"""What became of an improvement: its steps in a table, and the best player against the first."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ..documents.json_text import Source
from ..documents.records import OpenEnum, Record, SchemaVersion, open_record, read_as
from ..evaluation.markdown import markdown_text
from ..text.phrases import plural
from .improvement import ImprovementPlan, ImprovementState, ImprovementStep, StepComparison
from .improvement_budget import ImprovementSpent

__all__ = [
    "ImprovementEnd",
    "ImprovementReport",
    "improvement_markdown",
    "improvement_report",
    "read_improvement_report",
]

_NAME = "report.json"

ImprovementEnd = Annotated[Literal["", "steps", "episodes", "seconds", "losses"], OpenEnum]
"""What ended it: a part of its budget, or too many lost steps in a row; empty if it was interrupted."""


class ImprovementReport(Record):
    """The result of an improvement."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this record's shape.")
    plan: ImprovementPlan = Field(description="What was improved.")
    best: int = Field(ge=0, description="Step that made the best player; 0: the first player.")
    steps: tuple[ImprovementStep, ...] = Field(default=(), description="The steps.")
    spent: ImprovementSpent = Field(
        default=ImprovementSpent(), description="What was spent, also on a step that has not ended."
    )
    unfinished: int | None = Field(default=None, ge=1, description="Number of a step that has begun and not ended.")
    ended: ImprovementEnd = Field(default="", description="What ended it.")
    final: StepComparison | None = Field(
        default=None, description="The best player against the first, on seeds of its own; null if they are the same."
    )

    @property
    def improved(self) -> bool:
        """Whether the best player was found better than the first, on seeds that no step has used."""
        return self.final is not None and self.final.verdict == "better"

    @property
    def headline(self) -> str:
        """The result in a sentence."""
        name, after = self.plan.player.name, plural(len(self.steps), "step")
        if self.best == 0:
            return f"No change made {name} better, after {after}."
        if self.final is None:
            return (
                f"The best {name} is that of step {self.best}, after {after}; it was not compared with the first yet."
            )
        return f"The {name} of step {self.best} against the first: {self.final}; after {after}."


def improvement_report(
    state: ImprovementState,
    *,
    spent: ImprovementSpent | None = None,
    unfinished: bool = False,
    ended: ImprovementEnd = "",
    final: StepComparison | None = None,
) -> ImprovementReport:
    """The report of an improvement.

    Args:
        state: Where it stands.
        spent: What was spent, also on a step that has not ended; None: on those that have.
        unfinished: Whether the next step has begun.
        ended: What ended it.
        final: The best player against the first.
    """
    return ImprovementReport(
        plan=state.plan,
        best=state.best,
        steps=state.steps,
        spent=spent or state.spent,
        unfinished=state.next if unfinished else None,
        ended=ended,
        final=final,
    )


def read_improvement_report(source: Source) -> ImprovementReport:
    """Read the report of an improvement.

    Args:
        source: Its file or the directory that holds it, or its content as bytes or as a Python value.

    Raises:
        UsageError: The file does not exist (`record_not_found`) or cannot be read (`record_unreadable`).
        RecordError: It is not such a report.
    """
    return read_as(ImprovementReport, open_record(source, what="report", name=_NAME), what="report of an improvement")


def improvement_markdown(report: ImprovementReport) -> str:
    """The report as Markdown."""
    lines = [f"### {markdown_text(report.headline)}", ""]
    if report.steps:
        lines += ["| Step | Result | Why | Change |", "| ---: | --- | --- | --- |"]
        lines += [
            f"| {step.step} | {step.status} | {markdown_text(step.message)} | {markdown_text(step.change)} |"
            for step in report.steps
        ]
        lines.append("")
    spent = report.spent
    if report.unfinished is not None:
        lines += [f"Step {report.unfinished} has not ended.", ""]
    spend = f"{plural(spent.steps, 'step')}, {plural(spent.episodes, 'episode')}, {spent.seconds:.0f} s"
    lines.append(f"{spend}; base seed {report.plan.seed}.")
    return "\n".join([*lines, ""])
