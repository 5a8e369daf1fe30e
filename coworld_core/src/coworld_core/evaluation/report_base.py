"""The common base of all evaluations: the plan, the report, and the progress block by block."""

from __future__ import annotations

import abc
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field

from ..documents.records import OpenEnum, Record, SchemaVersion, is_empty
from ..episode.config_text import variant_text
from ..episode.events import EvaluationProgressed
from ..episode.model_use import ModelUse
from ..episode.record import EpisodeRow, SlotRow
from ..errors import UsageError
from ..text.phrases import plural
from ..text.tables import TableRow, Tabular
from .block_ledger import BlockLedger, JudgedBlock
from .designs import Lineup, parse_key
from .estimates import LEAST, Interval, Sample, Scale
from .totals import BLOCKS_BEFORE_GIVING_UP, Totals

__all__ = [
    "UNMEASURED",
    "Durations",
    "Estimate",
    "Evaluation",
    "EvaluationPlan",
    "EvaluationReport",
    "EvaluationTerms",
    "FaultCount",
    "ForfeitRecord",
    "IntervalRecord",
    "MeasuredEntrant",
    "MeasuredModel",
    "MeasuredSlot",
    "MeasuredValue",
    "Remark",
    "interval_record",
    "measured_durations",
    "measured_slots",
    "measured_value",
    "rounded",
]

UNMEASURED = frozenset({"never_started", "always_failed", "game_faults", "spoiled"})
"""Reasons why an evaluation ended without measuring anything."""

_VOID_SHARE = 0.1
"""Above this share of void blocks, the result says more about the game than about the players."""


class EvaluationTerms(Record):
    """The terms of an evaluation or a tournament: what is played and what counts."""

    coworld: str = Field(description="Name of the Coworld.")
    version: str = Field(description="Version of the Coworld.")
    manifest_sha256: str = Field(default="", description="Digest of the manifest in canonical form.")
    variant: str = Field(description="Variant id, or certification; of several, their ids.")
    config_changes: dict[str, Any] = Field(
        default_factory=dict, exclude_if=is_empty, description="Changes to the game config of the variant."
    )
    slot_count: int = Field(ge=1, description="Number of slots in the game.")
    seed: int = Field(description="The base seed, from which those of the blocks are derived.")
    seed_commitment: str = Field(
        default="",
        exclude_if=is_empty,
        description="SHA-256 of the secret from which the seeds of the blocks are derived instead; empty: none.",
    )
    seeded: bool = Field(description="Whether the game's config takes a seed, so that a block's episodes share one.")
    metric: str = Field(default="", description="JSON pointer to the measured numbers; empty: the scores.")
    forfeit: float | None = Field(default=None, description="Score of a player that forfeits; null: the lowest.")
    lowest: float | None = Field(
        default=None, description="Lowest score that the game allows, by its results schema; null: unknown."
    )
    highest: float | None = Field(default=None, description="Highest score that it allows; null: unknown.")
    count_starved: bool = Field(default=False, description="Whether episodes short of processors count.")
    alpha: float = Field(default=0.05, gt=0, lt=1, description="How often equal players may be told apart.")
    max_blocks: int = Field(ge=1, description="Maximum number of blocks.")

    @property
    def played(self) -> str:
        """The variant, and what is changed in its config."""
        return variant_text(self.variant, self.config_changes)


