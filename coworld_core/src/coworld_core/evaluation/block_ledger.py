"""Which blocks count: a block is counted, void or replayed, depending on whose fault spoiled its episodes.

======================  ==================================================================================
spoiled by              the block
======================  ==================================================================================
platform, operator      is played again, up to three attempts in all; then it is left out (`spoiled`)
too few processors      likewise, unless a player's own processes took them: then that player forfeits the episode
the game                is void
an entrant that left    is left out (`withdrawn`), as are the blocks of a dropped round
a measured player       counts, and the player forfeits the episode, whatever the game's results say
one that never played   is left out (`unplayed`) while the player has not connected once
any other player        counts if there are results, otherwise it is void
======================  ==================================================================================

`verdict.judge_row` attributes the fault. A player that forfeits an episode gets the lowest score in each of its
seats: the plan's `forfeit`, else the lowest that the game allows, else the lowest seen so far. All other seats get
the highest that the game allows, or that was seen so far. In the block, the player shares the last place: it wins the
block against nobody. Otherwise a player could gain by failing as soon as it is losing, where games do not score that
as a loss.

Who made the game fail, or the machine slow, cannot always be seen. So that nobody gains by making blocks disappear,
such blocks are noted as doubts (`Doubt`), and a verdict must hold even if they are counted against whoever leads.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from ..episode.record import EpisodeRow, PlayerFault
from ..episode.verdict import Verdict, judge_row
from .designs import Lineup, episode_key, parse_key
from .estimates import Doubt

__all__ = ["BlockLedger", "FirstForfeit", "JudgedBlock", "LedgerState", "Pair"]

_ATTEMPTS = 3
_SHORT = "The machine was short of processors."

Pair = tuple[str, str]
"""The labels of two players, sorted."""

_STARVED_OTHERS = PlayerFault(
    slot=0, error_type="starved_others", message="Its own processes took the processors that the others needed."
)


class FirstForfeit(NamedTuple):
    """The first episode that an entrant forfeited, and why."""

    workspace: str
    error_type: str
    message: str
    log: str = ""
    log_end: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedBlock:
    """The judgement of one block."""

    block: int
    fate: Literal["counted", "void", "unplayed", "spoiled", "withdrawn"]
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """For a counted block: each entrant's mean over its seats; of one that forfeited, the lowest mean of all."""
    by_seat: tuple[float, ...] = ()
    """Mean score of each seat, for a counted block in which every player had every seat, and none forfeited or took
    the processors that others needed."""
    forfeits: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many episodes each entrant has forfeited."""
    first_forfeits: Mapping[str, FirstForfeit] = field(default_factory=dict[str, "FirstForfeit"])
    """The first of them, for each of these entrants."""
    forfeited: tuple[bool, ...] = ()
    """For a counted block with forfeits: whether each lineup's episode was forfeited."""
    seated: frozenset[str] = frozenset()
    """Entrants that had a seat in it."""
    absent: frozenset[str] = frozenset()
    """Entrants that played in none of the episodes they had a seat in."""
    unplayed: frozenset[str] = frozenset()
    """Entrants for which it is left out because they have not connected once so far."""
    attempts: int = 1
    """How often it was played."""
    doubts: Mapping[Pair, Doubt] = field(default_factory=dict[Pair, Doubt])
    """For pairs for which this block could have been made to disappear, or to be played again: what it would take from
    whoever leads."""
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
    starvers: frozenset[int] = frozenset()
    """Slots whose own processes took the processors that the others needed."""


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
    """The stored form of a `BlockLedger` between two blocks."""

    judged: int
    lowest: float | None
    """The lowest score seen; None before the first, as JSON has no infinity."""
    highest: float | None
    connected: tuple[str, ...]
    """The entrants that have connected."""
    seen: tuple[float, float] | None = None
    """The lowest and the highest score that a game has given; None: unknown."""


