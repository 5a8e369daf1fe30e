"""One running game: seats, clocks and spectators. Outboxes carry the messages, so the game waits for no client."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import anyio
import anyio.lowlevel

from coworld_core.documents.json_text import has_too_many_values
from coworld_core.episode.seat_event_kinds import ACTED, IDLE, REFUSED, REWARD, SAID
from coworld_core.rules import (
    ActionRefused,
    EpisodeConfig,
    Open,
    Play,
    ReplayWriter,
    Rules,
    RulesError,
    Ticks,
)
from coworld_core.rules.replay import replay_header

from .countdown import Countdown
from .greeting import about_game, hello_message, seat_schemas
from .outbox import Outbox, compact
from .sample_stream import SampleStream
from .seat_events import SeatEvents
from .seat_news import SeatNews
from .spectators import Spectators

__all__ = ["OVER", "REPLACED", "Match"]

OVER: Final = "the game is over"
REPLACED: Final = "replaced by a newer connection"

OWN_QUEUE: Final = 1.0
"""If an observation takes up to this many seconds to deliver, the delay counts as ours and the seat's clock starts
later; a longer delay counts as the client's."""

SLOW: Final = 5.0
"""Seconds without a move after which spectators are told whose moves the game is waiting for."""

_ACT_VALUES: Final = 20_000
"""Maximum number of commas and opening brackets in an act: reading it holds up the game for everyone."""

MAX_BY: Final = 40
"""Maximum length of the text in which a player says who decided."""

MAX_LINES: Final = 100
"""Maximum number of log lines for one seat."""


@dataclass
class _Seat:
    """One seat: its connection, its latest action, and its clock."""

    per_move: float
    """Seconds for each move; infinite in a game that does not wait for moves."""
    bank: float
    log: Callable[[str], None]
    outbox: Outbox | None = None
    seen: bool = False
    pictures: bool = False
    """Whether its connection is a page, which has asked for pictures."""
    action: Any = None
    by: str = ""
    """Who decided that action, if the player says it."""
    acted: bool = False
    told: int = -1
    """The tick of the newest observation in its outbox; -1 once that has been delivered."""
    shown: int = -1
    """The newest tick whose observation was handed to the network."""
    asked: float = math.inf
    """When the seat's clock for this tick started, by `time.monotonic`."""
    said: int = 0
    """Number of log lines about it."""
    news: SeatNews | None = None
    """What else it is told; None if the game tells nothing else."""

    @property
    def deadline(self) -> float:
        """The end of its time for this tick, by `time.monotonic`."""
        return self.asked + self.per_move + self.bank

    def charge(self) -> None:
        """Deduct the time that the move took beyond its own allowance from the bank."""
        used = time.monotonic() - self.asked
        self.bank = max(self.bank - max(used - self.per_move, 0.0), 0.0)

    def say(self, line: str) -> None:
        """Log a line about it; a client that keeps reconnecting must not fill the disk."""
        if self.said < MAX_LINES:
            self.said += 1
            self.log(line)


@dataclass(frozen=True)
class _Led:
    """What led to the present tick: the actions, and who decided them."""

    done: Mapping[int, Any] = field(default_factory=dict[int, Any])
    by: Mapping[int, str] = field(default_factory=dict[int, str])


