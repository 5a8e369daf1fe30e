"""One running game: its table, fed from connections. Outboxes carry the messages, so the game waits for no client."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
import anyio.lowlevel

from coworld_core.rules import EpisodeConfig, Rules, RulesError

from ..table.compact_json import compact
from ..table.game_table import GameTable
from ..table.greeting import about_game, hello_message, seat_schemas
from ..table.seat_events import SeatEvents
from .countdown import Countdown
from .outbox import Outbox
from .sample_stream import SampleStream
from .spectators import Spectators

__all__ = ["OVER", "REPLACED", "Match"]

OVER: Final = "the game is over"
REPLACED: Final = "replaced by a newer connection"

SLOW: Final = 5.0
"""Seconds without a move after which spectators are told whose moves the game is waiting for."""

MAX_LINES: Final = 100
"""Maximum number of log lines for one seat: a client that keeps reconnecting must not fill the disk."""


class Match:
    """A game between the seats of `config`, from the first connection to the last frame.

    Args:
        rules: The game.
        config: Its config.
        seed: The seed of all random numbers.
        log: Receives log lines for people; they never contain a token.
        countdown: Seconds to count down once all players are connected, so that people do not miss the start.
        samples: Receives what each seat sees and does; None: nobody asks for that.
        rematch: Whether another game follows on the same links; pages then offer it.

    Attributes:
        events: What each seat did.

    Raises:
        RulesError: The rules fail at the start of the game.
    """

    def __init__(
        self,
        rules: type[Rules],
        config: EpisodeConfig,
        *,
        seed: int,
        log: Callable[[str], None],
        countdown: float = 0.0,
        samples: SampleStream | None = None,
        rematch: bool = False,
    ) -> None:
        self._rules = rules
        self._config = config
        self._log = log
        self._lines = [0] * config.seats
        self._countdown = Countdown(countdown)
        offers = {"rematch": True} if rematch else {}
        self._schemas = {**seat_schemas(rules), **offers}
        self.events = SeatEvents(config.seats)
        self._table = GameTable(rules, config, seed=seed, log=self.events, samples=samples)
        self._outboxes: list[Outbox | None] = [None] * config.seats
        self._seen: set[int] = set()
        """The seats that have had a connection."""
        about = {**about_game(rules, config, self._table.play.pace), **offers}
        self._viewers = Spectators(about, may_see=rules.spectators, close_reason=OVER)
        self._all_seen = anyio.Event()
        # Cleared and waited for in each turn: anyio's would have to be a new one
        self._heard = asyncio.Event()
        self._end: str | None = None
        self._failure: RulesError | None = None

    @property
    def tick(self) -> int:
        """Ticks played."""
        return self._table.play.tick

    # Seats and spectators

    def join(self, slot: int) -> Outbox:
        """Give a seat to a new connection; an older connection is closed.

        The game starts once every seat has been taken at some time, so a player that drops and comes back does not
        delay the others.
        """
        older = self._outboxes[slot]
        if older is not None:
            older.finish(None, reason=REPLACED)
        outbox = self._outboxes[slot] = Outbox()
        talked = self._table.join(slot)
        self._say(slot, f"seat {slot} ({json.dumps(self._config.names[slot])}) {'re' * (slot in self._seen)}connected")
        arrives = slot not in self._seen and not self._table.started
        self._seen.add(slot)
        outbox.notify(hello_message(self._rules, self._config, slot, self._schemas, self._table.play.pace, talked))
        if arrives:
            self._show_pages(slot)
        if self._end is not None:
            outbox.finish(self._end, reason=OVER)
        else:
            self._put(slot, outbox)
        if len(self._seen) == len(self._outboxes):
            self._all_seen.set()
        return outbox

    def leave(self, slot: int, outbox: Outbox) -> None:
        """Record that the connection behind `outbox` is gone."""
        if self._outboxes[slot] is outbox:
            self._outboxes[slot] = None
            self._table.leave(slot)
            if self._end is None:
                self._say(slot, f"seat {slot} disconnected")

    def watch(self) -> Outbox:
        """Add a spectator, who gets the current state at once."""
        return self._viewers.join(self._table.frame, **self._present())

    def unwatch(self, outbox: Outbox) -> None:
        """Remove a spectator."""
        self._viewers.leave(outbox)

    def fail(self, error: RulesError) -> None:
        """End the game with a failure seen elsewhere: rules may fail while a new client is greeted."""
        self._failure = self._failure or error
        self._all_seen.set()
        self._heard.set()

    def delivered(self, slot: int) -> None:
        """Record that a seat's pending messages were sent."""
        self._table.delivered(slot, time.monotonic())

    def receive(self, slot: int, message: str | bytes) -> str | None:
        """Handle a message from the player of a seat; returns the reply if it is refused."""
        acted = self._table.acted
        try:
            reply = self._table.receive(slot, message, time.monotonic())
        except RulesError as error:
            self.fail(error)
            return None
        if self._table.acted != acted and self._table.missing():
            self._tell_acted(slot)
        if reply is None:
            self._heard.set()
        if (said := self._table.said) is not None:
            self._table.said = None
            # The next observation tells it again, so that nothing can be lost
            words = compact({"type": "heard", "heard": [said.fields()]})
            for hearer in said.hearers:
                if (outbox := self._outboxes[hearer]) is not None:
                    outbox.notify(words)
            self._viewers.hear(said, self._table.frame)
        return reply

    # The game

    async def play(self) -> None:
        """Wait for the players, then play to the end.

        Raises:
            RulesError: The rules fail.
            TimeoutError: No player has connected.
        """
        table = self._table
        with anyio.move_on_after(self._config.connect_timeout):
            await self._all_seen.wait()
        if absent := [slot for slot in range(self._config.seats) if slot not in self._seen]:
            if not self._seen:
                raise TimeoutError(f"no player has connected within {self._config.connect_timeout:g} s")
            self._log(f"starting without seat {', '.join(map(str, absent))}: never connected")
        # Until the game has started, only a failure is heard
        await self._countdown.run(self._show, self._heard)
        self._log(f"game starts: {self._rules.__name__}, {self._config.seats} seats")
        table.begin(time.monotonic())
        while not table.play.over and self._failure is None:
            table.ask(time.monotonic())
            self._show()
            now = time.monotonic()
            due = table.due(now)
            if due is None:
                await self._wait_for_moves()
            else:
                await anyio.sleep(due - now)
            if self._failure is not None:
                break
            table.step()
        if self._failure is not None:
            raise self._failure
        table.draw_last()
        self._log(f"game over after {self.tick} ticks")

    def results(self) -> dict[str, Any]:
        """The results of a game that is over.

        Raises:
            RulesError: The rules fail.
        """
        return self._table.results()

    def replay(self, *, reason: str, results: Mapping[str, Any] | None = None) -> bytes:
        """Return the replay of the whole game, which cannot continue afterwards."""
        return self._table.replay(reason=reason, results=results)

    def finish(self, *, reason: str, results: Mapping[str, Any] | None = None) -> None:
        """Tell everyone that the game is over, and close every connection."""
        self._end = self._table.finish(reason=reason, results=results)
        for slot, outbox in enumerate(self._outboxes):
            if outbox is not None:
                if results is not None:
                    self._show_end(slot, outbox)
                outbox.finish(self._end, reason=OVER)
        self._viewers.finish(self._table.frame, self._end)

    def _show_end(self, slot: int, outbox: Outbox) -> None:
        """Send a seat the outcome of its last action, if the rules report one."""
        try:
            outbox.notify(self._observe(slot))
        except RulesError as error:
            self._log(f"the last observation of seat {slot} is not available: {error.message}")

    def _show(self) -> None:
        """Send every seat its observation, and every spectator the state."""
        # The seats whose turn it is come first, because the game waits for them.
        for slot in sorted(range(self._config.seats), key=lambda slot: slot not in self._table.play.to_act):
            outbox = self._outboxes[slot]
            if outbox is not None:
                self._put(slot, outbox)
        self._viewers.show(self._table.frame, **self._present())

    def _before(self) -> dict[str, Any]:
        """What is told before the game begins: for whom it waits, or when it starts."""
        if self._table.started:
            return {}
        absent = sorted(set(range(self._config.seats)) - self._seen)
        return {**self._countdown.fields(), **({"absent": absent} if absent else {})}

    def _present(self) -> dict[str, Any]:
        """What spectators are told of the present moment besides."""
        acted = self._table.acted
        return {**self._before(), **({"acted": acted} if acted else {})}

    def _show_pages(self, newcomer: int) -> None:
        """Show pages that a player has come; programs have no use for it."""
        for slot, outbox in enumerate(self._outboxes):
            if outbox is not None and slot != newcomer and self._table.has_page(slot):
                self._put(slot, outbox)
        self._viewers.show(self._table.frame, **self._present())

    def _tell_acted(self, actor: int) -> None:
        """Tell pages and spectators who has acted in this tick, and not what."""
        message = compact({"type": "acted", "tick": self.tick, "acted": self._table.acted})
        for slot, outbox in enumerate(self._outboxes):
            if outbox is not None and slot != actor and self._table.has_page(slot):
                outbox.notify(message)
        self._viewers.show(self._table.frame, **self._present())

    def _put(self, slot: int, outbox: Outbox) -> None:
        news = self._table.news(slot)
        outbox.put(self._observe(slot), None if news is None else news.sent)

    def _observe(self, slot: int) -> str:
        return self._table.observe(slot, time.monotonic(), self._before())

    def _say(self, slot: int, line: str) -> None:
        """Log a line about a seat."""
        if self._lines[slot] < MAX_LINES:
            self._lines[slot] += 1
            self._log(line)

    async def _wait_for_moves(self) -> None:
        """Wait until every seat that is to act has acted or is out of time."""
        table = self._table
        waited, named, turns_left = False, False, 3
        while self._failure is None and (waiting := self._waiting()):
            waited, now = True, time.monotonic()
            asked = min(map(table.asked, waiting))
            deadline = max(map(table.time_ends, waiting))
            if now >= deadline:
                if not turns_left:
                    break
                # Messages that arrived while we were busy are in time.
                turns_left -= 1
                await anyio.lowlevel.checkpoint()
            elif not named and now >= asked + SLOW:
                named = True
                self._viewers.show(table.frame, **self._present(), waiting_for=waiting, waited=round(now - asked, 1))
            else:
                self._heard.clear()
                await _set_or_late(self._heard, deadline if named else min(deadline, asked + SLOW))
        if not waited:
            # Give connections a turn even when there is no need to wait.
            await anyio.lowlevel.checkpoint()
        if self._failure is None:
            for slot in table.missing():
                self._say(slot, f"seat {slot} has missed its time in tick {self.tick}")

    def _waiting(self) -> list[int]:
        """The seats whose moves are awaited; a seat that never had a connection is not waited for."""
        return [slot for slot in self._table.missing() if slot in self._seen]


async def _set_or_late(event: asyncio.Event, when: float) -> None:
    """Wait for an event until a given time; the event is set at that time, too."""
    # A cancel scope for each move would take longer than most rules do.
    timer = asyncio.get_running_loop().call_later(when - time.monotonic(), event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()