class EvaluationPlan(EvaluationTerms):
    """The plan of an evaluation."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this file's shape.")
    kind: str = Field(description="The command that made it.")
    same_commands: tuple[tuple[str, ...], ...] = Field(
        default=(), description="Groups of labels of players with the same command and settings."
    )
    others: SlotRow | None = Field(
        default=None,
        exclude_if=is_empty,
        description="The player in the seats that no measured player has; left out: the game's own players.",
    )
    max_cost: float | None = Field(
        default=None,
        gt=0,
        exclude_if=is_empty,
        description="US dollars of language models from which on no further block is begun; left out: no limit.",
    )

    @property
    def played(self) -> str:
        """The variant, what is changed in its config, and who else plays."""
        return f"{super().played}, among {self.others.name}" if self.others is not None else super().played

    @abc.abstractmethod
    def players(self) -> dict[str, SlotRow]:
        """The measured players, by label."""


class IntervalRecord(Record):
    """An interval that contains the true value in 95 of 100 cases."""

    low: float = Field(description="Its lower end.")
    high: float = Field(description="Its upper end.")
    method: Annotated[
        Literal["bootstrap", "student-t", "running", "betting", "clopper-pearson", "model", "wilson", "mover"], OpenEnum
    ] = Field(description="How it was computed; running: valid after every block. Those of old files may be Wilson's.")


class ForfeitRecord(Record):
    """The first episode that an entrant forfeited."""

    workspace: str = Field(description="Its directory, relative to the evaluation's.")
    error_type: str = Field(description="Type of the entrant's fault.")
    message: str = Field(description="The fault in a sentence.")
    log: str = Field(default="", description="Its log, relative to the evaluation's directory; empty: unknown.")
    log_end: str = Field(default="", description="The last line of that log, shortened.")

    def __str__(self) -> str:
        ended = f" Its log ends: {self.log_end}" if self.log_end else ""
        return f"{self.message} [{self.error_type}]{ended} ({self.log or self.workspace})".lstrip()


class MeasuredEntrant(Record):
    """The result of one entrant."""

    label: str = Field(description="Label of the entrant.")
    mean_score: float | None = Field(description="Mean over blocks of its mean score in each; null without blocks.")
    interval: IntervalRecord | None = Field(default=None, description="Its interval; null if there are too few blocks.")
    digest: str = Field(default="", description="Content id of what ran; empty for local processes.")
    forfeits: int = Field(default=0, ge=0, description="Episodes that it forfeited, because it failed in them.")
    first_forfeit: ForfeitRecord | None = Field(default=None, description="The first of them; null: there is none.")


class MeasuredModel(ModelUse):
    """What the language model of an entrant was asked in all episodes, and what that cost."""

    label: str = Field(description="Label of the entrant; empty: the player in the other seats.")


class MeasuredSlot(Record):
    """The value of a seat, independent of its player."""

    slot: int = Field(ge=0, description="The seat.")
    effect: float = Field(description="Mean score in this seat less that in all seats.")
    interval: IntervalRecord | None = Field(default=None, description="Interval of the effect.")


class MeasuredValue(Record):
    """A mean over blocks."""

    value: float = Field(description="The mean.")
    interval: IntervalRecord | None = Field(default=None, description="Its interval; null if there are too few blocks.")


class Durations(Record):
    """How long episodes took, in seconds."""

    episodes: int = Field(ge=1, description="Number of episodes, including those played again.")
    median: float = Field(ge=0, description="Half of the episodes took less.")
    longest: float = Field(ge=0, description="The longest episode.")
    total: float = Field(ge=0, description="Sum over all episodes.")


class FaultCount(Record):
    """The number of episodes with a fault of one kind."""

    party: str = Field(description="The party at fault.")
    error_type: str = Field(description="Type of the fault.")
    episodes: int = Field(ge=1, description="Number of episodes with this fault.")


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number that an evaluation measured, with its interval."""

    quantity: str
    """What the number measures."""
    of: str
    """The player or thing it describes."""
    value: float
    interval: IntervalRecord | None


class Remark(Record):
    """Something that a reader must know to judge an evaluation."""

    code: str = Field(description="Stable name of the remark.")
    message: str = Field(description="The remark, in a sentence or two.")


