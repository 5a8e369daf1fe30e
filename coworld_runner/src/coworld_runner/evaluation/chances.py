"""How likely each seat was to win as a game went on: the game is continued from many of its ticks."""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

from pydantic import Field

from coworld_core.documents.records import Record, SchemaVersion
from coworld_core.episode.record import EpisodeRow
from coworld_core.errors import UsageError
from coworld_core.evaluation.report_base import IntervalRecord
from coworld_core.rules import RulesReplay

from ..package.resolver import Package
from .forks import find_game, open_continuations, open_game, point_share, share_interval

__all__ = ["ChancePoint", "ChanceReport", "CostlyMove", "SeatChance", "run_chances"]

_BATCH: Final = 8
"""Continuations of a tick before another look at which tick is most worth more."""
_MOST: Final = 256
"""Continuations of one tick."""
_MOVES: Final = 3


class SeatChance(Record):
    """What a seat could expect at a tick."""

    share: float = Field(description="Its mean share of the points: a win against another seat is 1, a draw 0.5.")
    interval: IntervalRecord | None = Field(default=None, description="95 % interval of it; null: it is certain.")


class ChancePoint(Record):
    """A tick from which the game was continued."""

    tick: int = Field(ge=0, description="The tick.")
    times: int = Field(ge=0, description="Number of continuations; 0 for the end, whose shares are certain.")
    slots: tuple[SeatChance, ...] = Field(description="By seat.")


class CostlyMove(Record):
    """Where a seat lost most of what it could expect."""

    slot: int = Field(ge=0, description="The seat.")
    tick: int = Field(ge=0, description="The tick at which it acted.")
    until: int = Field(ge=1, description="The next tick that was looked at.")
    action: Any = Field(default=None, description="What it did at that tick, as JSON.")
    cost: float = Field(description="By how much its share fell until then, moves of others and chance included.")
    certain: bool = Field(description="Whether the intervals before and after it do not overlap.")


