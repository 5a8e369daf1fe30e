"""The improvement of a player, step by step: its plan, its steps, and where it stands after them.

A step hands the best player so far to a program, and takes back a changed one, which is kept if a comparison finds it
better, dropped if not, and lost if there is nothing to compare. The log of steps is append-only, and everything else
follows from it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from ..documents.json_text import Source
from ..documents.records import OpenEnum, Record, SchemaVersion, is_empty, open_record, read_as, read_lines
from ..evaluation.comparison import ComparisonReport
from ..evaluation.number_text import number
from ..evaluation.report_base import UNMEASURED, IntervalRecord
from .improvement_budget import ImprovementSpent

__all__ = [
    "IMPROVEMENT_PLAN",
    "IMPROVEMENT_STEPS",
    "ChangedFiles",
    "ImprovedPlayer",
    "ImprovementPlan",
    "ImprovementState",
    "ImprovementStep",
    "StepComparison",
    "StepFate",
    "StepLoss",
    "changed_files",
    "judge_comparison",
    "judge_player",
    "read_improvement_plan",
    "read_improvement_steps",
    "step_comparison",
]

IMPROVEMENT_PLAN = "improvement.json"
"""File name of an `ImprovementPlan`."""
IMPROVEMENT_STEPS = "steps.jsonl"
"""File name of the log of steps."""

StepFate = Annotated[Literal["kept", "dropped", "lost"], OpenEnum]
"""`kept`: the changed player is the best now; `dropped`: it was not found better; `lost`: there was nothing to
compare."""


class ImprovedPlayer(Record):
    """A player whose files are improved."""

    name: str = Field(description="Display name.")
    entry: str = Field(description="Name of its file or directory.")
    single: bool = Field(description="Whether it is one file, perhaps with modules beside it; otherwise a directory.")
    digest: str = Field(description="Digest of its content.")


class ImprovementPlan(Record):
    """What is improved, and what counts; it stays the same while an improvement goes on."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this record's shape.")
    coworld: str = Field(description="Name of the Coworld.")
    version: str = Field(default="", description="Version of the Coworld.")
    variant: str = Field(default="", description="Variant that is played.")
    config_changes: dict[str, Any] = Field(
        default_factory=dict, exclude_if=is_empty, description="Changes to the game config of the variant."
    )
    player: ImprovedPlayer = Field(description="The first player.")
    seed: int = Field(default=0, description="Base seed, from which the seeds of all steps are derived.")
    metric: str = Field(default="", description="JSON pointer to what is measured; empty: the scores.")
    margin: float | None = Field(default=None, description="Differences of mean scores up to this count as none.")
    evidence: int = Field(default=6, ge=1, description="Episodes that show how the best player plays.")


class ChangedFiles(Record):
    """What differs between the files of two players."""

    added: tuple[str, ...] = Field(default=(), description="Files that are new.")
    changed: tuple[str, ...] = Field(default=(), description="Files with another content.")
    removed: tuple[str, ...] = Field(default=(), description="Files that are gone.")

    def __str__(self) -> str:
        signs = {"+": self.added, "~": self.changed, "-": self.removed}
        return " ".join(f"{sign}{name}" for sign, names in signs.items() for name in names)


class StepComparison(Record):
    """What a comparison of a changed player with the one before has found."""

    verdict: str = Field(description="As the comparison says: better, worse, …")
    won: int = Field(ge=0, description="Blocks in which the changed player scored more.")
    lost: int = Field(ge=0, description="Blocks in which it scored less.")
    drawn: int = Field(ge=0, description="Blocks in which both scored the same.")
    difference: float | None = Field(default=None, description="Mean difference of the scores.")
    interval: IntervalRecord | None = Field(default=None, description="Interval of that mean.")
    stopped: str = Field(default="", description="Why it ended.")

    def __str__(self) -> str:
        difference = "" if self.difference is None else f", {number(self.difference, self.interval, signed=True)}"
        return f"{self.verdict}: {self.won} blocks won, {self.lost} lost, {self.drawn} drawn{difference}"


class ImprovementStep(Record):
    """A step that has ended: a line of `steps.jsonl`."""

    step: int = Field(ge=1, description="Its number, from 1.")
    status: StepFate = Field(description="Whether the changed player was kept.")
    reason: str = Field(description="The verdict of the comparison, or why the step was lost, as a code.")
    message: str = Field(description="The same in a sentence.")
    note: str = Field(default="", description="What the program says about its change.")
    base: int = Field(default=0, ge=0, description="Step whose player was changed; 0: the first player.")
    digest: str = Field(default="", description="Digest of the changed player; empty if there is none.")
    files: ChangedFiles = Field(default=ChangedFiles(), description="What was changed.")
    comparison: StepComparison | None = Field(default=None, description="The comparison with the best so far.")
    episodes: int = Field(default=0, ge=0, description="Episodes that were played in this step.")
    seconds: float = Field(default=0.0, ge=0, description="Wall time, without that of runs that were killed.")
    began_at: dt.datetime = Field(description="When it began (UTC).")

    @property
    def change(self) -> str:
        """What was changed: in the program's own words, or else the names of the files."""
        return self.note.strip() or str(self.files)