class EvaluationReport(Record, Tabular):
    """The result of an evaluation."""

    if TYPE_CHECKING:
        plan: EvaluationPlan

    schema_version: SchemaVersion = Field(default=1, description="Version of this file's shape.")
    stopped: Annotated[
        Literal["", "evidence", "margin", "told_apart", "max_blocks", "max_cost", "rounds"]
        | Literal["never_started", "always_failed", "game_faults", "spoiled"],
        OpenEnum,
    ] = Field(description="Why no more blocks are needed; empty while more are.")
    blocks: int = Field(ge=0, description="Number of counted blocks.")
    void: int = Field(
        ge=0, description="Void blocks, mostly due to the game, or to a player that had never connected; not counted."
    )
    spoiled: int = Field(ge=0, description="Blocks that the machine or the engine spoiled every time, not counted.")
    replayed: int = Field(ge=0, description="How often a block was played again.")
    entrants: tuple[MeasuredEntrant, ...] = Field(description="The result of each entrant.")
    slot_effects: tuple[MeasuredSlot, ...] = Field(
        default=(), description="The effect of each slot; empty unless every player sat in every slot."
    )
    faults: tuple[FaultCount, ...] = Field(default=(), description="Faults in episodes, including those played again.")
    models: tuple[MeasuredModel, ...] = Field(
        default=(), exclude_if=is_empty, description="The use of language models; left out if there are none."
    )
    remarks: tuple[Remark, ...] = Field(default=(), description="What a reader must know.")

    @property
    def cost(self) -> float | None:
        """US dollars that all language models have cost; None: not known."""
        return _cost(self.models)

    def estimates(self) -> list[Estimate]:
        """Every measured number with its interval, the most important first."""
        names = {label: player.name for label, player in self.plan.players().items()}
        found = [
            Estimate(
                quantity="mean score", of=names[entrant.label], value=entrant.mean_score, interval=entrant.interval
            )
            for entrant in self.entrants
            if entrant.mean_score is not None
        ]
        return found + [
            Estimate(quantity="seat effect", of=f"seat {seat.slot}", value=seat.effect, interval=seat.interval)
            for seat in self.slot_effects
        ]

    def to_records(self) -> list[TableRow]:
        """Every measured number as a flat row, for a data frame.

        Returns:
            Rows with the keys `kind`, `coworld`, `version`, `variant`, `seed`, `blocks`, `quantity`,
            `of`, `value`, `low`, `high` and `method`; the last three are None if there is no interval.
        """
        plan = self.plan
        return [
            {
                "kind": plan.kind,
                "coworld": plan.coworld,
                "version": plan.version,
                "variant": plan.variant,
                "seed": plan.seed if plan.seeded and not plan.seed_commitment else None,
                "blocks": self.blocks,
                "quantity": one.quantity,
                "of": one.of,
                "value": one.value,
                "low": one.interval.low if one.interval else None,
                "high": one.interval.high if one.interval else None,
                "method": one.interval.method if one.interval else None,
            }
            for one in self.estimates()
        ]


_Plan = TypeVar("_Plan", bound=EvaluationPlan)
_Report = TypeVar("_Report", bound=EvaluationReport)


