"""Measures several players that share the seats: each player, each seat, and each pair of players."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from ..episode.record import SlotRow
from ..text.phrases import plural
from .block_ledger import JudgedBlock
from .designs import Lineup, mixture_lineups
from .estimates import Sample
from .number_text import number
from .ranking import Margins, PairRecord, encounters, player_labels
from .report_base import (
    Durations,
    Estimate,
    Evaluation,
    EvaluationPlan,
    MeasuredValue,
    measured_durations,
    measured_value,
)
from .report_contents import (
    INTERVAL,
    Parts,
    ShownReport,
    Table,
    block_facts,
    duration_facts,
    player_names,
    players_table,
    shown_interval,
    shown_number,
)

__all__ = ["MeasuredPlace", "Mixture", "MixturePlan", "MixtureReport"]


class MixturePlan(EvaluationPlan):
    """The plan of a mixture: everything its report depends on besides the rows."""

    kind: Literal["mix"] = "mix"  # pyright: ignore[reportIncompatibleVariableOverride]
    entrants: tuple[SlotRow, ...] = Field(min_length=1, description="The players.")
    counts: tuple[int, ...] = Field(description="Number of seats of each player.")

    def players(self) -> dict[str, SlotRow]:
        """The measured players, by label."""
        return dict(zip(player_labels(len(self.entrants)), self.entrants, strict=True))


class MeasuredPlace(MeasuredValue):
    """The mean score of one player in one seat."""

    label: str = Field(description="Label of the player.")
    slot: int = Field(ge=0, description="The seat.")


class MixtureReport(ShownReport):
    """The result of a mixture."""

    plan: MixturePlan = Field(description="The plan of the mixture.")  # pyright: ignore[reportIncompatibleVariableOverride]
    slot_scores: tuple[MeasuredPlace, ...] = Field(description="The mean score of each player in each slot.")
    pairs: tuple[PairRecord, ...] = Field(description="The results of each pair of players, by blocks.")
    durations: Durations | None = Field(description="How long episodes took; null if there were none.")

    def estimates(self) -> list[Estimate]:
        """Every measured number with its interval, the most important first."""
        names = {label: player.name for label, player in self.plan.players().items()}
        found = super().estimates()
        found += [
            Estimate(
                quantity="difference",
                of=f"{names[pair.first]} less {names[pair.second]}",
                value=pair.difference,
                interval=pair.interval,
            )
            for pair in self.pairs
            if pair.difference is not None
        ]
        return found + [
            Estimate(
                quantity="mean score in a seat",
                of=f"{names[place.label]} in seat {place.slot}",
                value=place.value,
                interval=place.interval,
            )
            for place in self.slot_scores
        ]

    def sentence(self, after: str) -> str:
        """Say which player scores most, and whether it is told apart from the others."""
        return self.nothing or _best(self, after)

    def parts(self) -> Parts:
        """The parts to display."""
        return Parts(
            tables=[_mixed(self), _places(self), _pairs(self)],
            facts=[*block_facts(self), *duration_facts(self.durations)],
            quantities={"mean score": False, "seat effect": True, "difference": True},
            encounters=encounters(self.plan, self.pairs),
        )


class Mixture(Evaluation[MixturePlan, MixtureReport]):
    """A mixture in progress. A block is one full rotation on one seed.

    Args:
        plan: The players and the terms.

    Attributes:
        rankings: The results of its blocks.
    """

    def __init__(self, plan: MixturePlan) -> None:
        super().__init__(plan)
        self._labels = player_labels(len(plan.entrants))
        self._margins = Margins()
        self.rankings = self._margins.rankings
        self._in_seats = {(label, slot): Sample() for label in self._labels for slot in range(plan.slot_count)}

    def lineups(self, block: int) -> Sequence[Lineup]:
        """The lineups of a block."""
        return mixture_lineups(self._labels, self.plan.counts, block, seed=self.plan.seed)

    def look(self, block: JudgedBlock) -> str:
        """Take in a block; nothing ends a mixture early."""
        self._margins.add(block)
        if block.fate != "counted":
            return ""
        here: dict[tuple[str, int], list[float]] = {}
        for lineup, table in zip(self.lineups(block.block), block.tables, strict=True):
            for slot, (label, score) in enumerate(zip(lineup, table, strict=True)):
                if label is not None:
                    here.setdefault((label, slot), []).append(score)
        for place, scores in here.items():
            self._in_seats[place].add(math.fsum(scores) / len(scores))
        return ""

    def report(self) -> MixtureReport:
        """The result; it does not depend on the order of the rows."""
        return MixtureReport.model_validate(
            {
                **self.common(),
                "plan": self.plan,
                "slot_scores": tuple(self._places()) if self.measured else (),
                "pairs": tuple(self._margins.records(alpha=self.plan.alpha, scale=self.differences))
                if self.measured
                else (),
                "durations": measured_durations(self.totals),
            }
        )

    def _places(self) -> list[MeasuredPlace]:
        measured = {place: measured_value(means, self.scale) for place, means in self._in_seats.items()}
        return [
            MeasuredPlace(label=label, slot=slot, value=mean.value, interval=mean.interval)
            for (label, slot), mean in measured.items()
            if mean is not None
        ]


def _best(report: MixtureReport, after: str) -> str:
    names = {label: player.name for label, player in report.plan.players().items()}
    means = sorted(
        (-(entrant.mean_score or 0.0), entrant.label) for entrant in report.entrants if entrant.mean_score is not None
    )
    best = means[0][1]
    score = number(-means[0][0], next(entrant.interval for entrant in report.entrants if entrant.label == best))
    if len(means) == 1:
        return f"{names[best]} scores {score} on average, {after}."
    behind = {pair.first for pair in report.pairs if pair.apart} | {pair.second for pair in report.pairs if pair.apart}
    others = [label for _, label in means[1:]]
    told = best in behind and all(
        any(pair.apart and {pair.first, pair.second} == {best, other} for pair in report.pairs) for other in others
    )
    whom = names[others[0]] if len(others) == 1 else "all others"
    doubt = f"told apart from {whom}" if told else f"not told apart from {whom}"
    return f"{names[best]} scores most, {score} on average, and is {doubt}, {after}."


def _mixed(report: MixtureReport) -> Table:
    players = players_table(report)
    rows = [
        (name, plural(count, "seat"), *rest)
        for (name, *rest), count in zip(players.rows, report.plan.counts, strict=True)
    ]
    return Table(title=players.title, head=("Player", "Has", *players.head[1:]), rows=tuple(rows), names=(0, 1, 3))


def _places(report: MixtureReport) -> Table:
    """A row for each player, a column for each seat, and a last row with the value of each seat."""
    if report.plan.slot_count < 2:
        return Table(title="Seats", head=(), rows=())
    names, slots = player_names(report), range(report.plan.slot_count)
    found = {(place.label, place.slot): place for place in report.slot_scores}
    rows = [
        (
            name,
            *(
                shown_number(found[label, slot].value, found[label, slot].interval) if (label, slot) in found else "-"
                for slot in slots
            ),
        )
        for label, name in names.items()
    ]
    if report.slot_effects:
        rows.append(
            (
                "Over the others",
                *(shown_number(seat.effect, seat.interval, signed=True) for seat in report.slot_effects),
            )
        )
    return Table(
        title="Mean by seat", head=("Player", *(f"Seat {slot}" for slot in slots)), rows=tuple(rows) if names else ()
    )


def _pairs(report: MixtureReport) -> Table:
    names = player_names(report)
    return Table(
        title="Who did better, by blocks",
        head=("Player", "Against", "Won", "Lost", "Drawn", "Difference", INTERVAL, "Told apart"),
        rows=tuple(
            (
                names[pair.first],
                names[pair.second],
                *(str(count) for count in (pair.won, pair.lost, pair.drawn)),
                shown_number(pair.difference, pair.interval, signed=True),
                shown_interval(pair.interval, signed=True),
                "yes" if pair.apart else "no",
            )
            for pair in report.pairs
        ),
        names=(0, 1, 6, 7),
    )