class BlockLedger:
    """The rows of an evaluation, judged block by block in the order of the blocks, not of the rows.

    Args:
        lineups: The lineups of a block, by its number from 1.
        starved: Whether to count episodes whose machine was short of processors.
        forfeit: The score of a player that forfeits; None: the lowest score.
        lowest: The lowest score that the game allows; None: unknown.
        highest: The highest score that the game allows; None: unknown.

    Attributes:
        judged: Number of judged blocks: all before the first unfinished one.
        seen: The lowest and the highest score that the game has given; None before the first.
        played: The episodes of the most recently judged blocks, by block: all attempts, one after the other.
    """

    def __init__(
        self,
        lineups: Callable[[int], Sequence[Lineup]],
        *,
        starved: bool = False,
        forfeit: float | None = None,
        lowest: float | None = None,
        highest: float | None = None,
    ) -> None:
        self._lineups = lineups
        self._starved = starved
        self._forfeit = forfeit
        self._rows: dict[int, dict[tuple[int, int], _Episode]] = {}
        self._known_lineups: dict[int, Sequence[Lineup]] = {}
        self._withdrawn: dict[int, str] = {}
        self._lowest, self._highest = math.inf, -math.inf
        self.allow(lowest, highest)
        self._connected: set[str] = set()
        self.seen: tuple[float, float] | None = None
        self.judged = 0
        self.played: dict[int, list[EpisodeRow]] = {}

    def allow(self, lowest: float | None, highest: float | None) -> None:
        """Take the scores that the game allows into account; None: unknown."""
        if lowest is not None:
            self._lowest = min(self._lowest, lowest)
        if highest is not None:
            self._highest = max(self._highest, highest)

    @property
    def state(self) -> LedgerState:
        """The state to store; `resume` continues from it. It has no rows of unfinished blocks."""
        lowest = None if math.isinf(self._lowest) else self._lowest
        highest = None if math.isinf(self._highest) else self._highest
        return LedgerState(self.judged, lowest, highest, tuple(sorted(self._connected)), self.seen)

    def resume(self, state: LedgerState) -> None:
        """Continue from a stored state."""
        self.judged, self._connected = state.judged, {*state.connected}
        self.allow(state.lowest, state.highest)
        self.seen = state.seen

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
        starvers = frozenset(row.starved_by) if row.starved and not self._starved else frozenset[int]()
        self._rows.setdefault(place[0], {})[place[1], place[2]] = _Episode(row, judge_row(row), starvers)
        return self._over()

    @property
    def begun(self) -> set[int]:
        """The blocks that have rows and are not judged."""
        return {*self._rows}

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
            "faults": tuple([(row.party, row.error_type or "") for row in rows if row.party is not None]),
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
            if row.starved and not row.starved_by and not self._starved:
                return _SHORT
        return ""

    def _judge(self, block: int) -> JudgedBlock | None:
        """The judgement of a block; None while it is unfinished."""
        if block in self._withdrawn:
            return JudgedBlock(fate="withdrawn", reason=self._withdrawn[block], **self._ended(block, 1))
        known = self._rows.get(block)
        if known is None:
            return None
        lineups, reason = self.lineups(block), ""
        starved: list[tuple[Lineup, _Episode]] = []
        if len(known) < len(lineups):
            return None
        episodes: list[tuple[Lineup, _Episode]] = []
        for attempt in range(1, _ATTEMPTS + 1):
            rows = [known.get((attempt, number)) for number in range(1, len(lineups) + 1)]
            played = [row for row in rows if row is not None]
            if len(played) < len(rows):
                return None
            reason = self._spoilt(played)
            last = list(zip(lineups, played, strict=True))
            episodes += last
            if not reason:
                self._note_connected(episodes)
                judged = self._counted(block, attempt, last)
                return dataclasses.replace(judged, doubts=_doubts(judged, starved)) if starved else judged
            starved = starved or (last if reason == _SHORT else [])
        self._note_connected(episodes)
        seated = _shape(tuple(lineups)).seated
        judged = JudgedBlock(
            fate="spoiled", seated=seated, absent=_absent(episodes), reason=reason, **self._ended(block, _ATTEMPTS)
        )
        return dataclasses.replace(judged, doubts=_doubts(judged, starved)) if starved else judged

    def _counted(self, block: int, attempts: int, episodes: Sequence[tuple[Lineup, _Episode]]) -> JudgedBlock:
        shape = _shape(tuple([lineup for lineup, _ in episodes]))
        guilty = [_guilty(lineup, episode) for lineup, episode in episodes]
        common: dict[str, Any] = {
            **self._ended(block, attempts),
            **_forfeits(episodes, guilty),
            "seated": shape.seated,
            "absent": _absent(episodes),
        }
        if void := _void(episodes, guilty):
            judged = JudgedBlock(fate="void", reason=void, **common)
            return dataclasses.replace(judged, doubts=_doubts(judged, ()))
        for _, episode in episodes:
            if episode.verdict.counts:
                least, most = min(episode.row.scores), max(episode.row.scores)
                self._lowest, self._highest = min(self._lowest, least), max(self._highest, most)
                self.seen = (least, most) if self.seen is None else (min(self.seen[0], least), max(self.seen[1], most))
        if unplayed := frozenset(common["forfeits"]) - self._connected:
            reason = "A player has not connected in any episode so far."
            return JudgedBlock(fate="unplayed", reason=reason, unplayed=unplayed, **common)
        low = self._lowest if self._forfeit is None else self._forfeit
        if common["forfeits"] and not (math.isfinite(low) and math.isfinite(self._highest)):
            reason = "There is no score yet from which to derive the score of a forfeit."
            judged = JudgedBlock(fate="void", reason=reason, **common)
            return dataclasses.replace(judged, doubts=_doubts(judged, ()))
        tables: list[tuple[float, ...]] = []
        for (lineup, episode), losers in zip(episodes, guilty, strict=True):
            table = episode.row.scores
            if losers:
                table = tuple([low if label in losers else self._highest for label in lineup])
            tables.append(table)
        scores = _means(zip((lineup for lineup, _ in episodes), tables, strict=True), shape.labels)
        disturbed = bool(common["forfeits"]) or any(episode.starvers for _, episode in episodes)
        if common["forfeits"]:
            scores |= dict.fromkeys(common["forfeits"], min(scores.values()))
        return JudgedBlock(
            fate="counted",
            scores=scores,
            by_seat=_by_seat(episodes) if shape.balanced and not disturbed else (),
            tables=tuple(tables),
            **common,
        )

    def _note_connected(self, episodes: Sequence[tuple[Lineup, _Episode]]) -> None:
        """Remember who has connected."""
        for lineup, episode in episodes:
            # What the game or the machine ended says nothing about who was there
            if episode.verdict.counts or episode.verdict.party == "player":
                away = {fault.slot for fault in episode.row.failed_players if fault.away}
                here = (label for slot, label in enumerate(lineup) if slot not in away)
                self._connected.update(label for label in here if label is not None)


