"""One running game: seats, spectators, and a clock that no client can delay."""

import asyncio
import json
import math
from dataclasses import dataclass
from typing import Final, Literal

import anyio

from coworld_core.episode import ACTED, IDLE, REFUSED
from coworld_core.rules import RulesError
from coworld_runner.kit.server import Countdown, Outbox
from coworld_runner.kit.table import SeatEvents
from paintarena.config import Config, Json, is_tick_rate
from paintarena.logs import Log
from paintarena.rules import Board, action_from

LEAD_IN: Final = 0.5
"""Seconds between the start and the first tick: time for first moves to arrive, and for people to look."""

OVER: Final = "the game is over"
REPLACED: Final = "replaced by a newer connection"


@dataclass
class _Seat:
    """One slot: the outbox of its current connection, and whether it was ever connected."""

    outbox: Outbox | None = None
    seen: bool = False
    moved: bool = False
    """Whether it has sent a move since the last tick."""


@dataclass
class Lateness:
    """Counts ticks that were late by more than a whole tick period.

    Attributes:
        ticks: Number of late ticks.
        worst: The largest delay in seconds.
    """

    ticks: int = 0
    worst: float = 0.0

    def note(self, delay: float, *, period: float) -> bool:
        """Count a tick if it is late by more than `period`, and return whether it is; both are in seconds."""
        if delay <= period:
            return False
        self.ticks += 1
        self.worst = max(self.worst, delay)
        return True


