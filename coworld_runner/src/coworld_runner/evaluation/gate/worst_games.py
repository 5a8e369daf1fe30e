"""The worst games of a version: those in which it failed, and those of the blocks that it lost by most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from coworld_core.episode.record import ROWS_NAME, EpisodeRow, SlotRow, read_rows
from coworld_core.errors import CoworldError
from coworld_core.evaluation.comparison import NEW, ComparisonPlan
from coworld_core.evaluation.designs import parse_key
from coworld_core.evaluation.evaluation_files import read_plan
from coworld_core.evaluation.gate_history import GatedPlayer, GateRecord
from coworld_core.evaluation.scrimmage import PLAYER

from .gate_folder import GateFolder

__all__ = ["WorstGame", "worst_games"]

_MOST = 8


@dataclass(frozen=True, kw_only=True)
class WorstGame:
    """A game that went badly for a version."""

    directory: Path
    """The measurement's directory."""
    key: str
    """The episode's key there."""
    against: GatedPlayer
    slot: int
    """The seat of the version."""
    score: float | None
    """Its score; None if the game left none."""
    other: float | None
    """The mean score of all others, or if `apart` that of the other player."""
    fault: str
    """How it failed; empty if it did not."""
    kept: bool
    """Whether the episode has its evidence; otherwise it is played again from its row."""
    apart: bool = False
    """Whether the two players never meet, as in a game of more than two seats: the other's score is that of the episode
    in which it had the same seat on the same seed."""

    @property
    def lost_by(self) -> float:
        """By how much it scored less than the others."""
        return (self.other or 0.0) - (self.score or 0.0)


def worst_games(folder: GateFolder, gate: GateRecord, *, most: int = _MOST) -> list[WorstGame]:
    """Find the worst games of the version that a gate measured, the worst first; none if its files were removed.

    Args:
        folder: The folder of the bot.
        gate: The gate.
        most: Number of games.
    """
    games = list(_games(folder, gate))
    # A game lost from the second seat is nothing bad if the same one was won from the first
    blocks: defaultdict[tuple[Path, int], float] = defaultdict(float)
    for game in games:
        blocks[_block(game)] += game.lost_by
    found = [game for game in games if game.fault or (game.lost_by > 0 and blocks[_block(game)] > 0)]
    return sorted(
        found, key=lambda game: (not game.fault, -blocks[_block(game)], -game.lost_by, not game.kept, game.key)
    )[:most]


def _block(game: WorstGame) -> tuple[Path, int]:
    place = parse_key(game.key)
    return game.directory, place[0] if place is not None else 0


def _games(folder: GateFolder, gate: GateRecord) -> Iterator[WorstGame]:
    for one in gate.measurements:
        place = folder.measured(gate, one)
        if not (place / ROWS_NAME).is_file():
            continue
        try:
            plan = read_plan(place)
        except CoworldError:
            continue
        own = plan.players().get(NEW) or plan.players()[PLAYER]
        apart = isinstance(plan, ComparisonPlan) and plan.opponent is None and plan.slot_count != 2
        rows = {parse_key(row.key) or (0, 0, 0): row for row in read_rows(place)}
        for (block, attempt, _), row in rows.items():
            slots = [slot for slot, seat in enumerate(row.slots) if _same(seat, own)]
            if not slots or (game := _game(row, slots, one.player, place)) is None:
                continue
            if apart:
                # The two take the same seat in turn, the version first
                twin = rows.get((block, attempt, 2))
                score = twin.scores[game.slot] if twin is not None and twin.scores else None
                game = replace(game, other=score, apart=True)
            yield game


def _same(seat: SlotRow, player: SlotRow) -> bool:
    return (seat.player_id, seat.image) == (player.player_id, player.image)


def _game(row: EpisodeRow, slots: list[int], against: GatedPlayer, place: Path) -> WorstGame | None:
    faults = {fault.slot: fault for fault in row.player_faults if fault.slot in slots}
    slot = next(iter(faults), slots[0])
    others = [score for seat, score in enumerate(row.scores) if seat not in slots]
    if not faults and not (row.scores and others):
        return None
    fault = faults.get(slot)
    return WorstGame(
        directory=place,
        key=row.key,
        against=against,
        slot=slot,
        score=row.scores[slot] if row.scores else None,
        other=sum(others) / len(others) if others else None,
        fault=": ".join(filter(None, (fault.message.removesuffix("."), fault.log_end))) if fault is not None else "",
        kept=bool(row.workspace) and (place / row.workspace).is_dir(),
    )