def _guilty(lineup: Lineup, episode: _Episode) -> dict[str, PlayerFault]:
    """The entrants that forfeit an episode, with the fault of each."""
    if not (episode.verdict.counts or episode.verdict.party == "player"):
        return {}
    found: dict[str, PlayerFault] = {}
    faults = episode.row.failed_players
    # What starved all alike, or a player that meets only itself, gave nobody an advantage
    starvers = {slot for slot in episode.starvers if slot < len(lineup)}
    if any(lineup[slot] for slot in starvers) and len(starvers) < len(lineup) and len(set(lineup)) > 1:
        faults = tuple(_STARVED_OTHERS.model_copy(update={"slot": slot}) for slot in sorted(starvers))
    for fault in faults:
        label = lineup[fault.slot] if fault.slot < len(lineup) else None
        if label is not None:
            found.setdefault(label, fault)
    return found


def _doubts(judged: JudgedBlock, starved: Sequence[tuple[Lineup, _Episode]]) -> dict[Pair, Doubt]:
    """What a block takes from whoever leads, because it may have been made to disappear or to be played again.

    Args:
        judged: The block as it is judged.
        starved: The first attempt that was discarded because the machine was short of processors, if there was one. If
            nobody failed in it, it tells who would have done better.
    """
    labels = sorted(judged.seated)
    before: dict[str, float] = {}
    if starved and all(episode.verdict.counts and not episode.row.failed_players for _, episode in starved):
        before = _means([(lineup, episode.row.scores) for lineup, episode in starved], labels)
    found: dict[Pair, Doubt] = {}
    for first, second in itertools.combinations(labels, 2):
        counted = _better(judged.scores, first, second)
        earlier = _better(before, first, second)
        if earlier is None and (first in judged.forfeits) != (second in judged.forfeits):
            earlier = -1 if first in judged.forfeits else 1
        if judged.fate != "counted" or counted != earlier:
            found[first, second] = Doubt.of(counted, earlier)
    return {pair: doubt for pair, doubt in found.items() if any(doubt)}


