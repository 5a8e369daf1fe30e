"""One episode whose seats are asked by messages: the rules of a served game about time, refusals and failures.

What a `Match` does for connections happens here for requests and answers, in an order that does not depend on when they
arrive. A seat's clock counts what its player used. A player that is late goes on thinking while time passes for it:
what it has used beyond its time counts against its next turns, as it does at a socket.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from coworld_core.documents.json_text import has_too_many_values
from coworld_core.episode.seat_behaviour import SeatBehaviour
from coworld_core.rules import (
    ActionRefused,
    EpisodeConfig,
    Play,
    ReplayWriter,
    Rules,
    RulesError,
    Ticks,
)
from coworld_core.rules.replay import replay_header
from coworld_core.rules.seat_talk import SeatMessage
from coworld_core.rules.seat_wire import MAX_FRAME
from coworld_core.time_limits import ABANDONED

__all__ = ["MAX_VALUES", "SeatFailure", "SeatedEpisode"]

MAX_VALUES: Final = 20_000
"""Maximum number of commas and opening brackets in an act: reading it holds up the game for everyone."""


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


@dataclass
class _Seat:
    bank: float
    acted: int = 0
    idle: int = 0
    refused: int = 0
    behind: float = 0.0
    """Seconds that it goes on thinking about a tick that is over."""
    late: bool = False
    """Whether the answer to such a tick is still to be refused."""
    used: float = 0.0
    """Seconds used in this tick, before actions that were refused."""
    gone: bool = False
    took: dict[float, int] = field(default_factory=dict[float, int])


class SeatedEpisode:
    """An episode between players that are asked by messages.

    Args:
        rules: The game.
        config: Its config.
        seed: The seed of all random numbers.
        grace: Seconds that the game may go on after a player has failed; infinite: to its end.

    Attributes:
        play: The game.
        actions: What was done in each tick, as the rules know it.
        failures: How players have failed.
        results: The results of a game that is over.
        stopped: Whether it was given up.

    Raises:
        RulesError: The rules fail, as in any method.
    """

    def __init__(self, rules: type[Rules], config: EpisodeConfig, *, seed: int, grace: float = 1.0) -> None:
        pace = config.pace
        self._per_move, bank = (1 / pace.hz, 0.0) if isinstance(pace, Ticks) else (pace.per_move, pace.bank)
        self.play = Play(rules, config=config.rules, seats=config.seats, seed=seed)
        self.actions: list[dict[int, Any]] = []
        self.failures: list[SeatFailure] = []
        self.results: dict[str, Any] | None = None
        self.stopped = False
        self._rules = rules
        self._config = config
        self._seed = seed
        self._seats = [_Seat(bank) for _ in range(config.seats)]
        self._said: dict[int, Sequence[SeatMessage]] = {}
        """What seats said to each other, by the tick in which they did."""
        self._chosen: dict[int, Any] = {}
        self._turn: list[int] = []
        self._all_there = True
        """Whether no seat has left or been behind so far."""
        self._grace = grace
        self._patience = math.inf

    def next_turn(self) -> Sequence[int]:
        """Go on to the next tick in which players are to be asked; returns their seats, none if there is no more.

        Seats that are still behind, or have left, are not asked: they miss their turn.
        """
        play, seats = self.play, self._seats
        while (turn := play.to_act) and not self.stopped:
            if self._all_there:
                self._turn = list(turn)
                return turn
            ask = [slot for slot in turn if not seats[slot].gone and not seats[slot].behind]
            if len(ask) < len(turn):
                ask += [slot for slot in turn if not seats[slot].gone and seats[slot].behind and self._caught_up(slot)]
                absent = [slot for slot in turn if seats[slot].gone]
                if absent and not self._waited_for(*absent):
                    return []
                for slot in turn:
                    if slot not in ask:
                        seats[slot].idle += 1
            if ask:
                self._turn = ask
                return sorted(ask)
            self._step()
        if not self.stopped:
            self.results = play.results()
        return []

    def _waited_for(self, *absent: int) -> bool:
        """Let the time of seats pass whose players have ended; returns whether the game goes on for that long."""
        seats = [self._seats[slot] for slot in absent]
        self._patience -= self._per_move + max(seat.bank for seat in seats)
        for seat in seats:
            seat.bank = 0.0
        if self._patience >= 0:
            return True
        self.stopped = True
        if not self.failures:
            self.failures += [
                SeatFailure(slot=slot, error_type="player_left_early", status=0) for slot in range(len(self._seats))
            ]
        return False

    def _caught_up(self, slot: int) -> bool:
        """Whether a seat that is behind can answer in this tick."""
        seat = self._seats[slot]
        if seat.behind >= self._per_move + seat.bank:
            seat.behind -= self._per_move
            return False
        seat.used, seat.behind = seat.behind, 0.0
        if seat.late:
            seat.late = False
            seat.refused += 1
        return True

    def allowance(self, slot: int) -> float:
        """Seconds that a seat has left in this tick."""
        seat = self._seats[slot]
        return self._per_move + seat.bank - seat.used

    def choose(self, slot: int, action: Any, used: float) -> bool:
        """Take in an answer: a legal action, or None if the player lets its time pass; returns whether all are in."""
        seat = self._seats[slot]
        used += seat.used
        seat.used = 0.0
        left = self._per_move + seat.bank - used
        if action is None or left < 0:
            seat.bank = 0.0
            seat.idle += 1
            if action is not None:
                seat.behind, seat.late = -left, True
                self._all_there = False
        else:
            if used > self._per_move:
                seat.bank = left
            seat.acted += 1
            key = float(f"{used:.2g}")
            seat.took[key] = seat.took.get(key, 0) + 1
            self._chosen[slot] = action
        return self._answered(slot)

    def say(self, slot: int, words: Sequence[Any]) -> None:
        """Let a seat say what a player's answer came with, as far as it may."""
        if self.play.talk is not None:
            self.play.talk.say_all(slot, words, tick=self.play.tick)

    def read(self, slot: int, text: str, used: float) -> tuple[Any, str]:
        """Read an action from JSON text; returns it, or why it was refused, after which there is time for another.

        Raises:
            ValueError: It is not JSON.
        """
        try:
            if len(text) > MAX_FRAME:
                raise ActionRefused(f"an act has at most {MAX_FRAME} bytes")
            if has_too_many_values(text, MAX_VALUES):
                raise ActionRefused(f"an act has at most {MAX_VALUES} values")
            return self.play.read(slot, json.loads(text)), ""
        except ActionRefused as refused:
            seat = self._seats[slot]
            if seat.used + used <= self._per_move + seat.bank:
                seat.used += used
                seat.refused += 1
                return None, refused.message
            # It comes too late, and is refused for that
            return refused, ""

    def expire(self, slot: int) -> bool:
        """A player has not answered in time, and is still thinking; returns whether all have answered."""
        seat = self._seats[slot]
        seat.bank, seat.used = 0.0, 0.0
        seat.idle += 1
        seat.late = True
        return self._answered(slot)

    def answered_late(self, slot: int, behind: float) -> None:
        """A player has answered to a tick that is over, this many seconds into the present one."""
        seat = self._seats[slot]
        seat.late = False
        seat.refused += 1
        seat.used = behind

    def lose(self, failure: SeatFailure) -> None:
        """A player's program has ended.

        With status 0 it has only left, and its turns pass; a game that everyone has left is given up in the end. After
        any other failure the game has a moment to come to its own end. It does not begin without a player.
        """
        self._seats[failure.slot].gone = True
        self._all_there = False
        left = failure.error_type == "player_left_early" and failure.connected and not failure.after
        if not left:
            self.failures.append(failure)
            self._patience = min(self._patience, self._grace)
            self.stopped = self.stopped or not failure.connected
        elif all(seat.gone for seat in self._seats):
            self._patience = min(self._patience, ABANDONED)

    def awaits(self, slot: int) -> bool:
        """Whether the answer of a seat is awaited."""
        return slot in self._turn

    def leave(self, slot: int) -> bool:
        """Let the turn of a player pass that has ended in it; returns whether all have answered."""
        if not self._waited_for(slot):
            return False
        self._seats[slot].idle += 1
        return self._answered(slot)

    @property
    def faltered(self) -> bool:
        """Whether a seat missed a turn or had an action refused."""
        return any(seat.idle or seat.refused for seat in self._seats)

    def _answered(self, slot: int) -> bool:
        self._turn.remove(slot)
        if self._turn:
            return False
        self._step()
        return True

    def _step(self) -> None:
        chosen, talk = self._chosen, self.play.talk
        self.actions.append(self.play.step(chosen, named=False))
        if talk is not None and talk.said:
            self._said[self.play.tick - 1] = talk.said
        if chosen:
            self._chosen = {}

    @property
    def behaviour(self) -> tuple[SeatBehaviour, ...]:
        """What each seat did."""
        return tuple(
            SeatBehaviour.model_construct(
                acted=seat.acted, idle=seat.idle, refused=seat.refused, seconds=tuple(sorted(seat.took.items()))
            )
            for seat in self._seats
        )

    def replay(self) -> bytes:
        """Play the same actions again, for a replay with what spectators see."""
        writer = ReplayWriter(replay_header(self._rules, self._config, self._seed))
        play = Play(self._rules, config=self._config.rules, seats=self._config.seats, seed=self._seed)
        writer.add(play.frame())
        results: Mapping[str, Any] | None = None
        reason = "stopped" if self.results is None else "over"
        try:
            for actions in self.actions:
                for one in self._said.get(play.tick, ()):
                    assert play.talk is not None
                    play.talk.say(one.seat, one.text, one.to, tick=play.tick)
                done = play.step(actions)
                writer.add(play.frame(), done)
            results = self.results
        except RulesError:
            reason = "failed"
        return writer.finish(reason=reason, results=results)