@dataclass(frozen=True, kw_only=True)
class StepLoss:
    """Why a step is lost."""

    reason: str
    """As a code."""
    message: str


@dataclass(frozen=True, kw_only=True)
class ImprovementState:
    """Where an improvement stands: a pure function of its plan and its steps."""

    plan: ImprovementPlan
    steps: tuple[ImprovementStep, ...]
    best: int
    """Step whose player is the best; 0: the first player."""
    spent: ImprovementSpent
    players: Mapping[str, int]
    """The step that made each player, by digest."""

    @classmethod
    def of(cls, plan: ImprovementPlan, steps: Iterable[ImprovementStep]) -> ImprovementState:
        """The state after these steps."""
        known = tuple(steps)
        players = {plan.player.digest: 0}
        for step in known:
            if step.digest:
                players.setdefault(step.digest, step.step)
        return cls(
            plan=plan,
            steps=known,
            best=next((step.step for step in reversed(known) if step.status == "kept"), 0),
            spent=ImprovementSpent(
                steps=len(known),
                episodes=sum(step.episodes for step in known),
                seconds=round(sum(step.seconds for step in known), 3),
            ),
            players=players,
        )

    @property
    def next(self) -> int:
        """Number of the next step."""
        return len(self.steps) + 1

    @property
    def kept(self) -> tuple[ImprovementStep, ...]:
        """The steps whose player was kept."""
        return tuple(step for step in self.steps if step.status == "kept")

    @property
    def best_digest(self) -> str:
        """Digest of the best player."""
        return self.steps[self.best - 1].digest if self.best else self.plan.player.digest


def judge_player(state: ImprovementState, digest: str) -> StepLoss | None:
    """Why a changed player need not be compared: it is the best one, or one that was compared before; else None."""
    known = state.players.get(digest)
    if known is None:
        return None
    if digest == state.best_digest:
        return StepLoss(reason="player_unchanged", message="The player is the same as before.")
    was = "the first player" if known == 0 else f"the player of step {known}"
    return StepLoss(reason="player_repeated", message=f"The player is the same as {was}, which was compared already.")


def step_comparison(report: ComparisonReport) -> StepComparison:
    """What a step keeps of a comparison."""
    return StepComparison(
        verdict=report.verdict,
        won=report.won,
        lost=report.lost,
        drawn=report.drawn,
        difference=report.difference,
        interval=report.interval,
        stopped=report.stopped,
    )


def judge_comparison(comparison: StepComparison) -> tuple[StepFate, str]:
    """Whether a changed player is kept, and why: only the verdict `better` keeps it; nothing measured is a loss."""
    if comparison.stopped in UNMEASURED:
        return "lost", comparison.stopped
    return "kept" if comparison.verdict == "better" else "dropped", comparison.verdict


def changed_files(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> ChangedFiles:
    """What differs between the files of two players, by relative path."""
    return ChangedFiles(
        added=tuple(sorted(after.keys() - before.keys())),
        changed=tuple(sorted(name for name in before.keys() & after.keys() if before[name] != after[name])),
        removed=tuple(sorted(before.keys() - after.keys())),
    )


def read_improvement_plan(source: Source) -> ImprovementPlan:
    """Read the plan of an improvement.

    Args:
        source: Its file or the directory that holds it, or its content as bytes or as a Python value.

    Raises:
        UsageError: The file does not exist (`record_not_found`) or cannot be read (`record_unreadable`).
        RecordError: It is not such a plan.
    """
    return read_as(
        ImprovementPlan, open_record(source, what="improvement", name=IMPROVEMENT_PLAN), what="plan of an improvement"
    )


def read_improvement_steps(source: Path | bytes) -> Iterator[ImprovementStep]:
    """Read the steps of an improvement, without a last line that is not complete.

    Args:
        source: The log of steps or the directory that holds it, or its content.

    Raises:
        UsageError: The file does not exist (`record_not_found`) or cannot be read (`record_unreadable`).
        RecordError: A line is no step.
    """
    for document in read_lines(source, what="steps", name=IMPROVEMENT_STEPS):
        yield read_as(ImprovementStep, document, what="step of an improvement")