class ChanceReport(Record):
    """How likely each seat was to win as a game went on."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this document's shape.")
    run: str = Field(description="The directory of the episode.")
    names: tuple[str, ...] = Field(description="The names of its seats.")
    players: tuple[str, ...] = Field(description="Who plays the continuations, by seat, as in records.")
    seed: int = Field(description="What their random numbers follow from.")
    seconds: float = Field(description="How long they took.")
    curve: tuple[ChancePoint, ...] = Field(description="By tick, the end included.")
    moves: tuple[CostlyMove, ...] = Field(description="The three costliest of each seat, by seat.")
    flat: bool = Field(
        description="Whether all continuations ended as the game did: its players and its rules use no chance."
    )


async def run_chances(
    run: str | os.PathLike[str],
    *,
    seconds: float = 20.0,
    players: Mapping[int, str] | None = None,
    seed: int = 0,
    game: Package | str | os.PathLike[str] | None = None,
    tell: Callable[[int], object] | None = None,
) -> ChanceReport:
    """Continue a game from many of its ticks with other chance, most where the seats' prospects change most.

    Args:
        run: As for `fork_run`.
        seconds: When to stop beginning further continuations; a short game may take less.
        players: As for `fork_run`.
        seed: What the random numbers of the continuations follow from.
        game: As for `fork_run`.
        tell: Called with the number of continuations so far.

    Raises:
        UsageError: As for `fork_run`.
        EnvironmentFault: The machine failed.
    """
    if not seconds > 0:
        raise UsageError("The time for the continuations must be more than 0 seconds.", code="bad_seconds")
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(open_game(await find_game(run, game=game), players=players))
        if opened.replay.results is None:
            raise UsageError("The game was not played to its end, so nobody has won it.", code="not_over")
        keyed = await stack.enter_async_context(open_continuations(opened.found, venue=opened.venue))
        began = time.monotonic()
        curve = _Curve(opened.replay, began + seconds, tell)
        plans = (opened.continuation(tick, number, seed=seed) for tick, number in curve.wanted())
        await keyed.play(plans, on_row=curve.take)
        return ChanceReport(
            run=str(opened.found.layout.workspace),
            names=tuple(opened.replay.header.names),
            players=tuple(seat.image for seat in opened.plan.seats),
            seed=seed,
            seconds=round(time.monotonic() - began, 3),
            curve=tuple(curve.points()),
            moves=tuple(curve.moves()),
            flat=curve.flat,
        )


class _Curve:
    """The shares of all seats by tick, as far as they are known."""

    def __init__(self, replay: RulesReplay, ends: float, tell: Callable[[int], object] | None) -> None:
        assert replay.results is not None
        self._replay = replay
        self._ends = ends
        self._tell = tell
        self._seats = range(replay.header.seats)
        self._last = len(replay.ticks) - 1
        final = [point_share(replay.results["scores"], slot) for slot in self._seats]
        self._shares: dict[int, list[list[float]]] = {self._last: [final]}
        self._asked: dict[int, int] = {self._last: _MOST}
        self._coming: deque[int] = deque()
        """The ticks of continuations that have no row yet."""
        self._done = 0

    @property
    def flat(self) -> bool:
        """Whether all continuations ended as the game did."""
        return all(share == self._shares[self._last][0] for shares in self._shares.values() for share in shares)

    def take(self, row: EpisodeRow) -> None:
        """Take in a continuation: rows come in the order in which they were wanted."""
        tick = self._coming.popleft()
        self._done += 1
        if row.scores:
            shares = [point_share(row.scores, slot) for slot in self._seats]
            self._shares.setdefault(tick, []).append(shares)
        if self._tell is not None:
            self._tell(self._done)

    def wanted(self) -> Iterator[tuple[int, int]]:
        """Ticks, and numbers of continuations of each, until the time is over."""
        tick: int | None = 0
        while tick is not None:
            first = self._asked.get(tick, 0) + 1
            self._asked[tick] = first + _BATCH - 1
            for number in range(first, first + _BATCH):
                if time.monotonic() > self._ends:
                    return
                self._coming.append(tick)
                yield tick, number
            tick = self._next()

    def _next(self) -> int | None:
        """The tick that is most worth further continuations: between two that differ, or one that is not certain."""
        best: tuple[float, int] | None = None
        for early, late in itertools.pairwise(sorted(self._asked)):
            apart = max(abs(self._mean(early, slot) - self._mean(late, slot)) for slot in self._seats)
            if late - early > 1:
                # Long stretches that nobody has looked into may hide something
                worth, tick = apart + (late - early) / self._last, (early + late) // 2
            else:
                tick = min(early, late, key=lambda one: self._asked[one])
                worth = (apart + 0.25) / (1 + self._asked[tick] / _BATCH)
            if self._asked.get(tick, 0) < _MOST and (best is None or worth > best[0]):
                best = worth, tick
        return None if best is None else best[1]

    def _mean(self, tick: int, slot: int) -> float:
        """A seat's mean share at a tick; as long as none is known, that of the nearest tick before."""
        known = max((one for one in self._shares if one <= tick), default=self._last)
        shares = self._shares[known]
        return sum(one[slot] for one in shares) / len(shares)

    def points(self) -> Iterator[ChancePoint]:
        """What is known, by tick."""
        for tick, shares in sorted(self._shares.items()):
            seats = tuple(
                SeatChance(
                    share=sum(one[slot] for one in shares) / len(shares),
                    interval=None if tick == self._last else share_interval([one[slot] for one in shares]),
                )
                for slot in self._seats
            )
            yield ChancePoint(tick=tick, times=0 if tick == self._last else len(shares), slots=seats)

    def moves(self) -> Iterator[CostlyMove]:
        """The costliest moves of each seat."""
        points = list(self.points())
        for slot in self._seats:
            found: list[CostlyMove] = []
            for early, late in itertools.pairwise(points):
                acted = [tick for tick in range(early.tick, late.tick) if slot in self._replay.ticks[tick + 1].actions]
                before, after = early.slots[slot], late.slots[slot]
                if acted and before.share > after.share:
                    lowest = before.share if before.interval is None else before.interval.low
                    highest = after.share if after.interval is None else after.interval.high
                    found.append(
                        CostlyMove(
                            slot=slot,
                            tick=acted[0],
                            until=late.tick,
                            action=self._replay.ticks[acted[0] + 1].actions[slot],
                            cost=before.share - after.share,
                            certain=lowest > highest,
                        )
                    )
            yield from sorted(found, key=lambda move: -move.cost)[:_MOVES]
