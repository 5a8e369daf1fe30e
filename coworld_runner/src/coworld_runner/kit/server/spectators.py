"""The spectators of a game, and the states that are sent to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from coworld_core.rules import Delayed, Frame, Open, Spectating
from coworld_core.rules.seat_talk import SeatMessage

from ..table.compact_json import compact
from .outbox import Outbox

__all__ = ["Spectators"]

_PRESENT: Final = frozenset({"waiting_for", "waited"})
"""Fields that tell of the present state, for spectators who may see it."""

MAX_MESSAGES: Final = 20
"""Number of newest messages of seats to all that a state has."""


class Spectators:
    """The spectators of one game.

    Args:
        hello: The first message that each of them gets.
        may_see: What they may see before the game is over.
        close_reason: The reason with which connections are closed when the game is over.
    """

    def __init__(self, hello: Mapping[str, Any], *, may_see: Spectating, close_reason: str) -> None:
        self._hello = compact({"type": "hello", **hello, "spectators": may_see.describe()})
        self._may_see = may_see
        self._past: deque[Frame] = deque(maxlen=may_see.ticks + 1 if isinstance(may_see, Delayed) else 1)
        self._close_reason = close_reason
        self._messages: deque[dict[str, Any]] = deque(maxlen=MAX_MESSAGES)
        """The newest messages to all that spectators may read."""
        self._early: list[SeatMessage] = []
        """Those of them that were said in the tick that is still played."""
        self._read = -1
        """The last tick whose messages are among them."""
        self._outboxes: set[Outbox] = set()
        self._end: str | None = None

    def join(self, frame: Frame, **more: Any) -> Outbox:
        """Add a spectator, who gets the current state at once; after the end, the last state and then the end."""
        outbox = Outbox()
        outbox.notify(self._hello)
        if self._end is not None:
            outbox.notify(self._state(frame))
            outbox.finish(self._end, reason=self._close_reason)
        else:
            outbox.put(self._visible(frame, more))
            self._outboxes.add(outbox)
        return outbox

    def leave(self, outbox: Outbox) -> None:
        """Remove a spectator."""
        self._outboxes.discard(outbox)

    def show(self, frame: Frame, **more: Any) -> None:
        """Send the state, with further fields; it replaces a state that has not been sent yet.

        Must be called in each tick, because spectators may be shown an earlier one.
        """
        if not self._past or self._past[-1].tick != frame.tick:
            self._past.append(frame)
            self._listen()
        if not self._outboxes:
            return
        state = self._visible(frame, more)
        for outbox in self._outboxes:
            outbox.put(state)

    def hear(self, message: SeatMessage, frame: Frame) -> None:
        """Let spectators who may see the present state read what was just said to all."""
        if isinstance(self._may_see, Open) and message.to == "all":
            self._messages.append(message.fields())
            self._early.append(message)
            self.show(frame)

    def finish(self, frame: Frame, end: str) -> None:
        """Send the last state and the end, and close every connection."""
        self._end = end
        self._past.append(frame)
        for seen in self._past:
            self._read_aloud(seen)
        for outbox in list(self._outboxes):
            outbox.notify(self._state(frame))
            outbox.finish(end, reason=self._close_reason)

    def _visible(self, frame: Frame, more: Mapping[str, Any]) -> str:
        """The state as far as spectators may see it while the game is played."""
        if isinstance(self._may_see, Open):
            return self._state(frame, **more)
        more = {name: value for name, value in more.items() if name not in _PRESENT}
        if isinstance(self._may_see, Delayed):
            known = len(self._past) == self._past.maxlen
            past = self._past[0] if known else Frame(tick=0, to_act=(), drawing="")
            return self._state(past, **frame.known(), **more)
        return self._state(Frame(tick=frame.tick, to_act=(), drawing=""), **frame.known(), **more)

    def _listen(self) -> None:
        """Take in what may be read from now on."""
        if isinstance(self._may_see, Open):
            self._read_aloud(self._past[-1])
        elif isinstance(self._may_see, Delayed) and len(self._past) == self._past.maxlen:
            self._read_aloud(self._past[0])

    def _read_aloud(self, frame: Frame) -> None:
        if frame.tick > self._read:
            self._read = frame.tick
            read = set(map(id, self._early))
            self._messages.extend(one.fields() for one in frame.messages if one.to == "all" and id(one) not in read)
            self._early.clear()

    def _state(self, frame: Frame, **more: Any) -> str:
        state: dict[str, Any] = {"type": "state", "tick": frame.tick, "to_act": frame.to_act, "drawing": frame.drawing}
        if frame.pace is not None:
            state["pace"] = frame.pace.describe()
        said = {"said": list(self._messages)} if self._messages else {}
        return compact({**state, **frame.standing(), **frame.known(), **said, **more})
