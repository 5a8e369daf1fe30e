"""The records of a diagnosis: its plan, and the observations in each variant of its battery."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..documents.records import Record
from ..episode.record import SlotRow
from .report_base import EvaluationPlan, IntervalRecord, MeasuredSlot, MeasuredValue

__all__ = [
    "BASELINE",
    "BOT",
    "STRONG",
    "BehaviourSummary",
    "DiagnosisChange",
    "DiagnosisPlan",
    "EarlierDiagnosis",
    "EarlierNumber",
    "VariantDiagnosis",
    "VariantPlan",
]

BOT, BASELINE, STRONG = "bot", "baseline", "strong"
"""Labels of the entrants."""


class VariantPlan(Record):
    """A variant of the battery."""

    id: str = Field(description="Id of the variant, or certification.")
    slot_count: int = Field(ge=1, description="Number of slots.")
    seeded: bool = Field(description="Whether its config takes a seed.")


class EarlierNumber(MeasuredValue):
    """A number of an earlier diagnosis."""

    quantity: str = Field(description="What the number measures.")
    of: str = Field(description="The variant, or the part of it, that the number describes.")


class EarlierDiagnosis(Record):
    """The results of an earlier diagnosis, as they were when this one began."""

    name: str = Field(description="Directory of the diagnosis.")
    player: str = Field(description="The diagnosed player.")
    numbers: tuple[EarlierNumber, ...] = Field(description="Every number that had an interval.")


class DiagnosisPlan(EvaluationPlan):
    """The plan of a diagnosis: everything its report depends on besides the rows."""

    kind: Literal["diagnose"] = "diagnose"  # pyright: ignore[reportIncompatibleVariableOverride]
    player: SlotRow = Field(description="The diagnosed player.")
    baseline: SlotRow | None = Field(default=None, description="The player that scores 0 on the normalised scale.")
    strong: SlotRow | None = Field(default=None, description="The player that scores 1 on that scale.")
    variants: tuple[VariantPlan, ...] = Field(min_length=1, description="The battery; blocks cycle through it.")
    before: EarlierDiagnosis | None = Field(default=None, description="The earlier diagnosis to compare with.")

    def players(self) -> dict[str, SlotRow]:
        """The measured players, by label."""
        said = {BOT: self.player, BASELINE: self.baseline, STRONG: self.strong}
        return {label: player for label, player in said.items() if player is not None}


class BehaviourSummary(Record):
    """How the player behaved in all episodes of a variant in which it had a seat."""

    episodes: int = Field(default=0, ge=0, description="Episodes in which it had a seat.")
    failed: int = Field(default=0, ge=0, description="Episodes that it spoiled by crashing or leaving early.")
    timed_out: int = Field(default=0, ge=0, description="Episodes that it spoiled by taking too long.")
    never_started: int = Field(default=0, ge=0, description="Episodes in which it never started.")
    acted: int | None = Field(default=None, description="Turns in which it acted; null if the game does not say.")
    idle: int | None = Field(default=None, description="Turns that it let pass.")
    refused: int | None = Field(default=None, description="Its messages that were not legal actions.")
    median_seconds: float | None = Field(default=None, ge=0, description="Half of its turns took less, in seconds.")
    slow_seconds: float | None = Field(default=None, ge=0, description="99 of 100 of its turns took less, in seconds.")
    first_fault: str = Field(default="", description="Directory of the first episode that it spoiled.")
    fault_share: MeasuredValue | None = Field(default=None, description="Share of episodes that it spoiled.")
    idle_share: MeasuredValue | None = Field(default=None, description="Share of its turns that it let pass.")
    refused_share: MeasuredValue | None = Field(default=None, description="Share of its messages that were refused.")


class VariantDiagnosis(Record):
    """The observations in one variant."""

    id: str = Field(description="Id of the variant.")
    blocks: int = Field(ge=0, description="Blocks that were counted.")
    with_itself: MeasuredValue | None = Field(description="Its mean score when it sits in all seats.")
    alone: MeasuredValue | None = Field(description="Its mean score in one seat among the game's own players.")
    deviation: float | None = Field(description="Standard deviation of its score alone, from seed to seed.")
    over_baseline: MeasuredValue | None = Field(default=None, description="Its score less the baseline's.")
    over_strong: MeasuredValue | None = Field(default=None, description="Its score less the strong player's.")
    normalised: MeasuredValue | None = Field(
        default=None,
        description="Its score if the baseline scores 0 and the strong player 1; null unless these are told apart.",
    )
    slot_effects: tuple[MeasuredSlot, ...] = Field(default=(), description="The effect of each slot on its score.")
    repeated: int = Field(ge=0, description="Episodes that were played twice.")
    other_scores: int = Field(ge=0, description="Of these, those with different scores the second time.")
    other_replays: int = Field(ge=0, description="Of these, those with a different replay the second time.")
    conduct: BehaviourSummary = Field(description="How it behaved.")


class DiagnosisChange(Record):
    """A number that differs significantly from the earlier diagnosis."""

    quantity: str = Field(description="What the number measures.")
    of: str = Field(description="The variant, or the part of it, that the number describes.")
    before: float = Field(description="The earlier value.")
    now: float = Field(description="The current value.")
    interval: IntervalRecord = Field(description="Interval of the difference.")
