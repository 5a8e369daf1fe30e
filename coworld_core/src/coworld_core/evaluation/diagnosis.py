"""Diagnoses a player with a battery of episodes over the variants of a game.

Each block is one seed of one variant. The player sits in every seat, twice in the first blocks of a variant. Then it
sits alone in one seat among the game's own players, and a weak and a strong player take the same seat in turn.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence

from pydantic import Field

from ..episode.record import EpisodeRow
from ..episode.seat_behaviour import quantile_seconds
from ..text.phrases import plural
from .battery import (
    BASELINE,
    BOT,
    STRONG,
    BehaviourSummary,
    DiagnosisChange,
    DiagnosisPlan,
    EarlierDiagnosis,
    VariantDiagnosis,
    VariantPlan,
)
from .block_ledger import JudgedBlock
from .designs import Lineup
from .diagnosis_findings import diagnosis_tables, findings
from .estimates import Interval, Sample, Scale, difference_interval, mean_interval, share_interval
from .number_text import excludes_zero
from .report_base import (
    Estimate,
    Evaluation,
    IntervalRecord,
    MeasuredValue,
    Remark,
    interval_record,
    measured_slots,
    measured_value,
    rounded,
)
from .report_contents import Parts, ShownReport, block_facts
from .totals import SeatSamples

__all__ = ["Diagnosis", "DiagnosisReport"]

_REPEATED = 2
"""Blocks of each seeded variant whose first episode is played twice, to check that a seed repeats the game."""


class DiagnosisReport(ShownReport):
    """The result of a diagnosis."""

    plan: DiagnosisPlan = Field(description="The plan of the diagnosis.")  # pyright: ignore[reportIncompatibleVariableOverride]
    variants: tuple[VariantDiagnosis, ...] = Field(description="The observations in each variant.")
    findings: tuple[Remark, ...] = Field(description="What is worth looking at, the most important first.")
    changes: tuple[DiagnosisChange, ...] = Field(
        default=(), description="What has changed since the earlier diagnosis."
    )

    def estimates(self) -> list[Estimate]:
        """Every measured number with its interval, the most important first."""
        return _estimates(self.variants)

    def sentence(self, after: str) -> str:
        """Say what is worth looking at first."""
        name, count = self.plan.player.name, len(self.findings)
        if not count:
            return self.nothing or f"Nothing about {name} stands out, {after}."
        things = f"{plural(count, 'thing')} about {name} {'is' if count == 1 else 'are'} worth looking at, {after}."
        return " ".join([*([self.nothing] if self.nothing else []), things, f"First: {self.findings[0].message}"])

    def parts(self) -> Parts:
        """The parts to display."""
        quantities = {"normalised score": True, "over the baseline": True, "score alone": False, "seat effect": True}
        return Parts(
            tables=diagnosis_tables(self.plan, self.variants, self.changes),
            facts=block_facts(self),
            quantities=quantities,
            notes=[one.message for one in self.findings],
        )


class Diagnosis(Evaluation[DiagnosisPlan, DiagnosisReport]):
    """A diagnosis in progress.

    Args:
        plan: The player and the terms.
    """

    def __init__(self, plan: DiagnosisPlan) -> None:
        super().__init__(plan)
        self._taken = [_Taken(variant, list(plan.players()), len(plan.variants)) for variant in plan.variants]

    def lineups(self, block: int) -> Sequence[Lineup]:
        """The lineups of a block: the player in all seats, perhaps twice, then each player alone in one seat."""
        turn, at = self._place(block)
        variant = self.plan.variants[at]
        whole: Lineup = (BOT,) * variant.slot_count
        repeated = [whole] if variant.seeded and turn < _REPEATED else []
        # In a one-seat game, the first lineup already has the player alone
        alone = [label for label in self.plan.players() if label != BOT or variant.slot_count > 1]
        seat = turn % variant.slot_count
        return (
            whole,
            *repeated,
            *(tuple(label if slot == seat else None for slot in range(variant.slot_count)) for label in alone),
        )

    def look(self, block: JudgedBlock) -> str:
        """Take in a block; nothing ends a diagnosis early."""
        lineups = self.lineups(block.block)
        rows = self.ledger.played[block.block][-len(lineups) :]
        if block.fate in ("counted", "void", "unplayed"):
            self._taken[self._place(block.block)[1]].take(block, lineups, rows)
        return ""

    def seat_scores(self, block: JudgedBlock) -> tuple[float, ...]:
        """Empty: seats of different variants are not comparable."""
        del block
        return ()

    def alike(self, block: JudgedBlock) -> tuple[str, ...]:
        """The players, the variant, and the seat in which each of them sits alone."""
        turn, at = self._place(block.block)
        variant = self.plan.variants[at]
        return (variant.id, str(turn % variant.slot_count), *super().alike(block))

    def outcome(self, block: JudgedBlock) -> tuple[float, ...]:
        """The scores of all episodes, with a repeated lineup counted once."""
        tables = dict(zip(self.lineups(block.block), block.tables, strict=True)).values()
        return tuple(score for table in tables for score in table)

    def _place(self, block: int) -> tuple[int, int]:
        """The turn that a block belongs to, and the index of its variant."""
        return divmod(block - 1, len(self.plan.variants))

    def report(self) -> DiagnosisReport:
        """The result; it does not depend on the order of the rows."""
        common = self.common()
        measured = bool(common["blocks"])
        variants = tuple(taken.diagnosis(self.scale, measured=measured) for taken in self._taken)
        changes = tuple(_changed(self.plan.before, variants)) if self.plan.before is not None else ()
        return DiagnosisReport.model_validate(
            {
                **common,
                "plan": self.plan,
                "variants": variants,
                "findings": tuple(findings(self.plan, variants, changes)),
                "changes": changes,
            }
        )


class _Taken:
    """The observations in one variant so far."""

    def __init__(self, variant: VariantPlan, labels: Sequence[str], among: int) -> None:
        self._variant = variant
        self._among = among
        self._scores: dict[str, list[float]] = {label: [] for label in labels}
        self._whole = Sample()
        self._seats = SeatSamples()
        self._faults: Counter[str] = Counter()
        self._turns: Counter[str] = Counter()
        self._seconds: Counter[float] = Counter()
        self._repeats: Counter[str] = Counter()
        self._first = ""
        self._blocks = self._episodes = 0

    def take(self, block: JudgedBlock, lineups: Sequence[Lineup], rows: Sequence[EpisodeRow]) -> None:
        """Take in a block."""
        self._blocks += 1
        for lineup, row in zip(lineups, rows, strict=True):
            self._behave(lineup, row)
        repeated = len(lineups) > 1 and lineups[0] == lineups[1]
        if repeated and rows[0].ok and rows[1].ok:
            self._repeats["all"] += 1
            self._repeats["scores"] += rows[0].scores != rows[1].scores
            self._repeats["replays"] += rows[0].replay_sha256 != rows[1].replay_sha256
        if block.fate != "counted":
            return
        whole = block.tables[0]
        self._whole.add(math.fsum(whole) / len(whole))
        if not block.forfeits and len(whole) > 1:
            self._seats.add(whole)
        for at, (lineup, table) in enumerate(zip(lineups, block.tables, strict=True)):
            seated = [(label, score) for label, score in zip(lineup, table, strict=True) if label is not None]
            # A repeated episode is no further evidence
            if len(seated) == 1 and not (repeated and at == 1):
                self._scores[seated[0][0]].append(seated[0][1])

    def _behave(self, lineup: Lineup, row: EpisodeRow) -> None:
        if BOT not in lineup:
            return
        self._episodes += 1
        if row.party == "player" and row.fault_slot is not None and lineup[row.fault_slot] == BOT:
            self._faults[row.error_type or "player_error"] += 1
            self._first = self._first or row.workspace
        for label, seat in zip(lineup, row.conduct, strict=False):
            if label == BOT:
                self._turns.update(acted=seat.acted, idle=seat.idle, refused=seat.refused)
                self._seconds.update(dict(seat.seconds))

    def diagnosis(self, scale: Scale | None, *, measured: bool) -> VariantDiagnosis:
        """The diagnosis of the variant; without scores if nothing could be measured."""
        nothing: list[float] = []
        apart = scale.differences() if scale is not None else None
        scores = self._scores if measured else dict.fromkeys(self._scores, nothing)
        own = scores[BOT]
        less = {
            label: [a - b for a, b in zip(own, scores[label], strict=True)] if label in scores else []
            for label in (BASELINE, STRONG)
        }
        many = self._variant.slot_count > 1
        return VariantDiagnosis(
            id=self._variant.id,
            blocks=self._whole.count if measured else 0,
            with_itself=measured_value(self._whole, scale) if measured and many else None,
            alone=measured_value(Sample(own), scale),
            deviation=rounded(statistics.stdev(own)) if len(own) > 1 else None,
            over_baseline=measured_value(Sample(less[BASELINE]), apart),
            over_strong=measured_value(Sample(less[STRONG]), apart),
            normalised=_normalised(less[BASELINE], less[STRONG], apart),
            slot_effects=measured_slots(self._seats.effects, scale=scale, among=self._among) if measured else (),
            repeated=self._repeats["all"],
            other_scores=self._repeats["scores"],
            other_replays=self._repeats["replays"],
            conduct=self._conduct(),
        )

    def _conduct(self) -> BehaviourSummary:
        faults, turns = self._faults, self._turns
        told = sum(turns.values()) > 0
        late, absent = faults["player_timeout"], faults["player_never_started"]
        return BehaviourSummary(
            episodes=self._episodes,
            failed=faults.total() - late - absent,
            timed_out=late,
            never_started=absent,
            acted=turns["acted"] if told else None,
            idle=turns["idle"] if told else None,
            refused=turns["refused"] if told else None,
            median_seconds=quantile_seconds(self._seconds.items(), 0.5),
            slow_seconds=quantile_seconds(self._seconds.items(), 0.99),
            first_fault=self._first,
            fault_share=self._share(faults.total(), self._episodes),
            idle_share=self._share(turns["idle"], turns["acted"] + turns["idle"]),
            refused_share=self._share(turns["refused"], turns["acted"] + turns["refused"]),
        )

    def _share(self, some: int, of: int) -> MeasuredValue | None:
        """A share with its interval; the blocks are the independent observations."""
        if not of:
            return None
        share = some / of
        return MeasuredValue(value=rounded(share), interval=interval_record(share_interval(share, self._blocks)))


def _normalised(
    over_baseline: Sequence[float], over_strong: Sequence[float], scale: Scale | None
) -> MeasuredValue | None:
    """The player's position from baseline (0) to strong (1); None if these two are not told apart."""
    if not over_baseline or not over_strong:
        return None
    ways = [a - b for a, b in zip(over_baseline, over_strong, strict=True)]
    way = math.fsum(ways) / len(ways)
    interval = mean_interval(ways, scale=scale)
    if way == 0 or interval is None or (interval.low <= 0 <= interval.high):
        return None
    share = math.fsum(over_baseline) / math.fsum(ways)
    # The interval of a ratio follows from that of the residuals
    wider = scale.differences((1 + abs(share)) / 2) if scale is not None else None
    left = mean_interval([a - share * b for a, b in zip(over_baseline, ways, strict=True)], scale=wider)
    if left is None:
        return MeasuredValue(value=rounded(share))
    ends = sorted((share + left.low / way, share + left.high / way))
    return MeasuredValue(
        value=rounded(share), interval=interval_record(Interval(low=ends[0], high=ends[1], method=left.method))
    )


