"""A game whose players answer over pipes: the time of its table is what they have used, not what goes by here.

Many games are played at once, and answers arrive in any order; each counts at the time at which it would have arrived
at a served game. One that comes too late is refused in the tick into which that time falls, and so its player has less
time there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from coworld_core.rules import Branch, EpisodeConfig, Rules
from coworld_core.time_limits import ABANDONED

from ..table.game_table import GameTable
from ..table.seat_counts import SeatCounts

__all__ = ["PipedGame", "SeatFailure"]

LATE: Final = "too late: tick {} is over"


@dataclass(frozen=True, kw_only=True)
class SeatFailure:
    """How a player's program has failed.

    Attributes:
        slot: Its seat.
        error_type: The type of the fault: `player_error`, `player_left_early` or `player_timeout`.
        status: The status with which it exited, or the number of a signal, negative; None if it had to be stopped.
        connected: Whether it had begun to play.
        after: Whether the game was over by then.
    """

    slot: int
    error_type: str
    status: int | None
    connected: bool = True
    after: bool = False


class PipedGame:
    """A game and the time of its players.

    Args:
        rules: The game.
        config: Its config.
        seed: The seed of all random numbers.
        grace: Seconds that the game may go on after a player has failed; infinite: to its end.
        branch: A game that it goes on from; None: it begins at its beginning.

    Attributes:
        table: The table.
        counts: What each seat did.
        awaited: The seats that the present tick waits for.
        failures: How players have failed.
        results: The results of a game that is over.
        stopped: Whether it was given up.

    Raises:
        RulesError: The rules fail, as in any method.
    """

    def __init__(
        self, rules: type[Rules], config: EpisodeConfig, *, seed: int, grace: float, branch: Branch | None = None
    ) -> None:
        self.counts = SeatCounts(config.seats)
        self._branch = branch
        chances = None if branch is None else branch.new_chances()
        self.table = GameTable(rules, config, seed=seed, keep="actions", log=self.counts, new_chance=chances)
        self.table.begin(0.0)
        self.awaited: set[int] = set()
        self.failures: list[SeatFailure] = []
        self.results: Mapping[str, Any] | None = None
        self.stopped = False
        self._now = self._latest = 0.0
        """When the present tick began, and when the last answer in it came."""
        self._ends = math.inf
        """When the game is given up."""
        self._grace = grace
        self._asked: dict[int, float] = {}
        """When a player was asked what it has not answered yet."""
        self._stale: dict[int, int] = {}
        """Those of them that were asked in an earlier tick, with that tick."""
        self._late: dict[int, tuple[int, float]] = {}
        """The tick to which a player has answered too late, and when that arrives."""
        self._gone: set[int] = set()

    def next_turn(self) -> Sequence[int]:
        """Begin the next tick; returns the seats that are to act, none if there is no more."""
        if self.stopped:
            return ()
        turn = self.table.ask(self._now)
        if not turn:
            self.results = self.table.results()
        return turn

    def may_ask(self, slot: int) -> bool:
        """Whether a seat that is to act is to be asked now; it is awaited then, and also if it is still thinking.

        A seat whose player has gone or whose late answer takes all its time lets this turn pass.
        """
        since = self._now
        if self._late or self._gone or self._asked:
            if slot in self._gone:
                return False
            if slot in self._asked:
                self.awaited.add(slot)
                return False
            if slot in self._late:
                tick, arrives = self._late[slot]
                if arrives > self.table.time_ends(slot):
                    return False
                del self._late[slot]
                self.table.refuse(slot, LATE.format(tick))
                since = max(since, arrives)
        self._asked[slot] = since
        self.awaited.add(slot)
        return True

    def answered(self, slot: int, used: float) -> float | None:
        """Take in that a player has answered, after so many seconds; returns when, or None if that is too late.

        It is awaited no more then, unless its answer belongs to an earlier tick: it may have to be asked now.
        """
        since = self._asked.pop(slot)
        arrives = since + used
        if slot in self._stale:
            self._late[slot] = (self._stale.pop(slot), arrives)
            return None
        # Most answers are quick
        if (used <= self.table.sure and since <= self._now) or arrives <= self.table.time_ends(slot):
            if arrives > self._latest:
                self._latest = arrives
            return arrives
        self.awaited.discard(slot)
        self._late[slot] = (self.table.play.tick, arrives)
        return None

    def asks_again(self, slot: int, at: float) -> None:
        """Let a seat whose action was refused at some time try again from there."""
        self._asked[slot] = at

    def seconds_left(self, slot: int) -> float | None:
        """Seconds that a player may use for what it was asked; None if nothing is awaited from it in this tick."""
        if slot not in self.awaited or slot not in self._asked:
            return None
        return self.table.time_ends(slot) - self._asked[slot]

    def is_thinking(self, slot: int) -> bool:
        """Whether a player has not answered yet."""
        return slot in self._asked

    def end_turn(self) -> None:
        """End the tick: nobody is awaited any more."""
        table = self.table
        turn = table.play.to_act
        # A game of ticks waits for the end of each, any other only for those that have not acted
        for slot in turn if table.ticks else table.missing() if len(table.actions) < len(turn) else ():
            self._latest = max(self._latest, table.time_ends(slot))
        self._now = self._latest
        if self._now > self._ends:
            self.stopped = True
            return
        for slot in self._asked:
            self._stale.setdefault(slot, table.play.tick)
        table.step(None if self._branch is None else self._branch.actions(table.play))

    @property
    def recorded(self) -> bool:
        """Whether what was recorded is done in this tick, whatever players say."""
        return self._branch is not None and self._branch.holds(self.table.play)

    def lose(self, failure: SeatFailure) -> None:
        """A player's program has ended.

        With status 0 it has only left, and its turns pass; a game that everyone has left is given up in the end. After
        any other failure the game has a moment to come to its own end. It does not begin without a player.
        """
        slot = failure.slot
        self._gone.add(slot)
        self._asked.pop(slot, None)
        self._stale.pop(slot, None)
        self.awaited.discard(slot)
        left = failure.error_type == "player_left_early" and failure.connected and not failure.after
        self.failures.append(failure)
        if not left:
            self._ends = min(self._ends, self._now + self._grace)
            self.stopped = self.stopped or not failure.connected
        elif len(self._gone) == self.table.play.seats:
            self._ends = min(self._ends, self._now + ABANDONED)

    def replay(self) -> bytes:
        """The replay, with what spectators see."""
        return self.table.replay(reason="stopped" if self.results is None else "over", results=self.results)