class Evaluation(abc.ABC, Generic[_Plan, _Report]):
    """An evaluation in progress: accepts rows in any order and judges blocks in sequence.

    Args:
        plan: The plan of the evaluation.

    Attributes:
        ledger: The rows, judged block by block.
        stopped: Why it is over; empty while it is not.
        digests: Content ids of what ran, by label, if known.
        totals: The totals of its blocks, up to the one that ended it.
        models: The use of language models in all its episodes, by label.
    """

    def __init__(self, plan: _Plan) -> None:
        self.plan = plan
        self.ledger = BlockLedger(
            self.lineups, starved=plan.count_starved, forfeit=plan.forfeit, lowest=plan.lowest, highest=plan.highest
        )
        self.stopped: str = ""
        self.digests: dict[str, str] = {}
        self.totals = Totals()
        self.models: dict[str, MeasuredModel] = {}

    @property
    def over_budget(self) -> bool:
        """Whether language models have cost as much as they may, or what they have cost is not known."""
        most, spent = self.plan.max_cost, _cost(self.models.values())
        return most is not None and (spent is None or spent >= most)

    @property
    def halted(self) -> str:
        """Why no further block is begun; empty while more are."""
        return self.stopped or ("max_cost" if self.over_budget else "")

    @abc.abstractmethod
    def lineups(self, block: int) -> Sequence[Lineup]:
        """The lineups of a block."""

    def seed_of(self, block: int) -> int | None:
        """The seed given for a block; None if it is drawn from the base seed."""
        del block
        return None

    @abc.abstractmethod
    def look(self, block: JudgedBlock) -> str:
        """Take in a block; return why no more are needed, or an empty string while more are."""

    @abc.abstractmethod
    def report(self) -> _Report:
        """The result; it does not depend on the order of the rows."""

    def over(self, rows: Iterable[EpisodeRow]) -> _Report:
        """Add rows and return the report."""
        for row in rows:
            self.add(row)
        return self.report()

    def add(self, row: EpisodeRow) -> None:
        """Add a row. Blocks after the deciding one have no effect.

        Raises:
            UsageError: Code `image_changed` if a different image ran than before.
        """
        self._note_digests(row)
        self._note_models(row)
        for block in self.ledger.add(row):
            self.take_in(block)

    def take_in(self, block: JudgedBlock) -> None:
        """Take in a judged block, and check whether it ends the evaluation."""
        if self.stopped:
            return
        self.add_up(block)
        reason = self.look(block)
        totals = self.totals
        if block.absent or totals.blocks == BLOCKS_BEFORE_GIVING_UP:
            reason = totals.hopeless or reason
        over = totals.blocks >= self.plan.max_blocks
        self.stopped = reason or (("max_blocks" if totals.fates["counted"] else "spoiled") if over else "")

    def add_up(self, block: JudgedBlock) -> None:
        """Add a block to the totals."""
        counted = block.fate == "counted"
        self.totals.add(
            block,
            alike=self.alike(block) if counted else (),
            outcome=self.outcome(block) if counted else (),
            seats=self.seat_scores(block) if counted else (),
        )

    @property
    def last_block(self) -> int:
        """Number of the last block that may be played."""
        return self.plan.max_blocks

    def alike(self, block: JudgedBlock) -> tuple[str, ...]:
        """A value that is equal for blocks that differ only in their seeds."""
        return tuple(sorted(block.scores))

    def outcome(self, block: JudgedBlock) -> tuple[float, ...]:
        """Scores that are equal for blocks with the same outcome."""
        return tuple(block.scores[label] for label in sorted(block.scores))

    @property
    def least_blocks(self) -> int | None:
        """How many blocks the clearest possible outcome needs to end it early; None if none does."""
        return None

    @property
    def scale(self) -> Scale | None:
        """The scores that the game allows, or has given so far; None: unknown."""
        plan = self.plan
        lowest = plan.lowest if plan.forfeit is None or plan.lowest is None else min(plan.lowest, plan.forfeit)
        return Scale.of((lowest, plan.highest), self.ledger.seen)

    @property
    def differences(self) -> Scale | None:
        """The differences of two scores that are possible, or could have been seen so far; None: unknown."""
        scale = self.scale
        return scale.differences() if scale is not None else None

    @property
    def measured(self) -> bool:
        """Whether anything could be measured; otherwise no block counts."""
        return self.stopped not in UNMEASURED

    def seat_scores(self, block: JudgedBlock) -> tuple[float, ...]:
        """The mean score of each seat in a block; empty unless every player sat in every seat."""
        return block.by_seat

    def progress(self) -> EvaluationProgressed:
        """The progress so far, as an event."""
        return EvaluationProgressed(
            blocks=self.totals.blocks,
            max_blocks=self.plan.max_blocks,
            counted=self.totals.fates["counted"],
            stopped=self.halted,
        )

    def common(self) -> dict[str, Any]:
        """The fields common to all reports."""
        totals, measured = self.totals, self.measured
        effects = self._slot_effects()
        return {
            "stopped": self.halted,
            "blocks": totals.fates["counted"] if measured else 0,
            "void": totals.fates["void"] + totals.fates["unplayed"],
            "spoiled": totals.fates["spoiled"],
            "replayed": totals.replayed,
            "entrants": tuple(self._measured(label) for label in self.plan.players()),
            "slot_effects": effects,
            "faults": tuple(
                FaultCount(party=party, error_type=kind, episodes=count)
                for (party, kind), count in sorted(totals.faults.items())
            ),
            "models": tuple(
                one if one.cost is None else one.model_copy(update={"cost": rounded(one.cost)})
                for _, one in sorted(self.models.items())
            ),
            "remarks": (
                *self._about_twins(),
                *self._about_models(),
                *_remarks(self.plan, totals, self.favoured_seats(effects), self.scale, self.stopped),
            ),
        }

    def _slot_effects(self) -> tuple[MeasuredSlot, ...]:
        return measured_slots(self.totals.seats.effects, scale=self.scale) if self.measured else ()

    def favoured_seats(self, effects: Sequence[MeasuredSlot] | None = None) -> list[MeasuredSlot]:
        """The seats that score more than the others, even if blocks that are missing said the contrary.

        Blocks are missing that did not count, or were played again, or in which a player forfeited: those may be the
        ones in which the seat did worse.

        Args:
            effects: The effects of all seats, if they are known.
        """
        totals, scale = self.totals, self.scale
        found: list[MeasuredSlot] = []
        for seat in effects if effects is not None else self._slot_effects():
            count = totals.seats.effects[seat.slot].count
            missing = totals.blocks - count + totals.replayed
            lost = missing * (scale.high - scale.low) if scale is not None else math.inf * bool(missing)
            if seat.interval is not None and count * seat.interval.low > lost:
                found.append(seat)
        return found

    def _measured(self, label: str) -> MeasuredEntrant:
        mean = measured_value(self.totals.scores.get(label), self.scale) if self.measured else None
        first = self.totals.first_forfeits.get(label)
        return MeasuredEntrant(
            label=label,
            mean_score=mean.value if mean else None,
            interval=mean.interval if mean else None,
            digest=self.digests.get(label, ""),
            forfeits=self.totals.forfeits[label],
            first_forfeit=ForfeitRecord(**first._asdict()) if first is not None else None,
        )

    def _note_digests(self, row: EpisodeRow) -> None:
        if not any(seat.digest for seat in row.slots) or (place := parse_key(row.key)) is None:
            return
        for label, seat in zip(self.ledger.lineups(place[0])[place[2] - 1], row.slots, strict=False):
            if label is None or not seat.digest:
                continue
            if (before := self.digests.setdefault(label, seat.digest)) != seat.digest:
                raise UsageError(
                    f"The image {seat.image} has changed since the evaluation began: it was {before} and is "
                    f"{seat.digest} now.",
                    code="image_changed",
                    hint="Begin anew in another directory, or name the image by its digest.",
                )

    def _note_models(self, row: EpisodeRow) -> None:
        if not any(seat.model_use for seat in row.slots) or (place := parse_key(row.key)) is None:
            return
        for label, seat in zip(self.ledger.lineups(place[0])[place[2] - 1], row.slots, strict=False):
            if seat.model_use is not None:
                name = label or ""
                self.models[name] = self.models.get(name, MeasuredModel(label=name)).plus(seat.model_use)

    def _about_models(self) -> list[Remark]:
        remarks: list[Remark] = []
        for label, one in sorted(self.models.items()):
            player = self.plan.players().get(label, self.plan.others)
            name = player.name if player is not None else one.model
            why = {
                "no_price": "no price was given",
                "uncounted": f"the provider did not count the tokens of {plural(one.uncounted, 'answer')}",
                "no_account": "it left no account of an episode",
            }.get(one.unknown, one.unknown)
            if one.unknown:
                remarks.append(Remark(code="cost_unknown", message=f"The cost of {name} is not known: {why}."))
            if one.unanswered:
                calls = f"{plural(one.unanswered, 'call')} of {name} got no answer"
                remarks.append(Remark(code="unanswered_calls", message=f"{calls}; a provider may charge for them."))
        if self.halted == "max_cost":
            more = "Without a budget" if _cost(self.models.values()) is None else "With a larger budget"
            remarks.append(Remark(code="max_cost", message=f"{more}, the same measurement goes on from here."))
        return remarks

    def _about_twins(self) -> list[Remark]:
        players = self.plan.players()
        remarks: list[Remark] = []
        for group in self.plan.same_commands:
            images: dict[str, list[str]] = {}
            for label in group:
                images.setdefault(self.digests.get(label) or players[label].image, []).append(players[label].name)
            for names in images.values():
                if len(names) > 1:
                    message = f"{' and '.join(names)} are the same program: you compare a player with itself."
                    remarks.append(Remark(code="same_player", message=message))
        return remarks