class Match:
    """A game between the players of `config`, from the first connection to the last frame.

    Each state is serialised once and put into every client's outbox, so the game never waits for a client.

    Args:
        config: The checked config.
        log: Receives a line for each join and leave, the start and the end.
        countdown: Seconds to count down once all players are connected, so that people see the start.

    Attributes:
        events: Which slots sent a move before each tick.
    """

    def __init__(self, config: Config, *, log: Log, countdown: float = 0.0) -> None:
        self._config = config
        self._countdown = Countdown(countdown)
        self._log = log
        self._board = Board(config.width, config.height, slots=len(config.tokens))
        self._seats = [_Seat() for _ in config.tokens]
        self._viewers: set[Outbox] = set()
        self._frames: list[bytes] = []
        self._all_seen = anyio.Event()
        self._changed = anyio.Event()
        self._started = False
        self._paused = False
        self._done = False
        self._rate = config.tick_rate
        self.lateness = Lateness()
        self.events = SeatEvents(len(config.tokens))

    # Seats and spectators

    def join(self, slot: int) -> Outbox:
        """Return a new outbox for a new connection of `slot`; an older connection is closed.

        The game starts once every slot has been connected at some time, so a player that drops and comes back does
        not delay the others; its held action stays in effect meanwhile.
        """
        seat = self._seats[slot]
        if seat.outbox is not None:
            seat.outbox.finish(None, reason=REPLACED)
        outbox = seat.outbox = Outbox()
        self._log.line(f"slot {slot} ({json.dumps(self._config.names[slot])}) {'re' * seat.seen}connected")
        seat.seen = True
        if self._done:
            outbox.finish(self._seat_state(slot, self._snapshot(), kind="final"), reason=OVER)
        else:
            outbox.put(self._seat_state(slot, self._snapshot()))
        if all(other.seen for other in self._seats):
            self._all_seen.set()
        return outbox

    def leave(self, slot: int, outbox: Outbox) -> None:
        """Note that the connection behind `outbox` is gone."""
        seat = self._seats[slot]
        if seat.outbox is outbox:
            seat.outbox = None
            if not self._done:
                self._log.line(f"slot {slot} disconnected")

    def watch(self) -> Outbox:
        """Add a spectator and return its outbox, which already holds the current state."""
        outbox = Outbox()
        if self._done:
            outbox.finish(self._text(self._snapshot()), reason=OVER)
        else:
            outbox.put(self._text(self._snapshot()))
            self._viewers.add(outbox)
        return outbox

    def unwatch(self, outbox: Outbox) -> None:
        """Remove a spectator."""
        self._viewers.discard(outbox)

    def delivered(self, slot: int) -> None:
        """Do nothing: this game does not measure the time of a seat."""

    def fail(self, error: RulesError) -> None:
        """Do nothing; never called, because these rules accept any action."""

    # Messages from clients

    def receive(self, slot: int, message: str | bytes) -> str | None:
        """Handle a message of the player of `slot`; return an error message if it is invalid.

        `{"move": "up" | "down" | "left" | "right" | "stay"}` changes the held action. Any other word counts
        as `stay`.
        """
        payload = _object(message)
        move = payload.get("move") if payload is not None else None
        if isinstance(move, str):
            self._board.hold(slot, action_from(move))
            self._seats[slot].moved = True
            return None
        self.events.add(self._board.tick, REFUSED, slot)
        if payload is None:
            return _error('not understood: send a JSON object such as {"move": "up"}')
        if "move" not in payload:
            return _error('not understood: the message has no "move"')
        return _error("not understood: move must be one of up, down, left, right, stay")

    def hear_admin(self, message: str | bytes) -> str:
        """Execute an admin command and return the answer: a snapshot, or an error."""
        payload = _object(message)
        command = payload.get("command") if payload is not None else None
        match command:
            case "pause":
                self._paused = True
            case "resume":
                self._paused = False
            case "tick_rate":
                rate = payload.get("tick_rate") if payload is not None else None
                if not is_tick_rate(rate) or not isinstance(rate, int | float):
                    return _error("tick_rate must be a number above 0 and at most 60")
                self._rate = float(rate)
            case _:
                return _error("not understood: command must be pause, resume or tick_rate")
        self._changed.set()
        text = self._snapshot()
        self._tell_viewers(text)
        return self._text(text)

    # The game

    async def play(self) -> None:
        """Wait for the players, then play every tick; returns after the last one."""
        with anyio.move_on_after(self._config.connect_timeout):
            await self._all_seen.wait()
        absent = [slot for slot, seat in enumerate(self._seats) if not seat.seen]
        if absent:
            self._log.line(f"starting without slot {', '.join(map(str, absent))}: never connected")
        await self._countdown.run(lambda: self._tell_everybody(self._snapshot()), asyncio.Event())
        self._started = True
        self._log.line(
            f"game starts: {self._config.width}x{self._config.height}, "
            f"{self._config.max_ticks} ticks at {self._rate:g} per second"
        )
        self._tell_viewers(self._snapshot())
        due = anyio.current_time() + LEAD_IN
        while self._board.tick < self._config.max_ticks:
            if await self._interrupted(math.inf if self._paused else due - anyio.current_time()):
                due = anyio.current_time() + 1 / self._rate
                continue
            period = 1 / self._rate
            late = self.lateness.note(anyio.current_time() - due, period=period)
            for slot, seat in enumerate(self._seats):
                self.events.add(self._board.tick, ACTED if seat.moved else IDLE, slot)
                seat.moved = False
            self._board.step()
            text = self._snapshot()
            self._frames.append(self._text(text).encode())
            self._tell_everybody(text)
            # Ticks are due at fixed times, so small delays do not add up. After a long delay the schedule starts
            # afresh, because a burst of ticks would give the players no time to answer.
            due = (anyio.current_time() if late else due) + period
        self._log.line(f"game over: scores {list(self._board.scores)} after {self._board.tick} ticks")

    def finish(self) -> None:
        """End the game: players get `final`, spectators a last snapshot, and all connections are closed."""
        self._done = True
        text = self._snapshot()
        for slot, seat in enumerate(self._seats):
            if seat.outbox is not None:
                seat.outbox.finish(self._seat_state(slot, text, kind="final"), reason=OVER)
        for viewer in list(self._viewers):
            viewer.finish(self._text(text), reason=OVER)

    def results(self) -> bytes:
        """Return the results as JSON; the score of a slot is the number of tiles it owns."""
        return _json(self._results()).encode()

    def replay(self) -> bytes:
        """Return the replay as JSON: config without tokens, names, frames and results."""
        head = _json({"config": self._config.public, "player_names": list(self._config.names)})
        pieces = [head[:-1].encode(), b',"frames":[', b",".join(self._frames), b'],"results":', self.results(), b"}"]
        return b"".join(pieces)

    def _results(self) -> dict[str, Json]:
        scores = self._board.scores
        return {"scores": [float(s) for s in scores], "painted_tiles": list(scores), "ticks": self._board.tick}

    async def _interrupted(self, seconds: float) -> bool:
        """Wait for `seconds`; return True early if an admin command arrives meanwhile."""
        self._changed = anyio.Event()
        with anyio.move_on_after(max(seconds, 0)):
            await self._changed.wait()
            return True
        return False

    def _tell_everybody(self, text: str) -> None:
        for slot, seat in enumerate(self._seats):
            if seat.outbox is not None:
                seat.outbox.put(self._seat_state(slot, text))
        self._tell_viewers(text)

    def _tell_viewers(self, text: str) -> None:
        state = self._text(text)
        for viewer in list(self._viewers):
            viewer.put(state)

    def _snapshot(self) -> str:
        """Serialise the state without its opening brace and `type`, which depend on the receiver."""
        state = {
            **self._board.state(),
            "player_names": list(self._config.names),
            "max_ticks": self._config.max_ticks,
            "started": self._started,
            "paused": self._paused,
            "tick_rate": self._rate,
            "done": self._done,
            **self._countdown.fields(),
        }
        return _json(state)[1:]

    @staticmethod
    def _text(snapshot: str) -> str:
        return f'{{"type":"state",{snapshot}'

    @staticmethod
    def _seat_state(slot: int, snapshot: str, *, kind: Literal["observation", "final"] = "observation") -> str:
        return f'{{"type":"{kind}","slot":{slot},{snapshot}'


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _error(message: str) -> str:
    return _json({"type": "error", "message": message})


def _object(message: str | bytes) -> dict[str, Json] | None:
    try:
        value: Json = json.loads(message)
    # A deeply nested message exhausts the parser's stack.
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