class Match:
    """A game between the seats of `config`, from the first connection to the last frame.

    Args:
        rules: The game.
        config: Its config.
        seed: The seed of all random numbers.
        log: Receives log lines for people; they never contain a token.
        countdown: Seconds to count down once all players are connected, so that people do not miss the start.
        samples: Receives what each seat sees and does; None: nobody asks for that.

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
    ) -> None:
        self._rules = rules
        self._countdown = Countdown(countdown)
        self._config = config
        self._log = log
        self._schemas = seat_schemas(rules)
        self._play = Play(rules, config=config.rules, seats=config.seats, seed=seed)
        pace = config.pace
        self._clock = None if isinstance(pace, Ticks) else pace
        per_move, bank = (self._clock.per_move, self._clock.bank) if self._clock else (math.inf, 0.0)
        self._seats = [_Seat(per_move, bank, log) for _ in config.tokens]
        if rules.tell_rewards or rules.talk is not None:
            for seat in self._seats:
                seat.news = SeatNews(rewards=rules.tell_rewards)
        self._viewers = Spectators(about_game(rules, config), may_see=rules.spectators, close_reason=OVER)
        self._all_seen = anyio.Event()
        # Cleared and waited for in each turn: anyio's would have to be a new one
        self._heard = asyncio.Event()
        self._started = False
        self._end: str | None = None
        self._failure: RulesError | None = None
        self._frame = self._play.frame()
        self._writer = ReplayWriter(replay_header(rules, config, seed))
        self._led: _Led | None = _Led()
        self.events = SeatEvents(config.seats)
        self._samples = samples

    @property
    def tick(self) -> int:
        """Ticks played."""
        return self._play.tick

    # Seats and spectators

    def join(self, slot: int) -> Outbox:
        """Give a seat to a new connection; an older connection is closed.

        The game starts once every seat has been taken at some time, so a player that drops and comes back does not
        delay the others.
        """
        seat = self._seats[slot]
        if seat.outbox is not None:
            seat.outbox.finish(None, reason=REPLACED)
        outbox = seat.outbox = Outbox()
        seat.pictures = False
        seat.say(f"seat {slot} ({json.dumps(self._config.names[slot])}) {'re' * seat.seen}connected")
        seat.seen = True
        outbox.notify(hello_message(self._rules, self._config, slot, self._schemas))
        if self._end is not None:
            outbox.finish(self._end, reason=OVER)
        else:
            self._put(seat, self._observe(slot))
        if all(other.seen for other in self._seats):
            self._all_seen.set()
        return outbox

    def leave(self, slot: int, outbox: Outbox) -> None:
        """Record that the connection behind `outbox` is gone."""
        seat = self._seats[slot]
        if seat.outbox is outbox:
            seat.outbox, seat.pictures = None, False
            if self._end is None:
                seat.say(f"seat {slot} disconnected")

    def watch(self) -> Outbox:
        """Add a spectator, who gets the current state at once."""
        return self._viewers.join(self._frame, **self._countdown.told())

    def unwatch(self, outbox: Outbox) -> None:
        """Remove a spectator."""
        self._viewers.leave(outbox)

    def fail(self, error: RulesError) -> None:
        """End the game with a failure seen elsewhere: rules may fail while a new client is greeted."""
        self._failure = self._failure or error
        self._all_seen.set()
        self._heard.set()

    # Messages from players

    def delivered(self, slot: int) -> None:
        """Record that a seat's pending messages were sent: its clock does not run while we are busy."""
        seat, now = self._seats[slot], time.monotonic()
        seat.shown = self._play.tick
        if seat.told == self._play.tick and now - seat.asked < OWN_QUEUE and not seat.acted:
            seat.told, seat.asked = -1, now

    def hear(self, slot: int, message: str | bytes) -> str | None:
        """Handle a message from the player of a seat; returns the reply if it is refused."""
        try:
            return self._hear(slot, message)
        except RulesError as error:
            self.fail(error)
            return None

    def _hear(self, slot: int, message: str | bytes) -> str | None:
        seat = self._seats[slot]
        try:
            said = _read(message)
            if said["type"] == "picture":
                return self._picture(slot)
            if said["type"] == "say":
                return self._say(slot, said)
            tick, action, by = _read_act(said)
        except ValueError as error:
            return self._refused(slot, str(error))
        if self._end is not None:
            return self._refused(slot, "the game is over")
        if not self._started:
            return self._refused(slot, "the game has not begun")
        if tick != self._play.tick:
            gone = tick < self._play.tick
            return self._refused(slot, f"too late: tick {tick} is over" if gone else f"tick {tick} has not come yet")
        if seat.acted:
            return self._refused(slot, "you have acted in this tick already")
        if time.monotonic() > seat.deadline:
            return self._refused(slot, "too late: your time for this tick is over")
        try:
            seat.action = self._play.read(slot, action)
        except ActionRefused as refused:
            return self._refused(slot, refused.message)
        seat.acted, seat.by = True, by
        seat.charge()
        used = max(time.monotonic() - seat.asked, 0.0)
        self.events.add(self._play.tick, ACTED, slot, seconds=round(used, 6))
        self._heard.set()
        return None

    def _say(self, slot: int, said: dict[str, Any]) -> str | None:
        """Let a seat speak; returns why it may not."""
        tick, talk = self._play.tick, self._play.talk
        try:
            if talk is None:
                raise ActionRefused("in this game seats do not talk")
            if self._end is not None:
                raise ActionRefused("the game is over")
            message = talk.say(slot, said.get("text"), said.get("to", "all"), tick=tick)
        except ActionRefused as refused:
            return compact({"type": "say_refused", "tick": tick, "reason": refused.message})
        self.events.add(tick, SAID, slot, text=message.text, to=message.to)
        return None

    # The game

    async def play(self) -> None:
        """Wait for the players, then play to the end.

        Raises:
            RulesError: The rules fail.
            TimeoutError: No player has connected.
        """
        with anyio.move_on_after(self._config.connect_timeout):
            await self._all_seen.wait()
        if absent := [slot for slot, seat in enumerate(self._seats) if not seat.seen]:
            if len(absent) == len(self._seats):
                raise TimeoutError(f"no player has connected within {self._config.connect_timeout:g} s")
            self._log(f"starting without seat {', '.join(map(str, absent))}: never connected")
        # Until the game has started, only a failure is heard
        await self._countdown.run(self._show, self._heard)
        self._started = True
        self._log(f"game starts: {self._rules.__name__}, {self._config.seats} seats")
        due = time.monotonic()
        while not self._play.over and self._failure is None:
            self._ask()
            if self._clock is None:
                due = await self._wait_for_tick(due)
            else:
                await self._wait_for_moves()
            if self._failure is not None:
                break
            for slot in self._play.to_act:
                if not self._seats[slot].acted:
                    self.events.add(self._play.tick, IDLE, slot)
            self._record()
            views = self._samples.views(self._play) if self._samples is not None else {}
            done = self._play.step({slot: self._seats[slot].action for slot in self._play.to_act})
            self._frame = self._play.frame()
            if self._samples is not None:
                self._sample(self._samples, views, done)
            self._led = _Led(done, {slot: self._seats[slot].by for slot in done})
            self._tell_news()
        if self._failure is not None:
            raise self._failure
        for slot, seat in enumerate(self._seats):
            if seat.pictures:
                self._play.drawing(slot)
        self._log(f"game over after {self._play.tick} ticks")

    def _sample(self, samples: SampleStream, views: Mapping[int, str], done: Mapping[int, Any]) -> None:
        tick, acted = self._play.tick - 1, {slot: seat.by for slot, seat in enumerate(self._seats) if seat.acted}
        for slot in done:
            if slot not in acted and self._seats[slot].shown != tick:
                samples.miss(slot)
        samples.add(tick, views, done, acted, self._frame.rewards)

    def results(self) -> dict[str, Any]:
        """The results of a game that is over.

        Raises:
            RulesError: The rules fail.
        """
        return self._play.results()

    def replay(self, *, reason: str, results: Mapping[str, Any] | None = None) -> bytes:
        """Return the replay of the whole game, which cannot continue afterwards."""
        self._record()
        return self._writer.finish(reason=reason, results=results)

    def _record(self) -> None:
        """Add the present tick to the replay, once it has been shown to those who look."""
        if self._led is not None:
            self._writer.add(self._frame, self._led.done, by=self._led.by, drawings=self._play.drawings)
            self._led = None

    def finish(self, *, reason: str, results: Mapping[str, Any] | None = None) -> None:
        """Tell everyone that the game is over, and close every connection."""
        scores = None if results is None else results["scores"]
        self._end = compact({"type": "over", "scores": scores, "results": results, "reason": reason})
        for slot, seat in enumerate(self._seats):
            if seat.outbox is not None:
                if results is not None:
                    self._show_end(slot, seat.outbox)
                seat.outbox.finish(self._end, reason=OVER)
        self._viewers.finish(self._frame, self._end)
        if self._samples is not None:
            self._samples.finish(self._play, reason=reason, scores=scores)

    def _show_end(self, slot: int, outbox: Outbox) -> None:
        """Send a seat the outcome of its last action, if the rules report one."""
        try:
            outbox.notify(self._observe(slot))
        except RulesError as error:
            self._log(f"the last observation of seat {slot} is not available: {error.message}")

    # Asking and waiting

    def _ask(self) -> None:
        now = time.monotonic()
        for seat in self._seats:
            seat.action, seat.by, seat.acted, seat.told, seat.asked = None, "", False, self._play.tick, now
        self._show()

    def _show(self) -> None:
        """Send every seat its observation, and every spectator the state."""
        # The seats whose turn it is come first, because the game waits for them.
        for slot, seat in sorted(enumerate(self._seats), key=lambda one: one[0] not in self._play.to_act):
            if seat.outbox is not None:
                self._put(seat, self._observe(slot))
        self._viewers.show(self._frame, **self._countdown.told())

    def _put(self, seat: _Seat, observation: str) -> None:
        assert seat.outbox is not None
        if seat.news is None:
            seat.outbox.put(observation)
        else:
            seat.outbox.put(observation, seat.news.sent)

    def _tell_news(self) -> None:
        """Note what the last tick has brought to seats, beside what they see."""
        rewards = self._frame.rewards
        if rewards is not None:
            for slot, reward in enumerate(rewards):
                if reward is not None:
                    self.events.add(self._play.tick - 1, REWARD, slot, value=reward)
        talk = self._play.talk
        for slot, seat in enumerate(self._seats):
            if seat.news is not None:
                heard = () if talk is None else talk.heard(slot)
                seat.news.next_tick(None if rewards is None else rewards[slot], heard)

    async def _wait_for_moves(self) -> None:
        """Wait until every seat that is to act has acted or is out of time."""
        waited, named, turns_left = False, False, 3
        while self._failure is None and (waiting := self._waiting()):
            waited, now = True, time.monotonic()
            asked = min(seat.asked for seat in waiting.values())
            deadline = max(seat.deadline for seat in waiting.values())
            if now >= deadline:
                if not turns_left:
                    break
                # Messages that arrived while we were busy are in time.
                turns_left -= 1
                await anyio.lowlevel.checkpoint()
            elif not named and now >= asked + SLOW:
                named = True
                self._viewers.show(self._frame, waiting_for=list(waiting), waited=round(now - asked, 1))
            else:
                self._heard.clear()
                await _set_or_late(self._heard, deadline if named else min(deadline, asked + SLOW))
        if not waited:
            # Give connections a turn even when there is no need to wait.
            await anyio.lowlevel.checkpoint()
        for slot in self._play.to_act:
            seat = self._seats[slot]
            if not seat.acted and self._failure is None:
                seat.bank = 0.0
                seat.say(f"seat {slot} has missed its time in tick {self._play.tick}")

    def _waiting(self) -> dict[int, _Seat]:
        """Return the seats whose moves are awaited; a seat that never had a connection is not waited for."""
        return {slot: seat for slot in self._play.to_act if not (seat := self._seats[slot]).acted and seat.seen}

    async def _wait_for_tick(self, due: float) -> float:
        assert isinstance(self._config.pace, Ticks)
        period = 1 / self._config.pace.hz
        due += period
        # The schedule absorbs small delays. After a long one it restarts, because a burst of ticks would give the
        # players no time to answer.
        if (now := time.monotonic()) > due:
            due = now + period
        await anyio.sleep(due - now)
        return due

    # Messages

    def _observe(self, slot: int) -> str:
        seat, play = self._seats[slot], self._play
        turn = self._started and slot in play.to_act and not seat.acted
        yours = "true" if turn else "false"
        parts = [f'"type":"observe","tick":{play.tick},"your_turn":{yours},"observation":{play.observe(slot)}']
        if turn and (legal := play.legal(slot)) is not None:
            parts.append(f'"legal":[{",".join(legal)}]')
        if (text := play.text(slot)) is not None:
            parts.append(f'"text":{compact(text)}')
        if seat.news is not None and (news := seat.news.told()):
            parts.append(compact(news)[1:-1])
        if seat.pictures:
            parts.append(compact({"picture": play.drawing(slot), **self._standing(slot)})[1:-1])
        parts += [f'"{name}":{left}' for name, left in self._countdown.told().items()]
        if turn and self._clock is not None:
            left = max(seat.deadline - time.monotonic(), 0.0)
            parts.append(f'"time_left":{left:.3f}')
        return f"{{{','.join(parts)}}}"

    def _picture(self, slot: int) -> str:
        """Send a seat its drawing from now on, and return the present one.

        The answer is not another observation, which a player at the same connection might answer again.
        """
        self._seats[slot].pictures = True
        picture = {"picture": self._play.drawing(slot), **self._standing(slot)}
        return compact({"type": "picture", "tick": self._play.tick, **picture})

    def _standing(self, slot: int) -> dict[str, Any]:
        """Scores, who is to act and who is out, for a seat's page: of all seats only if spectators may see it."""
        if not isinstance(self._rules.spectators, Open):
            return self._frame.standing(slot)
        return {"to_act": self._frame.to_act, **self._frame.standing()}

    def _refused(self, slot: int, reason: str) -> str:
        if self._started and self._end is None:
            self.events.add(self._play.tick, REFUSED, slot, reason=reason)
        legal = self._play.legal(slot) if self._started and not self._seats[slot].acted else []
        told = f',"legal":[{",".join(legal)}]' if legal else ""
        return f'{{"type":"refused","tick":{self._play.tick},"reason":{compact(reason)}{told}}}'