def _cost(models: Iterable[ModelUse]) -> float | None:
    costs = [one.cost for one in models]
    return None if None in costs else math.fsum(cost or 0.0 for cost in costs)


def rounded(value: float) -> float:
    """Round a number for a report: further digits would differ between processors."""
    return float(f"{value:.6g}")


def shared_places(levels: Sequence[object]) -> list[int]:
    """Places from 1, of players in order; equals share one, and the next comes after all of them: 1, 1, 3.

    Args:
        levels: What decides, for each player; neighbours that have the same are equals.
    """
    places: list[int] = []
    for number, level in enumerate(levels, 1):
        places.append(places[-1] if places and level == levels[number - 2] else number)
    return places


def interval_record(interval: Interval | None) -> IntervalRecord | None:
    """An interval, rounded for a report."""
    if interval is None:
        return None
    return IntervalRecord(low=rounded(interval.low), high=rounded(interval.high), method=interval.method)


def measured_value(sample: Sample | None, scale: Scale | None, *, running: bool = False) -> MeasuredValue | None:
    """The mean of one number per block, rounded for a report; None without blocks.

    Args:
        sample: The numbers.
        scale: The numbers that are possible, or were seen; None: unknown.
        running: Whether something is concluded from its interval, which must therefore hold at every look.
    """
    if sample is None or not sample.count:
        return None
    interval = sample.running(scale=scale) if running else sample.interval(scale=scale)
    return MeasuredValue(value=rounded(sample.mean), interval=interval_record(interval))


