"""What an optimizer is given to improve a player: the goal, the evidence, what was tried before, and what is left."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ..documents.json_text import Source
from ..documents.records import OpenEnum, Record, SchemaVersion, open_record, read_as
from ..evaluation.markdown import markdown_text
from ..text.phrases import listed
from .improvement import ImprovedPlayer, ImprovementStep
from .improvement_budget import ImprovementLeft

__all__ = [
    "IMPROVEMENT_TASK",
    "TASK_PAGE",
    "EpisodeOutcome",
    "EvidenceEpisode",
    "ImprovementEvidence",
    "ImprovementTask",
    "episode_outcome",
    "read_evidence",
    "read_improvement_task",
    "task_page",
]

IMPROVEMENT_TASK = "task.json"
"""File name of an `ImprovementTask`."""
TASK_PAGE = "TASK.md"
"""The same for people and coding agents."""

EpisodeOutcome = Annotated[Literal["won", "lost", "drawn", "failed"], OpenEnum]
"""How an episode ended for the player: against the best of the others; `failed`: it did not play to the end."""


class EvidenceEpisode(Record):
    """An episode of the best player so far."""

    id: str = Field(description="Its run id.")
    bundle: str = Field(description="Its bundle, relative to the task.")
    slot: int = Field(ge=0, description="The player's seat.")
    outcome: EpisodeOutcome = Field(description="How it ended for the player.")
    scores: tuple[float, ...] = Field(default=(), description="Scores by slot.")
    failure: str = Field(default="", description="What went wrong, if anything did.")
    grade: dict[str, Any] = Field(default_factory=dict[str, Any], description="What the grader says; empty if nothing.")
    findings: dict[str, Any] = Field(
        default_factory=dict[str, Any], description="What the diagnoser says of the player; empty if nothing."
    )
    diagnosis: str = Field(default="", description="Directory of the diagnosis' files, relative to the task.")


class ImprovementEvidence(Record):
    """How the best player so far plays."""

    episodes: tuple[EvidenceEpisode, ...] = Field(default=(), description="Episodes, with what is said of them.")
    left_out: tuple[str, ...] = Field(default=(), description="What there is no evidence of, and why.")


class ImprovementTask(Record):
    """What an optimizer is asked to do."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this record's shape.")
    goal: str = Field(description="What the changed player is to achieve.")
    coworld: str = Field(description="Name of the Coworld.")
    version: str = Field(default="", description="Version of the Coworld.")
    variant: str = Field(default="", description="Variant that is played.")
    step: int = Field(ge=1, description="Number of this step.")
    player: ImprovedPlayer = Field(description="The best player so far, which is to be changed.")
    may_change: str = Field(default="", description="What may be changed, in words.")
    most_files: int | None = Field(default=None, ge=1, description="Most files that the player may have.")
    most_bytes: int | None = Field(default=None, ge=1, description="Most bytes that they may have together.")
    seconds: float | None = Field(default=None, ge=0, description="Time for this step's change.")
    left: ImprovementLeft = Field(default=ImprovementLeft(), description="What is left of the budget.")
    best: int = Field(default=0, ge=0, description="Step that made the best player; 0: the first player.")
    history: tuple[ImprovementStep, ...] = Field(default=(), description="The steps before this one.")
    evidence: tuple[EvidenceEpisode, ...] = Field(default=(), description="Episodes of the best player so far.")
    docs: tuple[str, ...] = Field(default=(), description="Documents about the game, relative to the task.")
    left_out: tuple[str, ...] = Field(default=(), description="What there is no evidence of, and why.")


def read_improvement_task(source: Source) -> ImprovementTask:
    """Read what an optimizer is asked to do.

    Args:
        source: Its file or the directory that holds it, or its content as bytes or as a Python value.

    Raises:
        UsageError: The file does not exist (`record_not_found`) or cannot be read (`record_unreadable`).
        RecordError: It is not such a task.
    """
    return read_as(ImprovementTask, open_record(source, what="task", name=IMPROVEMENT_TASK), what="task")


def read_evidence(source: Source) -> ImprovementEvidence:
    """Read how a player plays, as an improvement keeps it.

    Args:
        source: Its file, or its content as bytes or as a Python value.

    Raises:
        UsageError: The file does not exist (`record_not_found`) or cannot be read (`record_unreadable`).
        RecordError: It is no evidence.
    """
    return read_as(ImprovementEvidence, open_record(source, what="evidence", name="evidence.json"), what="evidence")


def episode_outcome(scores: tuple[float, ...], slot: int, *, ok: bool) -> EpisodeOutcome:
    """How an episode ended for the player in a slot, from the scores."""
    if not ok or slot >= len(scores):
        return "failed"
    own, others = scores[slot], [score for seat, score in enumerate(scores) if seat != slot]
    best = max(others, default=own)
    return "won" if own > best else "lost" if own < best else "drawn"


def task_page(task: ImprovementTask, *, inputs: str = "", player: str = "") -> str:
    """The task as Markdown, for people and coding agents.

    Args:
        task: The task.
        inputs: The directory that its paths are relative to.
        player: The directory of the working copy.
    """

    def place(name: str) -> str:
        return f"{inputs}/{name}" if inputs else name

    where = f", in {player}" if player else ""
    what = f"the file {task.player.entry}" if task.player.single else "this directory"
    game = f"{task.coworld} {task.version}".strip() + (f", variant {task.variant}" if task.variant else "")
    lines = [
        f"# Improve a player of {game}",
        "",
        task.goal,
        "",
        f"The player is {what}. Change its files in place{where}. {task.may_change}".rstrip(),
        "",
    ]
    if task.docs:
        lines += [f"About the game: {listed(place(name) for name in task.docs)}.", ""]
    if task.evidence:
        lines += ["## How it plays now", "", "| Slot | Outcome | Scores | Grade | Bundle |", "|---|---|---|---|---|"]
        for each in task.evidence:
            scores = " ".join(f"{score:g}" for score in each.scores) or "–"
            score = each.grade.get("score")
            grade = f"{score:.4g}" if isinstance(score, int | float) else "–"
            failed = f" ({markdown_text(each.failure)})" if each.failure else ""
            lines.append(f"| {each.slot} | {each.outcome}{failed} | {scores} | {grade} | {place(each.bundle)} |")
        lines += ["", "A bundle is a zip with the results, the replay and the logs of an episode.", ""]
        advice = dict.fromkeys(
            str(text) for each in task.evidence for text in each.findings.get("recommendations") or ()
        )
        if advice:
            lines += ["What the diagnoser advises:", "", *(f"* {text}" for text in advice), ""]
    if task.left_out:
        lines += ["What there is not:", "", *(f"* {text}" for text in task.left_out), ""]
    if task.history:
        lines += ["## What was tried", "", "| Step | Result | Why | Change |", "|---|---|---|---|"]
        for step in task.history:
            lines.append(
                f"| {step.step} | {step.status} | {markdown_text(step.message)} | {markdown_text(step.change)} |"
            )
        lines += ["", f"The player that you change is that of step {task.best}." if task.best else "", ""]
    return "\n".join(lines).rstrip() + "\n"
