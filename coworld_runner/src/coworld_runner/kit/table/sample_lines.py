"""The samples of a running game, as lines of JSON: what each seat saw and did in each of its turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from coworld_core.rules import RulesError
from coworld_core.rules.plain_values import to_json

from .compact_json import compact

if TYPE_CHECKING:
    from coworld_core.rules import Play

__all__ = ["SampleLines"]

MOST_KEPT: Final = 64 * 1024 * 1024
"""Characters of lines that wait to be taken; beyond that no more samples are kept, and the game goes on."""


class SampleLines:
    """Collects samples (`coworld_core.records.samples`).

    Args:
        clock: Returns the time of a sample, in seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lines: list[str] = []
        self._size = 0
        self._open = True
        self._cut = ""
        """Why not all samples are there; empty if they are."""
        self._out_of_sync: set[int] = set()

    def take(self) -> list[str]:
        """Remove and return the lines so far."""
        lines, self._lines, self._size = self._lines, [], 0
        return lines

    def give_up(self) -> None:
        """Keep nothing from now on."""
        self._open, self._lines = False, []

    def views(self, play: Play) -> dict[int, str]:
        """What the seats that are to act see, before they have acted: the first part of their lines.

        Raises:
            RulesError: The rules fail.
        """
        if not self._open:
            return {}
        scores = play.frame().scores
        parts: dict[int, str] = {}
        for seat in play.to_act:
            legal = play.legal(seat)
            told = "null" if legal is None else f"[{','.join(legal)}]"
            score = "" if scores is None else f'"score":{scores[seat]!r},'
            parts[seat] = f'"seat":{seat},{score}"observation":{play.observe(seat)},"legal":{told}'
        return parts

    def add(
        self,
        tick: int,
        views: Mapping[int, str],
        done: Mapping[int, Any],
        by: Mapping[int, str | None],
        rewards: Sequence[float | None] | None = None,
    ) -> None:
        """Add the samples of a tick that has been played.

        Args:
            tick: Number of ticks played before it.
            views: What `views` returned before it.
            done: What was played, by seat.
            by: For each seat that acted in time, who decided, if its player says so.
            rewards: What each seat has gained in it, in games that give rewards.
        """
        now = f"{self._clock():.6f}"
        for seat, view in views.items():
            who = f',"by":{compact(by[seat])}' if by.get(seat) else ""
            acted = "true" if seat in by else "false"
            self._add(f'{{"tick":{tick},"time":{now},{view},"action":{to_json(done[seat])},"acted":{acted}{who}}}\n')
        if rewards is not None:
            self._add(f'{{"rewards":{compact(rewards)},"tick":{tick}}}\n')

    def miss(self, seat: int) -> None:
        """Note that a seat was to act in a tick that it had not been told of."""
        self._out_of_sync.add(seat)

    def finish(self, play: Play, *, reason: str, scores: list[float] | None) -> None:
        """Add what the seats see at the end, if the game is over, and how it ended.

        Args:
            play: The game.
            reason: Why it ended; `over` if it was played to its end.
            scores: The final scores, if there are any.
        """
        for seat in range(play.seats) if scores is not None else ():
            try:
                self._add(f'{{"final":true,"tick":{play.tick},"seat":{seat},"observation":{play.observe(seat)}}}\n')
            except RulesError:
                continue  # It is only missing
        end = {
            "end": self._cut or reason,
            "complete": not self._cut and reason == "over",
            "scores": scores,
            "out_of_sync": sorted(self._out_of_sync),
        }
        self._lines.append(f"{compact(end)}\n")
        self._open = False

    def _add(self, line: str) -> None:
        if not self._open:
            return
        self._lines.append(line)
        self._size += len(line)
        if self._size > MOST_KEPT:
            self._open, self._cut = False, "too much waited to be written"
