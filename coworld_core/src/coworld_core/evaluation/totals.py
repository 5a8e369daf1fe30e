"""The totals that a report needs, added up block by block so that no block has to be kept."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from ..documents.records import Record
from .block_ledger import FirstForfeit, JudgedBlock
from .estimates import Sample, SampleState

__all__ = ["BLOCKS_BEFORE_GIVING_UP", "SeatSamples", "Totals", "TotalsState"]

BLOCKS_BEFORE_GIVING_UP = 3
"""Blocks after which to give up on a player that never appears, or a game that spoils every block."""


class SeatSamples:
    """How far the score of each seat is from the mean of all seats, block by block."""

    def __init__(self) -> None:
        self.effects: list[Sample] = []

    def add(self, scores: Sequence[float]) -> None:
        """Add the mean score of each seat in a block; empty scores are ignored."""
        if not scores:
            return
        self.effects = self.effects or [Sample() for _ in scores]
        middle = math.fsum(scores) / len(scores)
        for effect, score in zip(self.effects, scores, strict=True):
            effect.add(score - middle)


@dataclass
class _Alike:
    """The outcomes of blocks that differ only in their seeds."""

    first: tuple[float, ...]
    blocks: int = 1
    same: bool = True


class TotalsState(Record):
    """The stored form of `Totals`, without the durations of episodes, whose number grows without limit."""

    blocks: int = Field(ge=0, description="Number of blocks.")
    fates: dict[str, int] = Field(description="Number of blocks with each fate.")
    reasons: dict[str, str] = Field(description="Why the first block of each fate was not counted.")
    first_fates: tuple[str, ...] = Field(description="The fates of the first blocks.")
    replayed: int = Field(ge=0, description="How often a block was played again.")
    forfeits: dict[str, int] = Field(description="Episodes that each entrant has forfeited.")
    first_forfeits: dict[str, FirstForfeit] = Field(default_factory=dict, description="The first of them.")
    unplayed: dict[str, int] = Field(
        default_factory=dict, description="Blocks left out because an entrant had not connected once."
    )
    faults: tuple[tuple[str, str, int], ...] = Field(description="The party at fault, the type of fault and its count.")
    scores: dict[str, SampleState] = Field(description="Each entrant's mean scores.")
    slot_effects: tuple[SampleState, ...] = Field(description="The effect of each slot.")
    absent: dict[str, tuple[bool, ...]] = Field(description="Whether each entrant was absent, for its first blocks.")
    alike: tuple[tuple[tuple[str, ...], tuple[float, ...], int, bool], ...] = Field(
        description="Players that met, their first outcome, the number of blocks, and whether all outcomes are equal."
    )
    shown: tuple[float, ...] = Field(description="Different scores seen; none are added once there are two.")


class Totals:
    """The blocks of an evaluation, added up in their order.

    Attributes:
        blocks: Number of blocks.
        fates: How many of them were counted, void, spoiled and withdrawn.
        reasons: Why the first block of each fate was not counted.
        replayed: How often a block was played again.
        forfeits: Episodes that each entrant has forfeited.
        first_forfeits: The first of these episodes, by label.
        unplayed: Blocks left out because an entrant had not connected once, by label.
        faults: Episodes by the party at fault and the type of the fault.
        scores: Each entrant's mean scores in the counted blocks, by label.
        seats: The effect of each seat in the counted blocks.
        seconds: How long each episode took.
    """

    def __init__(self) -> None:
        self.blocks = 0
        self.fates: Counter[str] = Counter()
        self.reasons: dict[str, str] = {}
        self.replayed = 0
        self.forfeits: Counter[str] = Counter()
        self.first_forfeits: dict[str, FirstForfeit] = {}
        self.unplayed: Counter[str] = Counter()
        self.faults: Counter[tuple[str, str]] = Counter()
        self.scores: dict[str, Sample] = {}
        self.seats = SeatSamples()
        self.seconds = array("d")
        self._first_fates: list[str] = []
        self._absent: dict[str, list[bool]] = {}
        self._alike: dict[tuple[str, ...], _Alike] = {}
        self._shown: set[float] = set()

    @classmethod
    def resumed(cls, state: TotalsState) -> Totals:
        """Create totals that continue from a stored state."""
        totals = cls()
        totals.blocks, totals.replayed = state.blocks, state.replayed
        totals.fates.update(state.fates)
        totals.reasons.update(state.reasons)
        totals.forfeits.update(state.forfeits)
        totals.first_forfeits.update(state.first_forfeits)
        totals.unplayed.update(state.unplayed)
        totals.faults.update({(party, kind): count for party, kind, count in state.faults})
        totals.scores = {label: Sample.resumed(sample) for label, sample in state.scores.items()}
        totals.seats.effects = [Sample.resumed(sample) for sample in state.slot_effects]
        totals._first_fates = list(state.first_fates)
        totals._absent = {label: list(first) for label, first in state.absent.items()}
        totals._alike = {
            players: _Alike(first, blocks=blocks, same=same) for players, first, blocks, same in state.alike
        }
        totals._shown = set(state.shown)
        return totals

    @property
    def state(self) -> TotalsState:
        """The state to store; `resumed` continues from it."""
        return TotalsState(
            blocks=self.blocks,
            fates=dict(self.fates),
            reasons=dict(self.reasons),
            first_fates=tuple(self._first_fates),
            replayed=self.replayed,
            forfeits=dict(self.forfeits),
            first_forfeits=dict(self.first_forfeits),
            unplayed=dict(self.unplayed),
            faults=tuple((party, kind, count) for (party, kind), count in self.faults.items()),
            scores={label: sample.state for label, sample in self.scores.items()},
            slot_effects=tuple(sample.state for sample in self.seats.effects),
            absent={label: tuple(first) for label, first in self._absent.items()},
            alike=tuple((players, one.first, one.blocks, one.same) for players, one in self._alike.items()),
            shown=tuple(sorted(self._shown)),
        )

    def add(
        self, block: JudgedBlock, *, alike: tuple[str, ...], outcome: tuple[float, ...], seats: Sequence[float]
    ) -> None:
        """Add the next block.

        Args:
            block: The block.
            alike: A value that is equal for blocks that differ only in their seeds.
            outcome: Scores that are equal for blocks with the same outcome.
            seats: The mean score of each seat; empty unless every player sat in every seat.
        """
        self.blocks += 1
        self.fates[block.fate] += 1
        self.reasons.setdefault(block.fate, block.reason)
        self.replayed += block.attempts - 1
        if block.forfeits:
            self.forfeits.update(block.forfeits)
            self.first_forfeits = {**block.first_forfeits, **self.first_forfeits}
            self.unplayed.update(sorted(block.unplayed))
        if block.faults:
            self.faults.update(block.faults)
        self.seconds.extend(block.seconds)
        if len(self._first_fates) < BLOCKS_BEFORE_GIVING_UP:
            self._first_fates.append(block.fate)
        for label in sorted(block.seated):
            first = self._absent.setdefault(label, [])
            if len(first) < BLOCKS_BEFORE_GIVING_UP:
                first.append(label in block.absent)
        if block.fate == "counted":
            self._count(block, alike, outcome, seats)

    def _count(
        self, block: JudgedBlock, alike: tuple[str, ...], outcome: tuple[float, ...], seats: Sequence[float]
    ) -> None:
        for label, score in block.scores.items():
            if (sample := self.scores.get(label)) is None:
                sample = self.scores[label] = Sample()
            sample.add(score)
        self.seats.add(seats)
        if (known := self._alike.get(alike)) is None:
            self._alike[alike] = _Alike(outcome)
        else:
            known.blocks += 1
            known.same = known.same and known.first == outcome
        # Only whether there is more than one matters
        if len(self._shown) < 2:
            self._shown.update(outcome)

    @property
    def always_failed(self) -> list[str]:
        """Players that failed in every episode of the first three blocks in which they had a seat."""
        return [
            label
            for label in sorted(self._absent)
            if len(self._absent[label]) == BLOCKS_BEFORE_GIVING_UP and all(self._absent[label])
        ]

    @property
    def hopeless(self) -> str:
        """The reason to stop if nothing came of the first blocks; otherwise empty."""
        reason, failed = self.spoiled_from_the_start, self.always_failed
        if reason == "spoiled" or not failed:
            return reason
        return (
            "never_started"
            if all(self.unplayed[label] >= BLOCKS_BEFORE_GIVING_UP for label in failed)
            else "always_failed"
        )

    @property
    def spoiled_from_the_start(self) -> str:
        """The reason to stop if the first blocks were all void or all spoiled; otherwise empty."""
        first = set(self._first_fates) if len(self._first_fates) == BLOCKS_BEFORE_GIVING_UP else set[str]()
        if first == {"void"}:
            return "game_faults"
        return "spoiled" if first == {"spoiled"} else ""

    @property
    def all_alike(self) -> bool:
        """Whether no seed changed an outcome, given enough blocks that differ only in their seeds to tell."""
        most = max((known.blocks for known in self._alike.values()), default=0)
        return most >= BLOCKS_BEFORE_GIVING_UP and all(known.same for known in self._alike.values())

    @property
    def constant(self) -> bool:
        """Whether everybody scored the same in every block."""
        return self.fates["counted"] > 1 and len(self._shown) == 1
