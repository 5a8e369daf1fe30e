"""Whether one player is better than another, decided as soon as enough blocks have been played.

The verdict is about winning blocks: `firm_evidence` of the blocks won and lost. The report also
gives the mean difference and its interval. If the two disagree, a remark says so.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pydantic import Field

from ..documents.records import OpenEnum
from ..episode.events import EvaluationProgressed
from ..episode.record import EpisodeRow, SlotRow
from ..text.phrases import plural
from .betting import MeanTest
from .block_ledger import JudgedBlock
from .designs import Lineup, comparison_lineups
from .estimates import Doubt, Interval, Sample, firm_evidence, least_wins, running_interval
from .number_text import interval_words, number
from .report_base import (
    Estimate,
    Evaluation,
    EvaluationPlan,
    IntervalRecord,
    Remark,
    interval_record,
    rounded,
)
from .report_contents import Parts, ShownReport, players_table

__all__ = ["NEW", "OLD", "Comparison", "ComparisonPlan", "ComparisonReport", "ComparisonVerdict", "compare_rows"]

NEW, OLD = "new", "old"
"""Labels of the two entrants."""

ComparisonVerdict = Annotated[Literal["better", "worse", "equal", "undecided"], OpenEnum]
"""`better` or `worse`: the new player wins or loses more blocks than chance explains; `equal`: the mean
difference is within the margin; `undecided`: not enough evidence."""


class ComparisonPlan(EvaluationPlan):
    """The plan of a comparison: everything its report depends on besides the rows."""

    kind: Literal["compare"] = "compare"  # pyright: ignore[reportIncompatibleVariableOverride]
    new: SlotRow = Field(description="The player that is to prove better.")
    old: SlotRow = Field(description="The player to compare it with.")
    margin: float | None = Field(default=None, ge=0, description="Differences up to this count as none.")

    def players(self) -> dict[str, SlotRow]:
        """The measured players, by label."""
        return {NEW: self.new, OLD: self.old}


class ComparisonReport(ShownReport):
    """The result of a comparison."""

    plan: ComparisonPlan = Field(description="The plan of the comparison.")  # pyright: ignore[reportIncompatibleVariableOverride]
    verdict: ComparisonVerdict = Field(description="Whether the new player is better.")
    won: int = Field(ge=0, description="Blocks in which the new player scored more.")
    lost: int = Field(ge=0, description="Blocks in which it scored less.")
    drawn: int = Field(ge=0, description="Blocks in which both scored the same.")
    evidence: float = Field(ge=0, description="Evidence for a difference; 1 / alpha decides.")
    doubtful: int = Field(
        default=0,
        ge=0,
        description="Blocks that were not counted, or were played again, and that the evidence counts against the one "
        "that leads, because a player may have caused that.",
    )
    difference: float | None = Field(description="Mean of new less old over blocks; null without blocks.")
    interval: IntervalRecord | None = Field(
        default=None, description="Interval of that mean, valid at every look; null if there are too few blocks."
    )

    def estimates(self) -> list[Estimate]:
        """Every measured number with its interval, the most important first."""
        if self.difference is None:
            return super().estimates()
        between = f"{self.plan.new.name} less {self.plan.old.name}"
        own = Estimate(quantity="difference", of=between, value=self.difference, interval=self.interval)
        return [own, *super().estimates()]

    def said(self, after: str) -> str:
        """The verdict in a sentence."""
        new, old = self.plan.new.name, self.plan.old.name
        match self.verdict:
            case "better" | "worse":
                return f"{new} is {self.verdict} than {old}, {after}."
            case "equal":
                return f"Between {new} and {old} there is no difference worth having, {after}."
            case _:
                return f"There is not enough evidence to tell {new} from {old}, {after}."

    def parts(self) -> Parts:
        """The parts to display."""
        quantities = {"difference": True, "mean score": False, "seat effect": True}
        return Parts(tables=[players_table(self)], facts=_facts(self), quantities=quantities)


class Comparison(Evaluation[ComparisonPlan, ComparisonReport]):
    """A comparison in progress.

    Args:
        plan: The players and the terms.

    Attributes:
        verdict: The verdict so far.
    """

    def __init__(self, plan: ComparisonPlan) -> None:
        super().__init__(plan)
        self.verdict: str = "undecided"
        self._differences = Sample()
        self._won = self._lost = 0
        self._doubt = Doubt()
        self._values = array("d")
        self._margins: tuple[MeanTest, ...] = ()
        self._bounds = self.differences
        if plan.margin is not None and (bounds := self._bounds) is not None and bounds.certain:
            ends = (bounds.within(-plan.margin), bounds.within(plan.margin))
            self._margins = tuple(MeanTest(end, alpha=plan.alpha) for end in ends)

    def lineups(self, block: int) -> Sequence[Lineup]:
        """The lineups of a block."""
        return comparison_lineups(NEW, OLD, self.plan.slot_count, block)

    def look(self, block: JudgedBlock) -> str:
        """Take in a block; return why no more are needed, or an empty string while more are."""
        if block.fate == "counted":
            difference = block.scores[NEW] - block.scores[OLD]
            self._differences.add(difference)
            self._values.append(difference)
            for test in self._margins:
                test.take(self._bounds.within(difference) if self._bounds is not None else 0.5)
            self._won += difference > 0
            self._lost += difference < 0
        for doubt in block.doubts.values():
            self._doubt = self._doubt.plus(doubt)
        if self._evidence >= 1 / self.plan.alpha:
            self.verdict = "better" if self._won > self._lost else "worse"
            return "evidence"
        if self.plan.margin is not None and self._within(self.plan.margin):
            self.verdict = "equal"
            return "margin"
        return ""

    @property
    def least_blocks(self) -> int | None:
        """How many blocks in a row one player has to win for a verdict."""
        return least_wins(1 / self.plan.alpha)

    @property
    def _evidence(self) -> float:
        return firm_evidence(self._won, self._lost, self._doubt)

    def _within(self, margin: float) -> bool:
        scale = self.differences
        if scale is not None and scale.certain and self._margins:
            return self._margins[0].larger and self._margins[1].smaller
        interval = self._differences.running(alpha=self.plan.alpha, scale=scale)
        return interval is not None and -margin <= interval.low and interval.high <= margin

    def progress(self) -> EvaluationProgressed:
        """The progress so far, as an event."""
        standing = {
            "won": self._won,
            "lost": self._lost,
            "evidence": rounded(self._evidence),
            "decides": 1 / self.plan.alpha,
        }
        return super().progress().model_copy(update=standing)

    def report(self) -> ComparisonReport:
        """The result; it does not depend on the order of the rows, nor on rows after the verdict."""
        common = self.common()
        differences = self._differences if self.measured else Sample()
        won, lost = (self._won, self._lost) if self.measured else (0, 0)
        doubt = self._doubt if self.measured else Doubt()
        middle = rounded(differences.mean) if differences.count else None
        interval = (
            running_interval(self._values, alpha=self.plan.alpha, scale=self.differences)
            if middle is not None
            else None
        )
        return ComparisonReport.model_validate(
            {
                **common,
                "plan": self.plan,
                "verdict": self.verdict,
                "won": won,
                "lost": lost,
                "drawn": differences.count - won - lost,
                "evidence": rounded(firm_evidence(won, lost, doubt)),
                "doubtful": doubt.lost if won >= lost else doubt.other_lost,
                "difference": middle,
                "interval": interval_record(interval),
                "remarks": (*common["remarks"], *_about_difference(self.verdict, won, lost, middle, interval)),
            }
        )


def compare_rows(plan: ComparisonPlan, rows: Iterable[EpisodeRow]) -> ComparisonReport:
    """Compute the report of a comparison from its rows.

    Args:
        plan: The plan of the comparison (`plan.json`).
        rows: The episodes, in any order (`episodes.jsonl`).
    """
    return Comparison(plan).over(rows)


def _about_difference(
    verdict: str, won: int, lost: int, middle: float | None, interval: Interval | None
) -> list[Remark]:
    if verdict in ("better", "worse") and middle is not None and (won - lost) * middle < 0:
        more, less = ("wins", "loses") if won > lost else ("loses", "wins")
        message = f"The new player {more} more blocks, but {less} more points: the verdict is about winning blocks."
        return [Remark(code="means_disagree", message=message)]
    if verdict == "undecided" and interval is not None and interval.excludes(0):
        message = (
            "The mean difference is not 0, but neither player wins more blocks than chance explains: the difference "
            "is in a few blocks."
        )
        return [Remark(code="means_disagree", message=message)]
    return []


def _doubtful(report: ComparisonReport) -> str:
    leads = report.plan.new.name if report.won >= report.lost else report.plan.old.name
    blocks = plural(report.doubtful, "block")
    return f"{blocks} that failed or had to be played again; the evidence counts them against {leads}"


def _facts(report: ComparisonReport) -> list[tuple[str, str]]:
    plan = report.plan
    facts = [
        ("Blocks", f"{report.won} won, {report.lost} lost, {report.drawn} drawn"),
        ("Evidence", f"{number(report.evidence)} ({number(1 / plan.alpha)} decides)"),
        *([("Doubtful", _doubtful(report))] if report.doubtful else []),
    ]
    if report.difference is not None:
        interval = interval_words(report.interval, signed=True)
        facts.append(
            ("Difference", f"{number(report.difference, report.interval, signed=True)} on average ({interval})")
        )
    if plan.margin is not None:
        facts.append(("Margin", number(plan.margin)))
    return facts
