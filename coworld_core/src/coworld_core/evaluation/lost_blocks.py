"""The blocks of a comparison that the new player lost: the worst of them, and the first move that made the difference.

Which blocks these are follows from the rows. Where the two players first did something else follows from the replays;
who has them (`coworld_runner.evaluation`) finds it out, and notes it beside the rows in `lost-blocks.json`.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import Field

from ..documents.records import Record, SchemaVersion, open_record, read_as
from ..episode.record import EpisodeRow
from .block_ledger import JudgedBlock
from .designs import Lineup, comparison_lineups
from .number_text import number
from .report_base import Remark
from .report_parts import Scene

__all__ = [
    "LOST_BLOCKS_NAME",
    "FirstDifference",
    "KeptLoss",
    "LineOfPlay",
    "LossNote",
    "LossNotes",
    "LostBlock",
    "WorstBlocks",
    "lost_scenes",
    "read_loss_notes",
]

LOST_BLOCKS_NAME = "lost-blocks.json"
"""Name of the file in an evaluation's directory that says where the two players parted in the worst lost blocks."""

_WORST = 3
"""Lost blocks that are shown."""


class LineOfPlay(Record):
    """How one of two games went on that were the same so far."""

    episode: str = Field(description="Key of the episode, which is also the name of its directory.")
    action: Any = Field(description="What the player did; null: it let its time pass.")
    score: float | None = Field(description="The player's score in the end; null: the game has no results.")


class FirstDifference(Record):
    """The first move in which two players differed, in the same seat and in the same position."""

    tick: int = Field(ge=0, description="Ticks played before.")
    slot: int = Field(ge=0, description="The seat of the player whose move it was.")
    observation: Any = Field(default=None, description="What it saw; null: unknown, or too long.")
    text: str = Field(default="", description="The same as text; empty: there is none.")
    new: LineOfPlay = Field(description="The game that the new player played there.")
    old: LineOfPlay = Field(description="The game that the old player played there.")


class LossNote(Record):
    """What has been found out about a lost block."""

    block: int = Field(ge=1, description="Number of the block.")
    first_difference: FirstDifference | None = Field(default=None, description="Where the two parted; null: see note.")
    note: str = Field(default="", description="Why that is not known; empty: it is.")


class LossNotes(Record):
    """The file `lost-blocks.json`."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this file's shape.")
    note: str = Field(default="", description="Why moves of this game are not compared at all; empty: they are.")
    blocks: tuple[LossNote, ...] = Field(default=(), description="What was found out, block by block.")


class LostBlock(LossNote):
    """A block that the new player lost, as a report shows it."""

    difference: float = Field(description="The new player's score less the old one's.")
    episodes: tuple[str, ...] = Field(description="Keys of its episodes, in the order of the lineups.")
    scores: tuple[tuple[float, ...], ...] = Field(description="The scores of each of them, by slot, after forfeits.")


@dataclass(frozen=True, kw_only=True)
class KeptLoss:
    """A lost block, with what it takes to play it again."""

    lost: LostBlock
    lineups: tuple[Lineup, ...]
    rows: tuple[EpisodeRow, ...]
    """The episodes that count, in the order of the lineups."""


class WorstBlocks:
    """The worst of the lost blocks so far.

    Attributes:
        kept: These blocks, the worst first; of equals, the first.
        notes: What has been found out about lost blocks.
    """

    def __init__(self) -> None:
        self.kept: list[KeptLoss] = []
        self.notes = LossNotes()

    def add(
        self, block: JudgedBlock, difference: float, lineups: Sequence[Lineup], played: Sequence[EpisodeRow], why: str
    ) -> None:
        """Add a block that was lost.

        Args:
            block: The block.
            difference: The new player's score less the old one's.
            lineups: Its lineups.
            played: All its episodes, attempt after attempt.
            why: Why it was lost, if a player forfeited it.
        """
        if len(self.kept) == _WORST and difference >= self.kept[-1].lost.difference:
            return
        rows = tuple(played[-len(lineups) :])
        lost = LostBlock(
            block=block.block,
            difference=difference,
            episodes=tuple(row.key for row in rows),
            scores=block.tables,
            note=why,
        )
        kept = KeptLoss(lost=lost, lineups=tuple(lineups), rows=rows)
        bisect.insort(self.kept, kept, key=lambda one: (one.lost.difference, one.lost.block))
        del self.kept[_WORST:]

    def remarks(self) -> list[Remark]:
        """Why nothing is known about moves, if that is so."""
        note = self.notes.note if self.kept else ""
        return [Remark(code="moves_not_compared", message=note)] if note else []

    def records(self) -> tuple[LostBlock, ...]:
        """The blocks, with what has been found out about them."""
        known = {note.block: note for note in self.notes.blocks}
        return tuple(_noted(kept.lost, known.get(kept.lost.block)) for kept in self.kept)


def _noted(lost: LostBlock, note: LossNote | None) -> LostBlock:
    if note is None or lost.note:
        return lost
    return lost.model_copy(update={"first_difference": note.first_difference, "note": note.note})


def read_loss_notes(directory: Path) -> LossNotes:
    """Read `lost-blocks.json`; without the file, nothing has been found out.

    Raises:
        RecordError: It is broken.
    """
    if not (directory / LOST_BLOCKS_NAME).is_file():
        return LossNotes()
    what = "notes on lost blocks"
    return read_as(LossNotes, open_record(directory, what=what, name=LOST_BLOCKS_NAME), what=what)


def lost_scenes(lost: Sequence[LostBlock], names: Mapping[str, str], seats: int) -> list[Scene]:
    """Lost blocks to display.

    Args:
        lost: The blocks.
        names: The names of the players, by label.
        seats: Number of seats in the game.
    """
    return [_scene(block, names, seats) for block in lost]


def _scene(lost: LostBlock, names: Mapping[str, str], seats: int) -> Scene:
    title, first = f"Block {lost.block}, by {number(-lost.difference)}", lost.first_difference
    if first is not None:
        seen = first.text or ("" if first.observation is None else _as_text(first.observation))
        lines = ((names["new"], first.new), (names["old"], first.old))
        return Scene(
            title=f"{title}: seat {first.slot} at tick {first.tick}",
            seen=seen,
            lines=tuple((f"{name}: {_did(line.action)}; {_scored(line.score)}", line.episode) for name, line in lines),
            tick=first.tick,
        )
    lineups = comparison_lineups("new", "old", seats, lost.block)
    told: list[tuple[str, str]] = []
    for key, lineup, table in zip(lost.episodes, lineups, lost.scores, strict=True):
        measured = [(names[label], score) for label, score in zip(lineup, table, strict=True) if label is not None]
        told.append(("; ".join(f"{name} {_scored(score)}" for name, score in measured), key))
    return Scene(title=title, note=lost.note, lines=tuple(told))


def _did(action: object) -> str:
    """An action in words."""
    if action is None:
        return "no action"
    if isinstance(action, dict):
        return ", ".join(f"{name} {_as_text(part)}" for name, part in cast("dict[str, object]", action).items())
    return _as_text(action)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _scored(score: float | None) -> str:
    return "no score" if score is None else f"scored {number(score)}"