async def _set_or_late(event: asyncio.Event, when: float) -> None:
    """Wait for an event until a given time; the event is set at that time, too."""
    # A cancel scope for each move would take longer than most rules do.
    timer = asyncio.get_running_loop().call_later(when - time.monotonic(), event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()


def _read(message: str | bytes) -> dict[str, Any]:
    """Return a player's message, whose `type` is one that players may send.

    Raises:
        ValueError: It is not such a message; the text says why.
    """
    if has_too_many_values(message, _ACT_VALUES):
        raise ValueError(f"an act has at most {_ACT_VALUES} values")
    try:
        value: Any = json.loads(message)
    # Deeply nested input exhausts the parser's stack, and Python refuses numbers with very many digits.
    except (ValueError, RecursionError):
        raise ValueError("the message is not JSON") from None
    said = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if said.get("type") not in ("act", "picture", "say"):
        raise ValueError('send {"type": "act", "tick": …, "action": …}')
    return said


def _read_act(said: dict[str, Any]) -> tuple[int, Any, str]:
    """Return the tick and the action of an `act`, and who decided it, if it says so.

    Raises:
        ValueError: The message is not valid; the text says why.
    """
    tick = said.get("tick")
    if not isinstance(tick, int) or isinstance(tick, bool) or "action" not in said:
        raise ValueError("an act has a tick, which is a whole number, and an action")
    by = said.get("by", "")
    if not isinstance(by, str) or len(by) > MAX_BY:
        raise ValueError(f"an act's by is a text of at most {MAX_BY} characters")
    return tick, said["action"], by
