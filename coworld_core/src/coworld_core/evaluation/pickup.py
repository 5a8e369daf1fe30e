"""Measures what a player adds beyond the players it replaces, by number of seats, and shares out credit.

Each block plays one seed with the candidate in no seat, in one seat, and so on up to all seats; the other seats keep
the pool players they were dealt. The value of a number of seats is the candidate's score in them, less the pool's score
in the same seats when the candidate had none.

Credit is the Shapley value: what a player adds to the mean of the whole table, over all orders in which the players
could take their seats from the game's own players.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from ..documents.records import OpenEnum
from ..episode.record import SlotRow
from ..text.phrases import plural
from .block_ledger import JudgedBlock
from .designs import Lineup, coalitions, credit_lineups, pickup_lineups
from .estimates import Sample
from .number_text import between, excludes_zero, number
from .report_base import (
    Estimate,
    Evaluation,
    EvaluationPlan,
    MeasuredValue,
    measured_value,
)
from .report_contents import INTERVAL, Parts, ShownReport, Table, block_facts, player_names, players_table, signed_rows

__all__ = ["CANDIDATE", "Credit", "Pickup", "PickupPlan", "PickupReport", "Synergy", "ValueAt", "pool_labels"]

CANDIDATE = "candidate"
"""Label of the player whose value is measured."""


class PickupPlan(EvaluationPlan):
    """The plan of a pickup: everything its report depends on besides the rows."""

    kind: Literal["pickup"] = "pickup"  # pyright: ignore[reportIncompatibleVariableOverride]
    candidate: SlotRow = Field(description="The player whose value is measured.")
    pool: tuple[SlotRow, ...] = Field(min_length=1, description="The players that it replaces.")
    team: bool = Field(default=False, description="Whether the mean of the whole table is measured.")
    credit: Annotated[Literal["", "shapley"], OpenEnum] = Field(
        default="", description="How credit is shared, if at all."
    )

    def players(self) -> dict[str, SlotRow]:
        """The measured players, by label."""
        return {CANDIDATE: self.candidate, **dict(zip(pool_labels(len(self.pool)), self.pool, strict=True))}


class ValueAt(MeasuredValue):
    """The value over replacement for a number of seats."""

    slot_count: int = Field(ge=1, description="How many slots the candidate has.")


class Credit(MeasuredValue):
    """What a player adds to the mean of the whole table."""

    label: str = Field(description="Label of the player.")


class Synergy(MeasuredValue):
    """What two players add together, beyond what each adds alone."""

    first: str = Field(description="Label of the first player.")
    second: str = Field(description="Label of the second player.")


class PickupReport(ShownReport):
    """The result of a pickup."""

    plan: PickupPlan = Field(description="The plan of the pickup.")  # pyright: ignore[reportIncompatibleVariableOverride]
    overall: MeasuredValue | None = Field(description="Mean of the values for every number of seats except all.")
    doubtful: int = Field(
        default=0,
        ge=0,
        description="Blocks that were not counted, or were played again with another outcome, which the candidate or "
        "the pool may have caused.",
    )
    certain: bool | None = Field(
        default=None,
        description="Whether the overall value is certainly not 0, even if the doubtful blocks are counted against "
        "whoever gains; null: unknown.",
    )
    values: tuple[ValueAt, ...] = Field(description="The value for each number of candidate seats.")
    self_play: ValueAt | None = Field(description="The value in all seats; null in a one-seat game.")
    credits: tuple[Credit, ...] = Field(default=(), description="What each player adds; empty unless requested.")
    synergies: tuple[Synergy, ...] = Field(default=(), description="The synergy of each pair; empty unless requested.")

    def estimates(self) -> list[Estimate]:
        """Every measured number with its interval, the most important first."""
        names = {label: player.name for label, player in self.plan.players().items()}
        said: list[tuple[str, str, MeasuredValue | None]] = [("value over replacement", "overall", self.overall)]
        said += [("value over replacement", plural(one.slot_count, "seat"), one) for one in self.values]
        said += [
            ("value in all seats", plural(one.slot_count, "seat"), one) for one in [self.self_play] if one is not None
        ]
        said += [("credit", names[one.label], one) for one in self.credits]
        said += [("synergy", f"{names[one.first]} and {names[one.second]}", one) for one in self.synergies]
        found = [
            Estimate(quantity=quantity, of=of, value=one.value, interval=one.interval)
            for quantity, of, one in said
            if one is not None
        ]
        return found + super().estimates()

    def sentence(self, after: str) -> str:
        """The value in a sentence."""
        name, overall = self.plan.candidate.name, self.overall
        if overall is None:
            return self.nothing
        words = f"{number(overall.value, overall.interval, signed=True)}{between(overall.interval, signed=True)}"
        if excludes_zero(overall.interval) and self.certain is False:
            blocks = plural(self.doubtful, "block")
            return (
                f"{name} is not told apart from the pool, as {blocks} failed or came out otherwise when played again: "
                f"its value over replacement is {words}, {after}."
            )
        if not excludes_zero(overall.interval):
            return f"{name} is not told apart from the pool: its value over replacement is {words}, {after}."
        return f"The value of {name} over replacement is {words}, {after}."

    def parts(self) -> Parts:
        """The parts to display."""
        return Parts(
            tables=[_values(self), *_credit_tables(self), players_table(self)],
            facts=block_facts(self),
            quantities={"value over replacement": True, "credit": True, "synergy": True, "mean score": False},
        )


class Pickup(Evaluation[PickupPlan, PickupReport]):
    """A pickup in progress.

    Args:
        plan: The players and the terms.
    """

    def __init__(self, plan: PickupPlan) -> None:
        super().__init__(plan)
        self._labels = tuple(plan.players())
        self._by_seats = [Sample() for _ in range(plan.slot_count)]
        self._overall = Sample()
        self._doubtful = 0
        self._added = {label: Sample() for label in self._labels}
        self._together = {pair: Sample() for pair in itertools.combinations(self._labels, 2)}

    def lineups(self, block: int) -> Sequence[Lineup]:
        """The lineups of a block: first by number of candidate seats, then those for the credit."""
        plan = self.plan
        found, _ = pickup_lineups(CANDIDATE, self._labels[1:], plan.slot_count, block, seed=plan.seed)
        return (*found, *credit_lineups(self._labels, plan.slot_count, block, seed=plan.seed)) if plan.credit else found

    def look(self, block: JudgedBlock) -> str:
        """Take in a block; nothing ends a pickup early."""
        self._doubtful += any(CANDIDATE in pair for pair in block.doubts)
        if block.fate == "counted":
            gained = self._gained(block)
            for sample, value in zip(self._by_seats, gained, strict=True):
                sample.add(value)
            shared = gained[: self._shared]
            self._overall.add(math.fsum(shared) / len(shared))
            if self.plan.credit:
                self._take_credit(block)
        return ""

    @property
    def _shared(self) -> int:
        """The largest number of seats at which the candidate shares the table; 1 in a one-seat game."""
        return max(1, self.plan.slot_count - 1)

    def report(self) -> PickupReport:
        """The result; it does not depend on the order of the rows."""
        seats = self.plan.slot_count
        shared = range(1, self._shared + 1)
        measured = self.measured
        overall = measured_value(self._overall, self.differences, running=True) if measured else None

        def value_at(count: int) -> list[ValueAt]:
            mean = measured_value(self._by_seats[count - 1], self.differences) if measured else None
            return [ValueAt(slot_count=count, value=mean.value, interval=mean.interval)] if mean is not None else []

        return PickupReport.model_validate(
            {
                **self.common(),
                "plan": self.plan,
                "overall": overall,
                "doubtful": self._doubtful,
                "certain": self.verdict != "undecided" if overall is not None else None,
                "values": tuple(one for count in shared for one in value_at(count)),
                "self_play": next(iter(value_at(seats)), None) if seats > 1 else None,
                **(self._credit() if self.plan.credit and measured else {}),
            }
        )

    @property
    def verdict(self) -> Literal["better", "worse", "undecided"]:
        """Whether the candidate is worth more, or less, than the pool, even if doubtful blocks say the contrary."""
        scale, blocks = self.differences, self._overall.count
        interval = self._overall.running(scale=scale)
        if interval is None or scale is None:
            return "undecided"
        # A doubtful block may have counted as the best, and have been the worst
        lost = self._doubtful * (scale.high - scale.low)
        return "better" if blocks * interval.low > lost else "worse" if blocks * interval.high < -lost else "undecided"

    def _gained(self, block: JudgedBlock) -> list[float]:
        """The value for each number of seats in one block, starting from one."""
        plan = self.plan
        _, order = pickup_lineups(CANDIDATE, self._labels[1:], plan.slot_count, block.block, seed=plan.seed)
        tables = _as_teams(block) if plan.team else block.tables
        without = tables[0]
        found: list[float] = []
        for count in range(1, plan.slot_count + 1):
            slots = range(plan.slot_count) if plan.team else order[:count]
            gained = math.fsum(tables[count][slot] - without[slot] for slot in slots)
            found.append(gained / len(slots))
        return found

    def _take_credit(self, block: JudgedBlock) -> None:
        """Take in what each player and each pair adds."""
        plan, labels = self.plan, self._labels
        orders, groups = coalitions(labels, block.block, seed=plan.seed)
        tables = _as_teams(block)[plan.slot_count + 1 :]
        worth = {group: math.fsum(table) / plan.slot_count for group, table in zip(groups, tables, strict=True)}
        # Rounding error left when numbers of this size cancel
        dust = 1e-12 * max(map(abs, worth.values()))
        for label in labels:
            gains: list[float] = []
            for order in orders:
                before = frozenset(order[: order.index(label)])
                gains.append(worth[before | {label}] - worth[before])
            self._added[label].add(_clean(math.fsum(gains) / len(gains), dust))
        for (one, other), sample in self._together.items():
            apart = worth[frozenset((one,))] - worth[frozenset()] + worth[frozenset((other,))]
            sample.add(_clean(worth[frozenset((one, other))] - apart, dust))

    def _credit(self) -> dict[str, object]:
        scale = self.scale
        alone = scale.differences() if scale is not None else None
        together = scale.differences(2) if scale is not None else None
        means = {label: measured_value(gains, alone) for label, gains in self._added.items()}
        synergies = {pair: measured_value(gains, together) for pair, gains in self._together.items()}
        return {
            "credits": tuple(
                Credit(label=label, value=mean.value, interval=mean.interval)
                for label, mean in means.items()
                if mean is not None
            ),
            "synergies": tuple(
                Synergy(first=first, second=second, value=mean.value, interval=mean.interval)
                for (first, second), mean in synergies.items()
                if mean is not None
            ),
        }


def _as_teams(block: JudgedBlock) -> Sequence[tuple[float, ...]]:
    """The scores of each lineup as a team: all of a table lose what one of them forfeits."""
    if not block.forfeited:
        return block.tables
    return [
        (min(table),) * len(table) if forfeited else table
        for table, forfeited in zip(block.tables, block.forfeited, strict=True)
    ]


def _clean(value: float, dust: float) -> float:
    return value if abs(value) > dust else 0.0


def pool_labels(count: int) -> list[str]:
    """Labels of the pool players: numbered, and padded so that they sort in plan order."""
    return [f"pool-{number:0{len(str(count))}d}" for number in range(1, count + 1)]


def _values(report: PickupReport) -> Table:
    rows = [(plural(one.slot_count, "seat"), one) for one in report.values]
    rows += [("Overall", report.overall)] if report.overall is not None else []
    rows += [
        (f"All {plural(one.slot_count, 'seat')} (self-play)", one) for one in [report.self_play] if one is not None
    ]
    return Table(
        title="Value over replacement", head=("In", "Value", INTERVAL), rows=signed_rows(rows, str), names=(0, 2)
    )


def _credit_tables(report: PickupReport) -> list[Table]:
    names = player_names(report)
    credit = signed_rows([(one.label, one) for one in report.credits], lambda label: names[label])
    pairs = [(f"{names[one.first]} and {names[one.second]}", one) for one in report.synergies]
    return [
        Table(title="Credit", head=("Player", "Adds", INTERVAL), rows=credit, names=(0, 2)),
        Table(title="Synergy", head=("Pair", "Adds", INTERVAL), rows=signed_rows(pairs, str), names=(0, 2)),
    ]
