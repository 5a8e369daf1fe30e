"""What a diagnosis is about, and what was seen in each variant of its battery, as files have it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..episode.record import SeatRow
from ..records import Record
from .reports import EvaluationPlan, IntervalRecord, MeasuredSeat, MeasuredValue

__all__ = [
    "BASELINE",
    "BOT",
    "STRONG",
    "Conduct",
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

    id: str = Field(description="Its id, or certification.")
    seats: int = Field(ge=1, description="How many seats it has.")
    seeded: bool = Field(description="Whether its config takes a seed.")


class EarlierNumber(MeasuredValue):
    """A number of an earlier diagnosis."""

    quantity: str = Field(description="What it says.")
    of: str = Field(description="Of which variant, or of what in it.")


class EarlierDiagnosis(Record):
    """What another diagnosis had come to when this one was begun."""

    name: str = Field(description="Its directory.")
    player: str = Field(description="Who was diagnosed.")
    numbers: tuple[EarlierNumber, ...] = Field(description="Every number that had an interval.")


class DiagnosisPlan(EvaluationPlan):
    """What a diagnosis is about: everything that its report depends on besides the rows."""

    kind: Literal["diagnose"] = "diagnose"  # pyright: ignore[reportIncompatibleVariableOverride]
    player: SeatRow = Field(description="Who is diagnosed.")
    baseline: SeatRow | None = Field(default=None, description="The player that scores 0 on the normalised scale.")
    strong: SeatRow | None = Field(default=None, description="The player that scores 1 on it.")
    variants: tuple[VariantPlan, ...] = Field(min_length=1, description="The battery; blocks take turns with them.")
    before: EarlierDiagnosis | None = Field(default=None, description="What it is compared with.")

    def players(self) -> dict[str, SeatRow]:
        """Who is measured, by label."""
        said = {BOT: self.player, BASELINE: self.baseline, STRONG: self.strong}
        return {label: player for label, player in said.items() if player is not None}


class Conduct(Record):
    """How the player behaved in all episodes of a variant that it was in."""

    episodes: int = Field(default=0, ge=0, description="Episodes in which it had a seat.")
    failed: int = Field(default=0, ge=0, description="Episodes that its failure decided: it crashed or left.")
    timed_out: int = Field(default=0, ge=0, description="Episodes that it spoiled by taking too long.")
    never_started: int = Field(default=0, ge=0, description="Episodes in which it never came.")
    acted: int | None = Field(default=None, description="Turns in which it acted; null where the game does not say.")
    idle: int | None = Field(default=None, description="Turns that it let pass.")
    refused: int | None = Field(default=None, description="Messages of its that were no legal action.")
    median_seconds: float | None = Field(default=None, ge=0, description="Half of its turns took less.")
    slow_seconds: float | None = Field(default=None, ge=0, description="99 of 100 turns took less.")
    first_fault: str = Field(default="", description="Directory of the first episode that it spoiled.")
    fault_share: MeasuredValue | None = Field(default=None, description="Share of episodes that it spoiled.")
    idle_share: MeasuredValue | None = Field(default=None, description="Share of its turns that it let pass.")
    refused_share: MeasuredValue | None = Field(default=None, description="Share of its messages that were refused.")


class VariantDiagnosis(Record):
    """What was seen in one variant."""

    id: str = Field(description="The variant.")
    blocks: int = Field(ge=0, description="Blocks that were counted.")
    with_itself: MeasuredValue | None = Field(description="Its score with itself in all seats.")
    alone: MeasuredValue | None = Field(description="Its score in one seat among the game's own players.")
    deviation: float | None = Field(description="Standard deviation of the latter from seed to seed.")
    over_baseline: MeasuredValue | None = Field(default=None, description="What it scores more than the baseline.")
    over_strong: MeasuredValue | None = Field(default=None, description="What it scores more than the strong player.")
    normalised: MeasuredValue | None = Field(
        default=None,
        description="Its score where the baseline has 0 and the strong player 1; null unless these differ.",
    )
    seats: tuple[MeasuredSeat, ...] = Field(default=(), description="What each seat is worth to it.")
    repeated: int = Field(ge=0, description="Episodes that were played twice.")
    other_scores: int = Field(ge=0, description="Of these, those with other scores the second time.")
    other_replays: int = Field(ge=0, description="Of these, those with another replay.")
    conduct: Conduct = Field(description="How it behaved.")


class DiagnosisChange(Record):
    """A number that is certainly another than in the earlier diagnosis."""

    quantity: str = Field(description="What it says.")
    of: str = Field(description="Of which variant, or of what in it.")
    before: float = Field(description="What it was.")
    now: float = Field(description="What it is.")
    interval: IntervalRecord = Field(description="Of the difference.")
