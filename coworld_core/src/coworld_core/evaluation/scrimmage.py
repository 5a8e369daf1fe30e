"""Measures a player with itself in every seat: its mean, the spread of its scores, and the value of each seat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from ..documents.records import Record
from ..episode.record import SlotRow
from .block_ledger import JudgedBlock
from .designs import Lineup
from .estimates import Sample
from .number_text import between, number
from .report_base import Durations, Evaluation, EvaluationPlan, measured_durations, rounded
from .report_contents import Parts, ShownReport, duration_facts, players_table, seats_table

__all__ = ["PLAYER", "Scrimmage", "ScrimmagePlan", "ScrimmageReport", "Spread"]

PLAYER = "player"
"""Label of the only entrant."""


class ScrimmagePlan(EvaluationPlan):
    """The plan of a scrimmage: everything its report depends on besides the rows."""

    kind: Literal["scrimmage"] = "scrimmage"  # pyright: ignore[reportIncompatibleVariableOverride]
    player: SlotRow = Field(description="The player that sits in every seat.")

    def players(self) -> dict[str, SlotRow]:
        """The measured players, by label."""
        return {PLAYER: self.player}


class Spread(Record):
    """The spread of single scores, over all seats of all episodes."""

    deviation: float = Field(ge=0, description="Standard deviation of the scores.")
    lowest: float = Field(description="The lowest score.")
    highest: float = Field(description="The highest score.")


class ScrimmageReport(ShownReport):
    """The result of a scrimmage."""

    plan: ScrimmagePlan = Field(description="The plan of the scrimmage.")  # pyright: ignore[reportIncompatibleVariableOverride]
    spread: Spread | None = Field(description="The spread of the scores; null without blocks.")
    durations: Durations | None = Field(description="How long episodes took; null if there were none.")

    def sentence(self, after: str) -> str:
        """The mean score in a sentence."""
        mean = self.entrants[0]
        score = f"{number(mean.mean_score or 0.0, mean.interval)} on average{between(mean.interval)}"
        return self.nothing or f"{self.plan.player.name} scores {score} with itself, {after}."

    def parts(self) -> Parts:
        """The parts to display."""
        quantities = {"mean score": False, "seat effect": True}
        return Parts(tables=[players_table(self), seats_table(self)], facts=_facts(self), quantities=quantities)


class Scrimmage(Evaluation[ScrimmagePlan, ScrimmageReport]):
    """A scrimmage in progress. A block is one episode.

    Args:
        plan: The player and the terms.
    """

    def __init__(self, plan: ScrimmagePlan) -> None:
        super().__init__(plan)
        self._scores = Sample()
        self._lowest, self._highest = math.inf, -math.inf

    def lineups(self, block: int) -> Sequence[Lineup]:
        """The lineups of a block."""
        del block
        return ((PLAYER,) * self.plan.slot_count,)

    def look(self, block: JudgedBlock) -> str:
        """Take in a block; nothing ends a scrimmage early."""
        if block.fate == "counted":
            for score in block.tables[0]:
                self._scores.add(score)
                self._lowest, self._highest = min(self._lowest, score), max(self._highest, score)
        return ""

    def outcome(self, block: JudgedBlock) -> tuple[float, ...]:
        """The score of each seat; their mean would be the same in every episode of a zero-sum game."""
        return block.tables[0]

    def report(self) -> ScrimmageReport:
        """The result; it does not depend on the order of the rows."""
        spread = None
        if self.measured and self._scores.count:
            spread = Spread(
                deviation=rounded(self._scores.deviation),
                lowest=rounded(self._lowest),
                highest=rounded(self._highest),
            )
        return ScrimmageReport.model_validate(
            {**self.common(), "plan": self.plan, "spread": spread, "durations": measured_durations(self.totals)}
        )


def _facts(report: ScrimmageReport) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = []
    if report.spread is not None:
        spread = report.spread
        ends = f"{number(spread.lowest)} to {number(spread.highest)}"
        facts.append(("Scores", f"{ends}, standard deviation {number(spread.deviation)}"))
    return [*facts, *duration_facts(report.durations)]
