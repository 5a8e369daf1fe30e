"""Finds out where the two players of a comparison first did something else in the blocks that the new one lost."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread

from coworld_core.episode.layout import EpisodeLayout, directory_of
from coworld_core.episode.record import EpisodeRow
from coworld_core.errors import CoworldError
from coworld_core.evaluation.comparison import NEW, OLD, Comparison
from coworld_core.evaluation.designs import Lineup
from coworld_core.evaluation.lost_blocks import (
    LOST_BLOCKS_NAME,
    FirstDifference,
    KeptLoss,
    LineOfPlay,
    LossNote,
    LossNotes,
    read_loss_notes,
)
from coworld_core.rules import ReplayFormatError, first_difference, read_replay
from coworld_core.rules.game import is_picture
from coworld_core.text.phrases import listed

from ..episode.many import KeyedRun
from ..kit.rollout.seat_views import ReplayMoment
from ..package.kit_programs import rules_served
from ..runs.workspace import atomic_write
from .entrants import Entrants
from .episode_again import play_plan_again
from .worker_venue import WorkerVenue, refused

__all__ = ["note_lost_moves"]

_MOST = 4000
"""Characters of what a seat saw that are noted."""


async def note_lost_moves(keyed: KeyedRun, comparison: Comparison, entrants: Entrants) -> None:
    """Compare the two games of each of the worst lost blocks, and note where they part.

    The notes are written to `lost-blocks.json`, and the comparison's report has them. Games of which only the row was
    kept are played again, for their replays.

    Args:
        keyed: The run of the comparison.
        comparison: The comparison, which is over.
        entrants: Its players.

    Raises:
        WorkspaceError: The directory is not writable.
        EnvironmentFault: The disk is full.
    """
    if not comparison.worst.kept:
        return
    directory = keyed.run.layout.workspace
    if rules_served(entrants.package.manifest) is None:
        notes = LossNotes(note="The game is not one of the kit, so the moves of lost blocks cannot be compared.")
    else:
        known = {note.block: note for note in read_loss_notes(directory).blocks}
        found: list[LossNote] = []
        async with _workers(keyed, entrants) as inside:
            for kept in comparison.worst.kept:
                if not kept.lost.note:
                    compared = _Compared(kept, comparison, entrants, directory, inside, again=keyed.venue is inside)
                    found.append(known.get(kept.lost.block) or await compared.note())
        notes = LossNotes(blocks=tuple(found))
    atomic_write(directory / LOST_BLOCKS_NAME, notes.to_document())
    comparison.worst.notes = notes


@asynccontextmanager
async def _workers(keyed: KeyedRun, entrants: Entrants) -> AsyncGenerator[WorkerVenue | None]:
    """Where the rules can be asked what a seat saw: in worker processes, if programs run on this machine anyway."""
    if isinstance(keyed.venue, WorkerVenue):
        yield keyed.venue
    elif keyed.venue.name == "process" and not refused(entrants.package, None):
        async with WorkerVenue(entrants.package, workers=1) as inside:
            yield inside if not await inside.reason_against(()) else None
    else:
        yield None


@dataclass(frozen=True)
class _Compared:
    """The two games of a lost block."""

    kept: KeptLoss
    comparison: Comparison
    entrants: Entrants
    directory: Path
    inside: WorkerVenue | None
    """Where the rules can be asked what a seat saw."""
    again: bool
    """Whether games can be played again there."""

    async def note(self) -> LossNote:
        """Where the games part, or why that is not known."""
        block = self.kept.lost.block
        try:
            found = await self._first_difference()
        except CoworldError as error:
            found = error.message
        if isinstance(found, str):
            return LossNote(block=block, note=found)
        return LossNote(block=block, first_difference=found)

    async def _first_difference(self) -> FirstDifference | str:
        rows, lineups = self.kept.rows, self.kept.lineups
        replays: list[bytes] = []
        for row, lineup in zip(rows, lineups, strict=True):
            place = self.directory / directory_of(row.key)
            if self.again and not await self._same_again(row, lineup, place):
                return f"{row.key} ended differently when it was played again: its players are not deterministic."
            try:
                replays.append(await anyio.to_thread.run_sync(EpisodeLayout(place).replay.read_bytes))
            except OSError:
                return f"There is no replay of {row.key}."
        one, other = (read_replay(data, source=row.key) for data, row in zip(replays, rows, strict=True))
        part = first_difference(one, other)
        if part is None:
            return "The same was done in both games, as far as both went."
        # In a game of more than two seats, the others are the same players in both
        measured = [slot for slot in part.actions if {lineups[0][slot], lineups[1][slot]} == {NEW, OLD}]
        if not measured:
            seats = listed([f"seat {slot}" for slot in part.actions])
            return f"At tick {part.tick} something else was done in {seats}, where the same player sat in both games."
        # Where several moved at once, the seat that the new player lost most in
        slot = min(measured, key=lambda slot: self._score(NEW, slot) - self._score(OLD, slot))
        lines = {label: self._line(label, slot, part.actions[slot]) for label in (NEW, OLD)}
        seen = await self._seen(ReplayMoment(replay=replays[0], tick=part.tick, slot=slot), part.drawing)
        return FirstDifference(tick=part.tick, slot=slot, new=lines[NEW], old=lines[OLD], **seen)

    async def _same_again(self, row: EpisodeRow, lineup: Lineup, place: Path) -> bool:
        """Play a game again of which only the row was kept; returns whether it ended as before."""
        if self.inside is None or EpisodeLayout(place).record.is_file():
            return True
        block = self.kept.lost.block
        plan = self.entrants.plan(lineup, block, seed=self.comparison.seed_of(block))
        return (await play_plan_again(self.inside, plan, row, place)).same

    def _game(self, label: str, slot: int) -> int:
        """In which of the two games a player sat in this seat."""
        return 0 if self.kept.lineups[0][slot] == label else 1

    def _score(self, label: str, slot: int) -> float:
        return self.kept.lost.scores[self._game(label, slot)][slot]

    def _line(self, label: str, slot: int, actions: tuple[Any, Any]) -> LineOfPlay:
        game = self._game(label, slot)
        return LineOfPlay(episode=self.kept.rows[game].key, action=actions[game], score=self._score(label, slot))

    async def _seen(self, moment: ReplayMoment, drawing: str) -> dict[str, Any]:
        """What a seat saw, as far as it is short enough; what spectators saw if the rules cannot be asked."""
        if self.inside is None:
            return {"text": "" if is_picture(drawing) else drawing[:_MOST]}
        try:
            view = await anyio.to_thread.run_sync(self.inside.workers[0].view, moment, abandon_on_cancel=True)
        except ReplayFormatError:
            return {}
        short = len(json.dumps(view.observation, ensure_ascii=False)) <= _MOST
        return {"observation": view.observation if short else None, "text": (view.text or "")[:_MOST]}
