"""Is one player better than another? Decided block by block, as soon as there is enough evidence and no sooner.

The verdict is about winning blocks: ``sign_evidence`` of the blocks won and lost. Beside it stands by how much: the
mean difference and its interval. Where the two disagree, a remark says so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from ..episode import EpisodeRow, SeatRow
from ..errors import UsageError
from ..events import EvaluationProgressed
from ..records import Grows, Record, SchemaVersion
from .designs import Lineup, comparison_lineups, parse_key
from .estimates import Interval, mean_interval, running_interval, sign_evidence
from .judging import BlockLedger, JudgedBlock

__all__ = [
    "NEW",
    "OLD",
    "Comparison",
    "ComparisonPlan",
    "ComparisonReport",
    "ComparisonVerdict",
    "IntervalRecord",
    "MeasuredEntrant",
    "MeasuredSeat",
    "Remark",
    "compare_rows",
]

NEW, OLD = "new", "old"
"""Labels of the two entrants."""

ComparisonVerdict = Annotated[Literal["better", "worse", "equal", "undecided"], Grows]
"""``better`` or ``worse``: the new player wins or loses more blocks than chance explains; ``equal``: no difference
worth having; ``undecided``: not enough evidence."""

_PATIENCE = 3
"""Blocks after which a player that was never there, or a game that spoils all of them, is taken at its word."""
_VOID_SHARE = 0.1
"""Above this share of void blocks it is the game that was measured."""


class EvaluationPlan(Record):
    """What every evaluation is about."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this file's shape.")
    coworld: str = Field(description="Name of the Coworld.")
    version: str = Field(description="Version of the Coworld.")
    manifest_sha256: str = Field(default="", description="Digest of the manifest in canonical form.")
    variant: str = Field(description="Variant id, or certification.")
    seats: int = Field(ge=1, description="How many seats the game has.")
    seed: int = Field(description="The base seed: those of the blocks are made of it.")
    seeded: bool = Field(description="Whether the game's config takes a seed, so that a block's episodes share one.")
    metric: str = Field(default="", description="JSON pointer to what is measured; empty: the scores.")
    max_blocks: int = Field(ge=1, description="How many blocks are played at most.")
    alpha: float = Field(default=0.05, gt=0, lt=1, description="How often a verdict may be wrong when there is none.")
    forfeit: float | None = Field(default=None, description="Score of whoever forfeits; null: the worst shown by then.")
    starved: bool = Field(default=False, description="Whether episodes short of processors count.")


class ComparisonPlan(EvaluationPlan):
    """What a comparison is about: everything that its report depends on besides the rows."""

    new: SeatRow = Field(description="The player that is to be better.")
    old: SeatRow = Field(description="The player that it is compared with.")
    same_command: bool = Field(default=False, description="Whether both are the same command, with the same settings.")
    margin: float | None = Field(default=None, ge=0, description="Differences up to this are not worth having.")


class IntervalRecord(Record):
    """An interval that contains the truth in 95 of 100 cases."""

    low: float = Field(description="Its lower end.")
    high: float = Field(description="Its upper end.")
    method: Annotated[Literal["bootstrap", "student-t", "running", "model"], Grows] = Field(
        description="How it was made; running: may be looked at after every block."
    )


class MeasuredEntrant(Record):
    """How one entrant did."""

    label: str = Field(description="What it is called in the plan.")
    mean: float | None = Field(description="Mean over blocks of its mean score in each; null without blocks.")
    interval: IntervalRecord | None = Field(default=None, description="Of that mean; null for fewer than two blocks.")
    digest: str = Field(default="", description="Content id of what ran; empty for local processes.")
    forfeits: int = Field(default=0, ge=0, description="Episodes that it forfeited: it failed and left no results.")


class MeasuredSeat(Record):
    """What a seat is worth, whoever sits there."""

    slot: int = Field(ge=0, description="The seat.")
    effect: float = Field(description="Mean score in this seat over that in all seats.")
    interval: IntervalRecord | None = Field(default=None, description="Of that effect.")


class Remark(Record):
    """Something that a reader must know to judge an evaluation."""

    code: str = Field(description="Stable name of it.")
    message: str = Field(description="It, in a sentence or two.")