def measured_durations(totals: Totals) -> Durations | None:
    """How long the episodes of these blocks took; None if there were none."""
    seconds = totals.seconds
    if not seconds:
        return None
    return Durations(
        episodes=len(seconds),
        median=rounded(statistics.median(seconds)),
        longest=rounded(max(seconds)),
        total=rounded(math.fsum(seconds)),
    )


def measured_slots(effects: Sequence[Sample], *, scale: Scale | None, among: int = 1) -> tuple[MeasuredSlot, ...]:
    """The value of each seat, with intervals that hold at every look.

    Args:
        effects: The score of each seat less the mean of all seats, block by block (`SeatSamples`).
        scale: The scores that are possible, or were seen; None: unknown.
        among: Number of games that are examined; each is another chance to be wrong.
    """
    # Two seats are one comparison, as their effects are opposite; with more, each is another chance to be wrong
    alpha = 0.05 / among / (1 if len(effects) == 2 else max(1, len(effects)))
    # All others have the other end of the scale at most
    apart = scale.differences((len(effects) - 1) / len(effects)) if scale is not None and effects else None
    return tuple(
        MeasuredSlot(
            slot=slot,
            effect=rounded(effect.mean),
            interval=interval_record(effect.running(alpha=alpha, scale=apart)),
        )
        for slot, effect in enumerate(effects)
    )


def _remarks(
    plan: EvaluationPlan, totals: Totals, favoured: Sequence[MeasuredSlot], scale: Scale | None, stopped: str
) -> list[Remark]:
    """The remarks that apply to any evaluation."""
    remarks: list[Remark] = []
    names = {label: player.name for label, player in plan.players().items()}

    def say(code: str, message: str) -> None:
        remarks.append(Remark(code=code, message=message))

    if absent := totals.always_failed:
        who = " and ".join(names[label] for label in absent)
        so = ", so nothing was counted" if stopped in UNMEASURED else ""
        say("always_failed", f"{who} failed in every episode of the first {BLOCKS_BEFORE_GIVING_UP} blocks{so}.")
    for label, count in sorted(totals.unplayed.items()):
        if label not in absent:
            say(
                "unplayed_blocks",
                f"{names[label]} had not connected once in the first {plural(count, 'block')} that it had a seat in, "
                "which were left out for that reason.",
            )
    void, spoiled = totals.fates["void"], totals.fates["spoiled"]
    if void > _VOID_SHARE * totals.blocks and not absent:
        say(
            "game_faults",
            f"{void} of {totals.blocks} blocks are void, the first because: {totals.reasons['void']} "
            "The game was measured, not the players.",
        )
    if spoiled:
        say(
            "spoiled_blocks",
            f"{spoiled} of {totals.blocks} blocks were spoiled every time they were played, the first because: "
            f"{totals.reasons['spoiled']}",
        )
    if not plan.seeded:
        say(
            "no_seed",
            "The game takes no seed: the episodes of a block share nothing but their time, so seeds cannot be paired.",
        )
    measured = stopped not in UNMEASURED
    if measured and totals.constant:
        say("constant_scores", "Everybody scored the same in every block: these scores tell nobody apart.")
    elif measured and totals.all_alike:
        say(
            "same_blocks",
            "Every block came out exactly alike: more blocks of the same game are no more evidence about other games.",
        )
    for seat in favoured:
        say(
            "seat_effect",
            f"The game favours seat {seat.slot}, by {seat.effect:g} on average. Everybody sat there equally often.",
        )
    for label, count in sorted(totals.forfeits.items()):
        first = totals.first_forfeits.get(label)
        why = f" The first: {ForfeitRecord(**first._asdict())}" if first is not None else ""
        lost = ", and lost what it forfeited" if totals.fates["counted"] else ""
        say("forfeits", f"{names[label]} forfeited {plural(count, 'episode')}{lost}.{why}")
    short = [one.count for one in totals.scores.values() if one.count < LEAST and one.interval(scale=scale) is None]
    if stopped not in UNMEASURED and any(short):
        below = (
            f"below {LEAST} blocks, they need the lowest and the highest score that the game allows, which its results "
            "schema does not say, or not closely."
        )
        say("no_interval", f"There are no intervals: {below if max(short) > 1 else 'they need more than one block.'}")
    return remarks