def _means(tables: Iterable[tuple[Lineup, Sequence[float]]], labels: Iterable[str]) -> dict[str, float]:
    """The mean score of each entrant over its seats in some episodes."""
    sums: dict[str, list[float]] = {label: [] for label in labels}
    for lineup, table in tables:
        for label, score in zip(lineup, table, strict=True):
            if label is not None:
                sums[label].append(score)
    return {label: math.fsum(scores) / len(scores) for label, scores in sums.items()}


def _better(scores: Mapping[str, float], first: str, second: str) -> int | None:
    """1 if the first has more, -1 if the second has, 0 if both have the same; None without scores."""
    if first not in scores or second not in scores:
        return None
    return (scores[first] > scores[second]) - (scores[first] < scores[second])


def _void(episodes: Sequence[tuple[Lineup, _Episode]], guilty: Sequence[Collection[str]]) -> str:
    """Why a block is void; empty if it is not."""
    for (_, episode), losers in zip(episodes, guilty, strict=True):
        if episode.verdict.counts or losers:
            continue
        message = episode.verdict.message
        return message if episode.verdict.party == "game" else f"Another player failed: {message}"
    return ""


def _forfeits(
    episodes: Sequence[tuple[Lineup, _Episode]], guilty: Sequence[Mapping[str, PlayerFault]]
) -> dict[str, Any]:
    """The fields of a judged block that describe its forfeits."""
    if not any(guilty):
        return {"forfeits": {}}
    first: dict[str, FirstForfeit] = {}
    for (_, episode), losers in zip(episodes, guilty, strict=True):
        for label, fault in losers.items():
            where = episode.row.workspace
            log = f"{where}/{fault.log}" if where and fault.log else ""
            first.setdefault(label, FirstForfeit(where, fault.error_type, fault.message, log, fault.log_end))
    return {
        "forfeits": dict(Counter(label for losers in guilty for label in losers)),
        "first_forfeits": first,
        "forfeited": tuple(map(bool, guilty)),
    }


def _absent(episodes: Sequence[tuple[Lineup, _Episode]]) -> frozenset[str]:
    """Entrants that played in none of these episodes."""
    if all(episode.row.party is None for _, episode in episodes):
        return frozenset()
    seated: set[str | None] = set()
    came: set[str | None] = set()
    for lineup, episode in episodes:
        losers = _guilty(lineup, episode)
        seated.update(lineup)
        came.update(
            label for label in lineup if label not in losers or (episode.verdict.counts and not losers[label].away)
        )
    return frozenset(label for label in seated - came if label is not None)


def _by_seat(episodes: Sequence[tuple[Lineup, _Episode]]) -> tuple[float, ...]:
    columns = zip(*[episode.row.scores for _, episode in episodes], strict=True)
    return tuple([math.fsum(column) / len(column) for column in columns])