class EvaluationReport(Record):
    """What every evaluation comes to."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this file's shape.")
    blocks: int = Field(ge=0, description="Blocks that were counted.")
    void: int = Field(ge=0, description="Blocks that the game spoiled, not counted.")
    spoiled: int = Field(ge=0, description="Blocks that the machine or the engine spoiled every time, not counted.")
    replayed: int = Field(ge=0, description="How often a block was played again.")
    entrants: tuple[MeasuredEntrant, ...] = Field(description="How each entrant did.")
    seat_effects: tuple[MeasuredSeat, ...] = Field(
        default=(), description="Of each seat; empty where not everybody sat everywhere."
    )
    remarks: tuple[Remark, ...] = Field(default=(), description="What a reader must know.")


class ComparisonReport(EvaluationReport):
    """What a comparison came to."""

    plan: ComparisonPlan = Field(description="What was compared.")
    verdict: ComparisonVerdict = Field(description="Whether the new player is better.")
    stopped: Annotated[
        Literal["", "evidence", "margin", "max_blocks", "never_started", "game_faults", "spoiled"], Grows
    ] = Field(description="Why no more blocks are needed; empty while more are.")
    won: int = Field(ge=0, description="Blocks in which the new player scored more.")
    lost: int = Field(ge=0, description="Blocks in which it scored less.")
    drawn: int = Field(ge=0, description="Blocks in which both scored the same.")
    evidence: float = Field(ge=0, description="For a difference; 1 / alpha decides.")
    difference: float | None = Field(description="Mean over blocks of new less old; null without blocks.")
    interval: IntervalRecord | None = Field(
        default=None, description="Of that mean, valid at every look; null for fewer than ten blocks."
    )


class Comparison:
    """A comparison while it goes on: takes rows in any order, decides by blocks in their own.

    Args:
        plan: What is compared.

    Attributes:
        stopped: Why it is over; empty while it is not.
        verdict: What it is by now.
        digests: Content ids of what ran, by label, where they are known.
    """

    def __init__(self, plan: ComparisonPlan) -> None:
        self.plan = plan
        self.ledger = BlockLedger(self.lineups, starved=plan.starved, forfeit=plan.forfeit)
        self.stopped: str = ""
        self.verdict: str = "undecided"
        self.digests: dict[str, str] = {}
        self._seen: list[JudgedBlock] = []
        self._differences: list[float] = []
        self._won = self._lost = 0

    def lineups(self, block: int) -> Sequence[Lineup]:
        """The lineups of a block."""
        return comparison_lineups(NEW, OLD, self.plan.seats, block)

    @property
    def counted(self) -> int:
        """Blocks that count so far."""
        return len(self._differences)

    def progress(self) -> EvaluationProgressed:
        """How far it is."""
        return EvaluationProgressed(
            blocks=len(self._seen),
            max_blocks=self.plan.max_blocks,
            counted=self.counted,
            won=self._won,
            lost=self._lost,
            evidence=rounded(sign_evidence(self._won, self._lost)),
            decides=1 / self.plan.alpha,
            stopped=self.stopped,
        )

    def add(self, row: EpisodeRow) -> None:
        """Take in a row. Blocks after the one that decides change nothing any more.

        Raises:
            UsageError: Code ``image_changed``: what ran is not what ran before.
        """
        note_digests(self.digests, self.lineups, row)
        for block in self.ledger.add(row):
            if not self.stopped:
                self._look(block)

    def _look(self, block: JudgedBlock) -> None:
        self._seen.append(block)
        if block.fate == "counted":
            difference = block.scores[NEW] - block.scores[OLD]
            self._differences.append(difference)
            self._won += difference > 0
            self._lost += difference < 0
        margin = self.plan.margin
        if len(self._seen) >= _PATIENCE and (hopeless := hopeless_start(self._seen[:_PATIENCE])):
            self.stopped = hopeless
        elif sign_evidence(self._won, self._lost) >= 1 / self.plan.alpha:
            self.stopped, self.verdict = "evidence", "better" if self._won > self._lost else "worse"
        elif margin is not None and self._within(margin):
            self.stopped, self.verdict = "margin", "equal"
        if not self.stopped and len(self._seen) >= self.plan.max_blocks:
            self.stopped = "max_blocks" if self.counted else "spoiled"

    def _within(self, margin: float) -> bool:
        interval = running_interval(self._differences, alpha=self.plan.alpha)
        return interval is not None and -margin <= interval.low and interval.high <= margin

    def report(self) -> ComparisonReport:
        """What it came to; the same for the same rows, however they are ordered and whatever came after the verdict."""
        unplayable = self.stopped in ("never_started", "game_faults", "spoiled")
        counted = [] if unplayable else [block for block in self._seen if block.fate == "counted"]
        differences = [] if unplayable else self._differences
        won, lost = (0, 0) if unplayable else (self._won, self._lost)
        middle = rounded(math.fsum(differences) / len(differences)) if differences else None
        interval = running_interval(differences, alpha=self.plan.alpha)
        entrants = measured_entrants((NEW, OLD), counted, self._seen, self.digests)
        effects = measured_seats(counted)
        names = {NEW: self.plan.new.name, OLD: self.plan.old.name}
        remarks = [
            *self._about_pair(),
            *common_remarks(self.plan, self._seen, counted, effects, names),
            *_about_difference(self.verdict, won, lost, middle, interval),
        ]
        return ComparisonReport.model_validate(
            {
                "plan": self.plan,
                "verdict": self.verdict,
                "stopped": self.stopped,
                "blocks": len(counted),
                **spoilt_counts(self._seen),
                "won": won,
                "lost": lost,
                "drawn": len(differences) - won - lost,
                "evidence": rounded(sign_evidence(won, lost)),
                "difference": middle,
                "interval": interval_record(interval),
                "entrants": entrants,
                "seat_effects": effects,
                "remarks": tuple(remarks),
            }
        )

    def _about_pair(self) -> list[Remark]:
        same_image = self.plan.new.image == self.plan.old.image
        if NEW in self.digests and OLD in self.digests:
            same_image = self.digests[NEW] == self.digests[OLD]
        if not (self.plan.same_command and same_image):
            return []
        return [Remark(code="same_player", message="Both are the same program: you compare a player with itself.")]


def compare_rows(plan: ComparisonPlan, rows: Iterable[EpisodeRow]) -> ComparisonReport:
    """Say what the rows of a comparison come to.

    Args:
        plan: What was compared (``plan.json``).
        rows: The episodes, in any order (``episodes.jsonl``).
    """
    comparison = Comparison(plan)
    for row in rows:
        comparison.add(row)
    return comparison.report()


# --- what rankings say as well ------------------------------------------------------------------------------------


def rounded(value: float) -> float:
    """A number as a report has it: more digits would differ from one processor to the next."""
    return float(f"{value:.6g}")


def interval_record(interval: Interval | None) -> IntervalRecord | None:
    """An interval as a report has it."""
    if interval is None:
        return None
    return IntervalRecord(low=rounded(interval.low), high=rounded(interval.high), method=interval.method)


def hopeless_start(blocks: Sequence[JudgedBlock]) -> Literal["", "never_started", "game_faults", "spoiled"]:
    """Whether the first blocks show that more of them are of no use, and why."""
    if frozenset[str].intersection(*(block.absent for block in blocks)):
        return "never_started"
    if all(block.fate == "void" for block in blocks):
        return "game_faults"
    return "spoiled" if all(block.fate == "spoiled" for block in blocks) else ""


def spoilt_counts(seen: Sequence[JudgedBlock]) -> dict[str, int]:
    """How many blocks were not counted, and how many were played again."""
    fates = Counter(block.fate for block in seen)
    return {
        "void": fates["void"],
        "spoiled": fates["spoiled"],
        "replayed": sum(block.attempts - 1 for block in seen),
    }


def note_digests(digests: dict[str, str], lineups: Callable[[int], Sequence[Lineup]], row: EpisodeRow) -> None:
    """Note what ran as whom.

    Raises:
        UsageError: Code ``image_changed``: it is not what ran before.
    """
    place = parse_key(row.key)
    if place is None:
        return
    for label, seat in zip(lineups(place[0])[place[2] - 1], row.seats, strict=False):
        if label is None or not seat.digest:
            continue
        if digests.setdefault(label, seat.digest) != seat.digest:
            raise UsageError(
                f"The image {seat.image} has changed since the evaluation began: it was {digests[label]} and is "
                f"{seat.digest} now.",
                code="image_changed",
                hint="Begin anew in another directory, or name the image by its digest.",
            )


def measured_entrants(
    labels: Sequence[str], counted: Sequence[JudgedBlock], seen: Sequence[JudgedBlock], digests: Mapping[str, str]
) -> tuple[MeasuredEntrant, ...]:
    """How each entrant did."""
    measured: list[MeasuredEntrant] = []
    for label in labels:
        scores = [block.scores[label] for block in counted if label in block.scores]
        measured.append(
            MeasuredEntrant(
                label=label,
                mean=rounded(math.fsum(scores) / len(scores)) if scores else None,
                interval=interval_record(mean_interval(scores)),
                digest=digests.get(label, ""),
                forfeits=sum(block.forfeits.get(label, 0) for block in seen),
            )
        )
    return tuple(measured)


def measured_seats(counted: Sequence[JudgedBlock]) -> tuple[MeasuredSeat, ...]:
    """What each seat is worth."""
    rows = [block.by_seat for block in counted if block.by_seat]
    if not rows:
        return ()
    count = len(rows[0])
    # of two seats one is worth what the other is not; of more, each is another chance to be wrong
    level = 1 - 0.05 / (1 if count == 2 else count)
    measured: list[MeasuredSeat] = []
    for slot in range(count):
        effects = [row[slot] - math.fsum(row) / count for row in rows]
        measured.append(
            MeasuredSeat(
                slot=slot,
                effect=rounded(math.fsum(effects) / len(effects)),
                interval=interval_record(mean_interval(effects, level=level)),
            )
        )
    return tuple(measured)


def common_remarks(
    plan: EvaluationPlan,
    seen: Sequence[JudgedBlock],
    counted: Sequence[JudgedBlock],
    effects: Sequence[MeasuredSeat],
    names: dict[str, str],
) -> list[Remark]:
    """What a reader must know of any evaluation."""
    remarks: list[Remark] = []

    def say(code: str, message: str) -> None:
        remarks.append(Remark(code=code, message=message))

    first = seen[:_PATIENCE]
    if len(first) == _PATIENCE and (absent := frozenset[str].intersection(*(block.absent for block in first))):
        who = " and ".join(names[label] for label in sorted(absent))
        say("never_started", f"{who} failed in every episode of the first {_PATIENCE} blocks, so nothing was counted.")
    voids = [block for block in seen if block.fate == "void"]
    if len(voids) > _VOID_SHARE * len(seen):
        say(
            "game_faults",
            f"{len(voids)} of {len(seen)} blocks are void, the first because: {voids[0].reason} "
            "The game was measured, not the players.",
        )
    spoiled = [block for block in seen if block.fate == "spoiled"]
    if spoiled:
        say(
            "spoiled_blocks",
            f"{len(spoiled)} of {len(seen)} blocks were spoiled every time they were played, the first because: "
            f"{spoiled[0].reason}",
        )
    if not plan.seeded:
        say(
            "no_seed",
            "The game takes no seed: the episodes of a block share nothing but their time, so seeds cannot be paired.",
        )
    scores = [tuple(sorted(block.scores.items())) for block in counted]
    if len(counted) > 1 and len({value for block in scores for _, value in block}) == 1:
        say("constant_scores", "Everybody scored the same in every block: these scores tell nobody apart.")
    elif len(counted) >= _PATIENCE and len(set(scores)) == 1 and plan.max_blocks > 1:
        say(
            "same_blocks",
            "Every block came out exactly alike: more blocks of the same game are no more evidence about other games.",
        )
    for seat in effects:
        if (
            len(set(scores)) > 1
            and seat.interval is not None
            and not seat.interval.low <= 0 <= seat.interval.high
            and seat.effect > 0
        ):
            say(
                "seat_effect",
                f"The game favours seat {seat.slot}, by {seat.effect:g} on average. Everybody sat there equally often.",
            )
    for label, count in sorted(sum((Counter(block.forfeits) for block in seen), Counter[str]()).items()):
        say("forfeits", f"{names[label]} forfeited {count} {'episode' if count == 1 else 'episodes'}.")
    return remarks


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
