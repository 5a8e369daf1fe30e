"""Which blocks count: a block is counted, void or replayed, depending on whose fault spoiled its episodes.

======================  ==================================================================================
spoiled by              the block
======================  ==================================================================================
platform, operator      is played again, up to three attempts in all; then it is left out (``spoiled``)
too few processors      likewise
the game                is void
an entrant that left    is left out (``withdrawn``), as are the blocks of a dropped round
a measured player       counts with the game's results; without results the player forfeits
any other player        counts if there are results, otherwise it is void
======================  ==================================================================================

``verdict.judge_row`` attributes the fault. A player that forfeits gets the plan's ``forfeit``, by default the worst
score seen so far in the evaluation, and the others in the episode get the mean of all scores seen so far.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from ..episode.record import EpisodeRow
from ..episode.verdict import Verdict, judge_row
from .designs import Lineup, episode_key, parse_key

__all__ = ["BlockLedger", "JudgedBlock", "LedgerState"]

_ATTEMPTS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedBlock:
    """The judgement of one block."""

    block: int
    fate: Literal["counted", "void", "spoiled", "withdrawn"]
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """For a counted block: each entrant's mean over its seats."""
    by_seat: tuple[float, ...] = ()
    """Mean score of each seat, for a counted block in which every player had every seat and none forfeited."""
    forfeits: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many episodes each entrant has forfeited."""
    seated: frozenset[str] = frozenset()
    """Entrants that had a seat in it."""
    absent: frozenset[str] = frozenset()
    """Entrants that played in none of the episodes they had a seat in."""
    attempts: int = 1
    """How often it was played."""
    reason: str = ""
    """Why it is not counted."""
    tables: tuple[tuple[float, ...], ...] = ()
    """For a counted block: the scores of each lineup, by slot, after forfeits."""
    seconds: tuple[float, ...] = ()
    """How long each of its episodes took, including replayed ones."""
    faults: tuple[tuple[str, str], ...] = ()
    """For each of these episodes with a fault: the party at fault, and the type."""


@dataclass(frozen=True, slots=True)
class _Episode:
    """An episode with its verdict, which is kept because it is needed more than once."""

    row: EpisodeRow
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class _Shape:
    """Properties that depend only on the lineups of a block; a million blocks share few of them."""

    seated: frozenset[str]
    labels: tuple[str, ...]
    """The same, sorted."""
    balanced: bool
    """Whether there are several seats, and each player has every seat equally often."""


@lru_cache(maxsize=4096)
def _shape(lineups: tuple[Lineup, ...]) -> _Shape:
    seated = frozenset(label for lineup in lineups for label in lineup if label is not None)
    columns = [sorted(map(str, column)) for column in zip(*lineups, strict=True)]
    balanced = len(columns) > 1 and all(column == columns[0] for column in columns)
    return _Shape(seated, tuple(sorted(seated)), balanced)


class LedgerState(NamedTuple):
    """The stored form of a ``BlockLedger`` between two blocks."""

    judged: int
    worst: float | None
    """The worst score seen; None before the first, as JSON has no infinity."""
    shown: int
    total: float


class BlockLedger:
    """The rows of an evaluation, judged block by block in the order of the blocks, not of the rows.

    Args:
        lineups: The lineups of a block, by its number from 1.
        starved: Whether to count episodes whose machine was short of processors.
        forfeit: The score of a player that forfeits; None: the worst score seen.

    Attributes:
        judged: Number of judged blocks: all before the first unfinished one.
        played: The episodes of the most recently judged blocks, by block: all attempts, one after the other.
    """

    def __init__(
        self, lineups: Callable[[int], Sequence[Lineup]], *, starved: bool = False, forfeit: float | None = None
    ) -> None:
        self._lineups = lineups
        self._starved = starved
        self._forfeit = forfeit
        self._rows: dict[int, dict[tuple[int, int], _Episode]] = {}
        self._known_lineups: dict[int, Sequence[Lineup]] = {}
        self._withdrawn: dict[int, str] = {}
        self._worst = math.inf
        self._shown = 0
        self._total = 0.0
        self.judged = 0
        self.played: dict[int, list[EpisodeRow]] = {}

    @property
    def state(self) -> LedgerState:
        """The state to store; ``resume`` continues from it. It has no rows of unfinished blocks."""
        worst = None if math.isinf(self._worst) else self._worst
        return LedgerState(self.judged, worst, self._shown, self._total)

    def resume(self, state: LedgerState) -> None:
        """Continue from a stored state."""
        self.judged, self._shown, self._total = state.judged, state.shown, state.total
        self._worst = math.inf if state.worst is None else state.worst

    def lineups(self, block: int) -> Sequence[Lineup]:
        """The lineups of a block, cached until it is judged."""
        if block not in self._known_lineups:
            found = self._lineups(block)
            if block <= self.judged:
                return found
            self._known_lineups[block] = found
        return self._known_lineups[block]

    def add(self, row: EpisodeRow) -> list[JudgedBlock]:
        """Add a row; rows with other keys are ignored.

        Returns:
            The blocks that could be judged with it, in order.
        """
        place = parse_key(row.key)
        if place is None or place[0] <= self.judged:
            return []
        self._rows.setdefault(place[0], {})[place[1], place[2]] = _Episode(row, judge_row(row))
        return self._over()

    def withdraw(self, block: int, reason: str = "One of its players has withdrawn.") -> list[JudgedBlock]:
        """Withdraw an unfinished block, for example because an entrant has left.

        Returns:
            The blocks that could then be judged, in order.
        """
        self._withdrawn[block] = reason
        return self._over()

    def _over(self) -> list[JudgedBlock]:
        judged: list[JudgedBlock] = []
        self.played.clear()
        while (block := self._judge(self.judged + 1)) is not None:
            self._rows.pop(block.block, None)
            self._known_lineups.pop(block.block, None)
            self.judged += 1
            judged.append(block)
        return judged

    def _ended(self, block: int, attempts: int) -> dict[str, Any]:
        """The fields of a judged block that cover all its episodes, up to the given attempt."""
        known = self._rows.get(block, {})
        rows = self.played[block] = [known[place].row for place in sorted(known) if place[0] <= attempts]
        return {
            "block": block,
            "attempts": attempts,
            "seconds": tuple([row.seconds for row in rows]),
            "faults": tuple([(row.fault, row.error_type or "") for row in rows if row.fault is not None]),
        }

    def missing(self, block: int) -> list[tuple[str, Lineup]]:
        """The keys and lineups of the episodes that a block still needs."""
        if block <= self.judged or block in self._withdrawn:
            return []
        lineups = self.lineups(block)
        rows = self._rows.get(block, {})
        for attempt in range(1, _ATTEMPTS + 1):
            lacking = [number for number in range(1, len(lineups) + 1) if (attempt, number) not in rows]
            if lacking:
                return [(episode_key(block, attempt, number), lineups[number - 1]) for number in lacking]
            if not self._spoilt([rows[attempt, number] for number in range(1, len(lineups) + 1)]):
                return []
        return []

    def _spoilt(self, episodes: Sequence[_Episode]) -> str:
        """Why these episodes must be played again; empty if they need not be."""
        for episode in episodes:
            row, verdict = episode.row, episode.verdict
            if not verdict.counts and verdict.party not in ("game", "player"):
                return verdict.message or f"The {verdict.party} failed."
            if row.starved and not self._starved:
                return "The machine was short of processors."
        return ""

    def _judge(self, block: int) -> JudgedBlock | None:
        """The judgement of a block; None while it is unfinished."""
        if block in self._withdrawn:
            return JudgedBlock(fate="withdrawn", reason=self._withdrawn[block], **self._ended(block, 1))
        known = self._rows.get(block)
        if known is None:
            return None
        lineups, reason = self.lineups(block), ""
        if len(known) < len(lineups):
            return None
        episodes: list[tuple[Lineup, _Episode]] = []
        for attempt in range(1, _ATTEMPTS + 1):
            rows = [known.get((attempt, number)) for number in range(1, len(lineups) + 1)]
            played = [row for row in rows if row is not None]
            if len(played) < len(rows):
                return None
            reason = self._spoilt(played)
            if not reason:
                return self._counted(block, attempt, list(zip(lineups, played, strict=True)))
            episodes += zip(lineups, played, strict=True)
        seated = _shape(tuple(lineups)).seated
        return JudgedBlock(
            fate="spoiled", seated=seated, absent=_absent(episodes), reason=reason, **self._ended(block, _ATTEMPTS)
        )

    def _counted(self, block: int, attempts: int, episodes: Sequence[tuple[Lineup, _Episode]]) -> JudgedBlock:
        shape = _shape(tuple([lineup for lineup, _ in episodes]))
        forfeits: Counter[str] = Counter()
        void = ""
        shown: list[float] = []
        for lineup, episode in episodes:
            row, verdict = episode.row, episode.verdict
            if verdict.counts:
                shown += row.scores
            elif verdict.party == "game":
                void = void or verdict.message
            elif (guilty := _guilty(lineup, row)) is not None:
                forfeits[guilty] += 1
            else:
                void = void or f"Another player failed: {verdict.message}"
        common: dict[str, Any] = {
            **self._ended(block, attempts),
            "forfeits": dict(forfeits),
            "seated": shape.seated,
            "absent": _absent(episodes),
        }
        if void:
            return JudgedBlock(fate="void", reason=void, **common)
        for score in shown:
            self._total += score
        self._shown += len(shown)
        self._worst = min(self._worst, *shown) if shown else self._worst
        if forfeits and not self._shown:
            reason = "There is no score yet from which to derive that of a forfeit."
            return JudgedBlock(fate="void", reason=reason, **common)
        sums: dict[str, list[float]] = {label: [] for label in shape.labels}
        tables: list[tuple[float, ...]] = []
        for lineup, episode in episodes:
            row = episode.row
            table = (
                row.scores
                if episode.verdict.counts
                else tuple(self._of_forfeit(label is not None and label == lineup[row.slot or 0]) for label in lineup)
            )
            for label, score in zip(lineup, table, strict=True):
                if label is not None:
                    sums[label].append(score)
            tables.append(table)
        return JudgedBlock(
            fate="counted",
            scores={label: math.fsum(scores) / len(scores) for label, scores in sums.items()},
            by_seat=_by_seat(episodes) if shape.balanced and not forfeits else (),
            tables=tuple(tables),
            **common,
        )

    def _of_forfeit(self, guilty: bool) -> float:
        if guilty:
            return self._worst if self._forfeit is None else self._forfeit
        return self._total / self._shown


def _guilty(lineup: Lineup, row: EpisodeRow) -> str | None:
    return lineup[row.slot] if row.fault == "player" and row.slot is not None else None


def _absent(episodes: Sequence[tuple[Lineup, _Episode]]) -> frozenset[str]:
    """Entrants that played in none of these episodes."""
    if all(episode.row.fault is None for _, episode in episodes):
        return frozenset()
    seated: set[str | None] = set()
    came: set[str | None] = set()
    for lineup, episode in episodes:
        row = episode.row
        stayed_away = not episode.verdict.counts or row.error_type == "player_never_started"
        seated.update(lineup)
        came.update(label for label in lineup if not (stayed_away and label == _guilty(lineup, row)))
    return frozenset(label for label in seated - came if label is not None)


def _by_seat(episodes: Sequence[tuple[Lineup, _Episode]]) -> tuple[float, ...]:
    columns = zip(*[episode.row.scores for _, episode in episodes], strict=True)
    return tuple([math.fsum(column) / len(column) for column in columns])
