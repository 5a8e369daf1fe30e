"""One game between seats, without I/O and without a clock of its own.

Messages and times go in; what to answer, whose turn it is and when to wake up come out. A time is a number of seconds
of any clock that its user reads or counts: a served game reads a monotonic clock, worker processes count what players
have used, and a rollout always says 0.

The order of calls in a tick is `ask`, what seats do, `step`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from coworld_core.episode.seat_event_kinds import IDLE, REFUSED, REWARD, SAID
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
from coworld_core.rules.seat_talk import SeatMessage

from .compact_json import compact
from .sample_lines import SampleLines
from .seat_events import SeatLog
from .seat_messages import read_act, read_message
from .seat_news import SeatNews

__all__ = ["Done", "GameTable", "Keep", "replay_of"]

Keep = Literal["replay", "actions", "nothing"]
"""What a table keeps of a game: its replay as it is shown; only what was done, from which a replay can be made; or
nothing."""

Done = tuple[dict[int, Any], Sequence[SeatMessage]]
"""What was done in a tick: the actions of its seats, and what they said."""

SLOW_TICK: Final = 2.0
"""Seconds of a tick from which on a seat is told how much of it is left."""

OWN_QUEUE: Final = 1.0
"""If an observation takes up to this many seconds to deliver, the delay counts as ours and the seat's clock starts
later; a longer delay counts as the client's."""


@dataclass(slots=True)
class _Seat:
    spent: float = 0.0
    """Seconds used beyond those of each move."""
    pictures: bool = False
    """Whether it is shown on a page, which has asked for pictures."""
    shown: int = -1
    """The newest tick whose observation was delivered."""
    news: SeatNews | None = None
    """What else it is told; None if the game tells nothing else."""


