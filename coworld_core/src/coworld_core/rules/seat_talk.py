"""Messages between seats: what a game allows, what was said, and who hears it. Rules never see them."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

from .rules_errors import ActionRefused
from .talk_limits import TalkLimits

__all__ = ["TALK", "SeatChat", "SeatMessage", "SeatTalk", "takes_talk"]

TALK: Final = "talk"
"""Name of the fourth argument of players that talk."""

MAX_KEPT: Final = 1000
"""Maximum number of messages that are kept for one seat; older ones are dropped."""

MAX_TRIED: Final = 100
"""Maximum number of messages that one decision of a player may try to send."""


@dataclass(frozen=True, kw_only=True)
class SeatMessage:
    """What a seat has said.

    Attributes:
        tick: Number of ticks played when it was said.
        seat: Who said it.
        text: The words.
        to: Whom it was said to: `all`, `team`, or a seat.
        hearers: The seats that hear it, in ascending order.
    """

    tick: int
    seat: int
    text: str
    to: str | int
    hearers: tuple[int, ...]

    def fields(self) -> dict[str, Any]:
        """The message as those get it who hear it."""
        return {"tick": self.tick, "seat": self.seat, "text": self.text, "to": self.to}


class SeatChat:
    """What is said in one play.

    What seats say in a tick is heard once it has been played, in the order of seats, and of one seat in the order in
    which it spoke, so that chance in how messages arrive decides nothing. Only logs have the order in which it was
    said. It stays new to a hearer up to the end of the first tick in which it is told.

    Args:
        limits: What the game allows.
        seats: Number of seats.
        team: Returns the seats on the side of one.
        out: Returns the seats that are out of the game, which may not speak.

    Attributes:
        said: What was said in the last tick.
    """

    def __init__(
        self,
        limits: TalkLimits,
        seats: int,
        *,
        team: Callable[[int], Sequence[int]],
        out: Callable[[], Sequence[int]],
    ) -> None:
        self._limits = limits
        self._seats = seats
        self._team = team
        self._out = out
        self._saying: list[SeatMessage] = []
        self._logs: dict[int, deque[SeatMessage]] = {}
        """The newest of what each seat has heard and said."""
        self._new: dict[int, int] = {}
        """How many messages at the end of its log each seat was not told before this tick."""
        self._delivered: set[int] = set()
        """The seats that were told them in this tick."""
        self.messages: tuple[SeatMessage, ...] = ()

    def say(self, seat: int, text: object, to: object = "all", *, tick: int) -> SeatMessage:
        """Let a seat say something in the present tick.

        Args:
            seat: Who speaks.
            text: The words.
            to: Whom to: `all`, `team`, or a seat.
            tick: Number of ticks played.

        Raises:
            ActionRefused: It may not say this to them now; the message is for its sender. Code `talk_refused`.
            RulesError: The rules fail to name a team, or who is out.
        """
        limits = self._limits
        if not isinstance(text, str) or not text.strip():
            raise _refused("a message has a text")
        if len(text) > limits.length:
            raise _refused(f"a message has at most {limits.length} characters, not {len(text)}")
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise _refused("the text of a message is not Unicode")
        if sum(one.seat == seat for one in self._saying) >= limits.per_tick:
            times = "one message" if limits.per_tick == 1 else f"{limits.per_tick} messages"
            raise _refused(f"a seat may say {times} in a tick")
        hearers = self._hearers(seat, to)
        if seat in self._out():
            raise _refused("you are out of the game")
        message = SeatMessage(tick=tick, seat=seat, text=text, to=cast("str | int", to), hearers=hearers)
        self._saying.append(message)
        return message

    def say_all(self, seat: int, messages: Iterable[Any], *, tick: int) -> int:
        """Let a seat say what a player's decision came with, as far as it may; returns how much of it was refused.

        Args:
            seat: Who speaks.
            messages: Pairs of a text and whom it is for.
            tick: Number of ticks played.
        """
        refused = 0
        for one in list(messages)[:MAX_TRIED]:
            try:
                text, to = one
                self.say(seat, text, to, tick=tick)
            except (ActionRefused, TypeError, ValueError):
                refused += 1
        return refused

    def deliver(self) -> None:
        """Go on to the next tick: what was said is heard now."""
        for seat in self._delivered:
            self._new.pop(seat, None)
        self._delivered.clear()
        if not self._saying:
            self.messages = ()
            return
        said, self._saying = self._saying, []
        self.messages = tuple(sorted(said, key=lambda message: message.seat))
        for message in said:
            for seat in (message.seat, *message.hearers):
                self._logs.setdefault(seat, deque(maxlen=MAX_KEPT)).append(message)
                self._new[seat] = self._new.get(seat, 0) + 1

    def heard(self, seat: int) -> list[SeatMessage]:
        """What a seat hears now: what others have said to it that it was not told before this tick."""
        new = self._new.get(seat, 0)
        if not new:
            return []
        told = [message for message in list(self._logs[seat])[-new:] if message.seat != seat]
        return sorted(told, key=lambda message: (message.tick, message.seat))

    def saying(self, seat: int) -> list[SeatMessage]:
        """What others have said to a seat in the present tick, which it hears in the next one."""
        return [message for message in self._saying if seat in message.hearers]

    def tell(self, seat: int, *, again: bool = False) -> None:
        """Record that a seat is told what it hears now.

        Args:
            seat: The seat.
            again: It is to be told once more, even if that is after this tick.
        """
        if again:
            self._delivered.discard(seat)
        else:
            self._delivered.add(seat)

    def take(self, seat: int) -> list[dict[str, Any]]:
        """Tell a seat what it hears now."""
        self.tell(seat)
        return [message.fields() for message in self.heard(seat)]

    def log(self, seat: int) -> list[SeatMessage]:
        """The newest of what a seat has said and what was said to it, in that order, up to now."""
        present = (message for message in self._saying if seat in (message.seat, *message.hearers))
        return [*self._logs.get(seat, ()), *present]

    def _hearers(self, seat: int, to: object) -> tuple[int, ...]:
        limits = self._limits
        if isinstance(to, int) and not isinstance(to, bool):
            if "seat" in limits.to:
                if not 0 <= to < self._seats or to == seat:
                    raise _refused(f"there is no other seat {to}; there are {self._seats}")
                return (to,)
        elif to == "all" and "all" in limits.to:
            return tuple(other for other in range(self._seats) if other != seat)
        elif to == "team" and "team" in limits.to:
            return tuple(other for other in self._team(seat) if other != seat)
        kinds = {"all": '"all"', "team": '"team"', "seat": "the number of a seat"}
        raise _refused(f"the `to` of a message is {' or '.join(kinds[kind] for kind in limits.to)} in this game")


class SeatTalk:
    """What a seat hears and says in one decision, as players get it that take it as fourth argument, `talk`.

    ::

        def act(observation, legal, rng, talk):
            for message in talk.heard:
                print(message["seat"], message["text"])
            talk.say("I shall take two.")
            return legal[1]

    Attributes:
        heard: What the seat has heard since its last decision: dictionaries with `tick`, `seat`, `text` and `to`.
        words: What it says, as pairs of a text and whom it is for.
    """

    __slots__: ClassVar[tuple[str, ...]] = ("heard", "words")

    def __init__(self, heard: Sequence[Mapping[str, Any]] = ()) -> None:
        self.heard: list[dict[str, Any]] = [dict(message) for message in heard]
        self.words: list[tuple[str, str | int]] = []

    def say(self, text: str, to: str | int = "all") -> None:
        """Say something to `all`, to one's `team`, or to a seat. Whatever the game does not allow is not said."""
        self.words.append((text, to))


def takes_talk(act: Any) -> bool:
    """Whether the fourth argument of a function of a player is `talk`."""
    try:
        parameters = list(inspect.signature(act).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return len(parameters) > 3 and parameters[3].name == TALK and parameters[3].kind in positional


def _refused(reason: str) -> ActionRefused:
    return ActionRefused(reason, code="talk_refused")