def _estimates(variants: Sequence[VariantDiagnosis]) -> list[Estimate]:
    found: list[Estimate] = []
    for one in variants:
        said = [
            ("normalised score", one.normalised),
            ("over the baseline", one.over_baseline),
            ("over the strong player", one.over_strong),
            ("score alone", one.alone),
            ("score with itself", one.with_itself),
            ("share of episodes spoiled", one.conduct.fault_share),
            ("share of turns idle", one.conduct.idle_share),
            ("share of messages refused", one.conduct.refused_share),
        ]
        found += [
            Estimate(quantity=quantity, of=one.id, value=value.value, interval=value.interval)
            for quantity, value in said
            if value is not None
        ]
        found += [
            Estimate(quantity="seat effect", of=f"{one.id} seat {seat.slot}", value=seat.effect, interval=seat.interval)
            for seat in one.slot_effects
        ]
    return found


def _changed(before: EarlierDiagnosis, variants: Sequence[VariantDiagnosis]) -> list[DiagnosisChange]:
    """The numbers that differ significantly from the earlier diagnosis."""
    was = {(number.quantity, number.of): number for number in before.numbers}
    both = [(now, was[now.quantity, now.of]) for now in _estimates(variants) if (now.quantity, now.of) in was]
    changes: list[DiagnosisChange] = []
    for now, then in both:
        if then.interval is None or now.interval is None:
            continue
        found = difference_interval(now.value, _read(now.interval), then.value, _read(then.interval), among=len(both))
        difference = interval_record(found)
        if difference is not None and excludes_zero(difference):
            changes.append(
                DiagnosisChange(quantity=now.quantity, of=now.of, before=then.value, now=now.value, interval=difference)
            )
    return changes


def _read(interval: IntervalRecord) -> Interval:
    return Interval(low=interval.low, high=interval.high, method="mover")