class GameTable:
    """A game between the seats of `config`.

    Args:
        rules: The game.
        config: Its config.
        seed: The seed of all random numbers.
        keep: What is kept of the game.
        log: Notes what each seat did; None: nobody asks for that.
        samples: Collects what each seat sees and does; None: likewise.
        new_chance: As for `Play`.

    Attributes:
        play: The game.
        started: Whether seats may act.
        actions: What seats have chosen in this tick.
        said: What was said last, until those who hear it are told.
        frame: The spectators' view, if a replay is kept.

    Raises:
        RulesError: The rules fail, as in any method.
    """

    def __init__(
        self,
        rules: type[Rules],
        config: EpisodeConfig,
        *,
        seed: int,
        keep: Keep = "replay",
        log: SeatLog | None = None,
        samples: SampleLines | None = None,
        new_chance: Mapping[int, int] | None = None,
    ) -> None:
        self._tells_acted = isinstance(rules.spectators, Open) or "to_act" in rules.public
        self._rules = rules
        self._config = config
        self._seed = seed
        self._new_chance = new_chance
        self._log = log
        self._samples = samples
        self.play = Play(
            rules,
            config=config.rules,
            seats=config.seats,
            seed=seed,
            names=config.names,
            pace=config.pace,
            new_chance=new_chance,
        )
        self.started = False
        self.actions: dict[int, Any] = {}
        self.said: SeatMessage | None = None
        self._over = ""
        """The message that the game is over, once it is."""
        self._seats = [_Seat() for _ in range(config.seats)]
        self._take_pace(0.0)
        self._asked: dict[int, float] = {}
        """When the clocks of those started that are to act."""
        self._delivered: set[int] = set()
        """Those of them whose observation was delivered in time."""
        self._by: dict[int, str] = {}
        self._history: list[Done] | None = [] if keep == "actions" else None
        self._writer: ReplayWriter | None = None
        self._led: tuple[Mapping[int, Any], Mapping[int, str]] | None = None
        """What led to the present tick, the actions and who decided them, until the replay has it."""
        if keep == "replay":
            self.frame = self.play.frame()
            self._writer = ReplayWriter(replay_header(rules, config, seed, self.play.pace, new_chance))
            self._led = ({}, {})
            if rules.tell_rewards or rules.talk is not None:
                for slot, seat in enumerate(self._seats):
                    seat.news = SeatNews(slot, rewards=rules.tell_rewards, talk=self.play.talk)

    # Time

    def _take_pace(self, at: float) -> None:
        """Go on at the pace of the present phase from some time on."""
        pace = self._pace = self.play.pace
        self._due = at
        self._period = 1 / pace.hz if isinstance(pace, Ticks) else None
        self._per_move, self._bank = (math.inf, 0.0) if isinstance(pace, Ticks) else (pace.per_move, pace.bank)

    @property
    def ticks(self) -> bool:
        """Whether this tick ends by itself, and does not wait for moves."""
        return self._period is not None

    @property
    def sure(self) -> float:
        """The seconds of a tick that every seat has, whatever it has used before."""
        return self._per_move if self._period is None else self._period

    def begin(self, at: float) -> None:
        """Let the seats act from now on."""
        self.started, self._due = True, at

    def ask(self, at: float) -> tuple[int, ...]:
        """Begin a tick: the clocks of the seats start that are to act; returns these seats."""
        turn = self.play.to_act
        if self.play.pace is not self._pace and self.play.pace != self._pace:
            self._take_pace(at)
        self._asked = dict.fromkeys(turn, at)
        if self.actions:
            self.actions = {}
        if self._delivered:
            self._delivered = set()
        if self._period is not None:
            self._due += self._period
        return turn

    def delivered(self, slot: int, at: float) -> None:
        """Record that the observation of a seat was sent: its clock does not run while we are busy."""
        self._seats[slot].shown = self.play.tick
        if slot in self._delivered or slot in self.actions:
            return
        if at - self._asked.get(slot, -math.inf) < OWN_QUEUE:
            self._delivered.add(slot)
            self._asked[slot] = at

    def asked(self, slot: int) -> float:
        """When the clock of a seat started that is to act."""
        return self._asked[slot]

    def time_ends(self, slot: int) -> float:
        """When the time ends that a seat has for this tick."""
        if self._period is not None:
            return self._due
        return self._asked[slot] + self._per_move + max(self._bank - self._seats[slot].spent, 0.0)

    def due(self, at: float) -> float | None:
        """When this tick ends, in a game that does not wait for moves; to be asked once observations are sent."""
        # The schedule absorbs small delays. After a long one it restarts, because a burst of ticks would give the
        # players no time to answer.
        if self._period is not None and at > self._due:
            self._due = at + self._period
        return None if self._period is None else self._due

    @property
    def acted(self) -> list[int]:
        """The seats that have acted in this tick, if the game waits for all that are to act and they are no secret."""
        return sorted(self.actions) if self._tells_acted and self._period is None else []

    def missing(self) -> list[int]:
        """The seats that are to act and have not."""
        return [slot for slot in self.play.to_act if slot not in self.actions]

    # What seats do

    def receive(self, slot: int, message: str | bytes, at: float) -> str | None:
        """Take in a message of a seat; returns the reply, if there is one."""
        try:
            said = read_message(message)
            if said["type"] == "picture":
                return self._picture(slot)
            if said["type"] == "say":
                return self._spoken(slot, said)
            tick, action, by = read_act(said)
        except ValueError as error:
            return self._refused(slot, str(error))
        if self._over:
            return self._refused(slot, "the game is over")
        if not self.started:
            return self._refused(slot, "the game has not begun")
        if tick != self.play.tick:
            gone = tick < self.play.tick
            return self._refused(slot, f"too late: tick {tick} is over" if gone else f"tick {tick} has not come yet")
        reason = self.act(slot, action, at, by)
        return self._refusal(slot, reason) if reason else None

    def act(self, slot: int, value: Any, at: float, by: str = "") -> str:
        """Let a seat act in this tick.

        Args:
            slot: The seat.
            value: The action as JSON.
            at: The time.
            by: Who decided, if the player says it.

        Returns:
            Why the action is refused; empty if it is not.
        """
        if slot in self.actions:
            return self.refuse(slot, "you have acted in this tick already")
        if slot in self._asked and self._period is None and at > self.time_ends(slot):
            return self.refuse(slot, "too late: your time for this tick is over")
        try:
            action = self.play.read(slot, value)
        except ActionRefused as refused:
            return self.refuse(slot, refused.message)
        self.choose(slot, action, at, by)
        return ""

    def choose(self, slot: int, action: Any, at: float, by: str = "") -> None:
        """Take in an action that the rules have offered or read, of a seat that has time for it."""
        self.actions[slot] = action
        if by:
            self._by[slot] = by
        used = at - self._asked[slot]
        if used > self._per_move:
            self._seats[slot].spent += used - self._per_move
        if self._log is not None:
            self._log.acted(self.play.tick, slot, used if used > 0.0 else 0.0)

    def refuse(self, slot: int, reason: str) -> str:
        """Note that an action of a seat was refused; returns the reason."""
        if self._log is not None and self.started and not self._over:
            self._log.add(self.play.tick, REFUSED, slot, reason=reason)
        return reason

    def say(self, slot: int, messages: Iterable[Any]) -> None:
        """Let a seat say what its decision came with, as far as it may: pairs of a text and whom it is for."""
        if self.play.talk is not None:
            self.play.talk.say_all(slot, messages, tick=self.play.tick)

    # The game

    def step(self, actions: dict[int, Any] | None = None) -> None:
        """End the tick; a seat that has not acted loses its time, and the rules say what it does.

        Args:
            actions: What is done instead of what seats have chosen, by seat; None for a seat that misses its turn.
        """
        play, log, samples = self.play, self._log, self._samples
        if actions is None:
            actions = self.actions
            for slot in self.missing() if len(actions) < len(self._asked) else ():
                self._seats[slot].spent = max(self._seats[slot].spent, self._bank)
                if log is not None:
                    log.add(play.tick, IDLE, slot)
        live = self._writer is not None
        if live:
            self._record()
        views = samples.views(play) if samples is not None else {}
        done = play.step(actions, named=live)
        if self._history is not None:
            self._history.append((done, () if play.talk is None else play.talk.messages))
        if live:
            self.frame = play.frame()
            if samples is not None:
                self._sample(samples, views, done)
            self._led, self._by = (done, self._by), {}
            self._tell_news()

    def results(self) -> dict[str, Any]:
        """The results of a game that is over."""
        return self.play.results()

    def replay(self, *, reason: str, results: Mapping[str, Any] | None = None) -> bytes:
        """Return the replay of the game so far, which cannot continue afterwards.

        Args:
            reason: Why it has ended; `over` if it was played to its end.
            results: Its results, if there are any.
        """
        if self._writer is not None:
            self._record()
            return self._writer.finish(reason=reason, results=results)
        return replay_of(
            self._rules,
            self._config,
            self._history or (),
            seed=self._seed,
            new_chance=self._new_chance,
            reason=reason,
            results=results,
        )

    def finish(self, *, reason: str, results: Mapping[str, Any] | None = None) -> str:
        """End the game; returns the message that says so."""
        scores = None if results is None else results["scores"]
        self._over = compact({"type": "over", "scores": scores, "results": results, "reason": reason})
        if self._samples is not None:
            self._samples.finish(self.play, reason=reason, scores=scores)
        return self._over

    def _record(self) -> None:
        """Add the present tick to the replay, once it has been shown to those who look."""
        if self._led is not None:
            done, by = self._led
            assert self._writer is not None
            self._writer.add(self.frame, done, by=by, drawings=self.play.drawings)
            self._led = None

    def _sample(self, samples: SampleLines, views: Mapping[int, str], done: Mapping[int, Any]) -> None:
        tick, acted = self.play.tick - 1, {slot: self._by.get(slot, "") for slot in self.actions}
        for slot in done:
            if slot not in acted and self._seats[slot].shown != tick:
                samples.miss(slot)
        samples.add(tick, views, done, acted, self.frame.rewards)

    def _tell_news(self) -> None:
        """Note what the last tick has brought to seats, beside what they see."""
        rewards = self.frame.rewards
        if rewards is not None and self._log is not None:
            for slot, reward in enumerate(rewards):
                if reward is not None:
                    self._log.add(self.play.tick - 1, REWARD, slot, value=reward)
        for slot, seat in enumerate(self._seats):
            if seat.news is not None:
                seat.news.next_tick(None if rewards is None else rewards[slot])

    # Messages to seats

    def join(self, slot: int) -> list[dict[str, Any]]:
        """Give a seat to a new connection; returns what it has heard and said that no observation will tell it."""
        seat = self._seats[slot]
        seat.pictures = False
        return [] if seat.news is None else seat.news.talked(over=bool(self._over))

    def leave(self, slot: int) -> None:
        """Record that a seat has no connection, so that nobody looks at its pictures."""
        self._seats[slot].pictures = False

    def has_page(self, slot: int) -> bool:
        """Whether a seat is shown on a page."""
        return self._seats[slot].pictures

    def news(self, slot: int) -> SeatNews | None:
        """What else a seat is told with its observations; None if the game tells nothing else."""
        return self._seats[slot].news

    def observe(self, slot: int, at: float, more: Mapping[str, Any] | None = None) -> str:
        """The observation of a seat, as the text of a message.

        Args:
            slot: The seat.
            at: The time.
            more: Further fields.
        """
        seat, play = self._seats[slot], self.play
        turn = self.started and slot in play.to_act and slot not in self.actions
        yours = "true" if turn else "false"
        parts = [f'"type":"observe","tick":{play.tick},"your_turn":{yours},"observation":{play.observe(slot)}']
        if turn and (legal := play.legal(slot)) is not None:
            parts.append(f'"legal":[{",".join(legal)}]')
        if (text := play.text(slot)) is not None:
            parts.append(f'"text":{compact(text)}')
        if seat.news is not None and (news := seat.news.fields()):
            parts.append(compact(news)[1:-1])
        if seat.pictures:
            parts.append(compact({"picture": play.drawing(slot), **self._standing(slot)})[1:-1])
        if more:
            parts.append(compact(more)[1:-1])
        if play.phased:
            parts.append(compact({"pace": play.pace.describe()})[1:-1])
        if turn and (self._period is None or self._period >= SLOW_TICK):
            left = max(self.time_ends(slot) - at, 0.0)
            parts.append(f'"time_left":{left:.3f}')
        return f"{{{','.join(parts)}}}"

    def draw_last(self) -> None:
        """Draw the end for the seats that are shown on pages, so that it is in the replay."""
        for slot, seat in enumerate(self._seats):
            if seat.pictures:
                self.play.drawing(slot)

    def _picture(self, slot: int) -> str:
        """Send a seat its drawing from now on, and return the present one, with what it has heard and said up to now.

        The answer is not another observation, which a player at the same connection might answer again.
        """
        seat = self._seats[slot]
        seat.pictures = True
        picture = {"picture": self.play.drawing(slot), **self._standing(slot)}
        if seat.news is not None and (talked := seat.news.log()):
            picture["talked"] = talked
        return compact({"type": "picture", "tick": self.play.tick, **picture})

    def _standing(self, slot: int) -> dict[str, Any]:
        """What a seat's page is told of the seats."""
        return {**self.play.standing(slot), **({"acted": self.acted} if self.acted else {})}

    def _spoken(self, slot: int, request: dict[str, Any]) -> str | None:
        """Let a seat speak; returns why it may not."""
        tick, talk = self.play.tick, self.play.talk
        try:
            if talk is None:
                raise ActionRefused("in this game seats do not talk")
            if self._over:
                raise ActionRefused("the game is over")
            message = self.said = talk.say(slot, request.get("text"), request.get("to", "all"), tick=tick)
        except ActionRefused as refused:
            return compact({"type": "say_refused", "tick": tick, "reason": refused.message})
        if self._log is not None:
            self._log.add(tick, SAID, slot, text=message.text, to=message.to)
        return None

    def _refused(self, slot: int, reason: str) -> str:
        return self._refusal(slot, self.refuse(slot, reason))

    def _refusal(self, slot: int, reason: str) -> str:
        legal = self.play.legal(slot) if self.started and slot not in self.actions else []
        told = f',"legal":[{",".join(legal)}]' if legal else ""
        return f'{{"type":"refused","tick":{self.play.tick},"reason":{compact(reason)}{told}}}'


def replay_of(
    rules: type[Rules],
    config: EpisodeConfig,
    history: Iterable[Done],
    *,
    seed: int,
    reason: str,
    results: Mapping[str, Any] | None = None,
    new_chance: Mapping[int, int] | None = None,
) -> bytes:
    """Return the replay of a game of which only what was done is known; the arguments are those of `GameTable`.

    Args:
        rules: The game.
        config: Its config.
        history: What was done, tick by tick.
        seed: The seed of all random numbers.
        reason: Why it has ended; `over` if it was played to its end.
        results: Its results, if there are any.
        new_chance: As for `Play`.
    """
    again = GameTable(rules, config, seed=seed, new_chance=new_chance)
    try:
        for actions, said in history:
            for one in said:
                assert again.play.talk is not None
                again.play.talk.say(one.seat, one.text, one.to, tick=again.play.tick)
            again.step(actions)
    except RulesError:
        reason, results = "failed", None
    return again.replay(reason=reason, results=results)
