"""The spectators of a game, and the states that are sent to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coworld_core.rules import Frame

from .outbox import Outbox, compact

__all__ = ["Spectators"]


class Spectators:
    """The spectators of one game.

    Args:
        hello: The first message that each of them gets.
        close_reason: The reason with which connections are closed when the game is over.
    """

    def __init__(self, hello: Mapping[str, Any], *, close_reason: str) -> None:
        self._hello = compact({"type": "hello", **hello})
        self._close_reason = close_reason
        self._outboxes: set[Outbox] = set()
        self._end: str | None = None

    def join(self, frame: Frame, **more: Any) -> Outbox:
        """Add a spectator, who gets the current state at once; after the end, the last state and then the end."""
        outbox = Outbox()
        outbox.notify(self._hello)
        (outbox.put if self._end is None else outbox.notify)(_state(frame, **more))
        if self._end is not None:
            outbox.finish(self._end, reason=self._close_reason)
        else:
            self._outboxes.add(outbox)
        return outbox

    def leave(self, outbox: Outbox) -> None:
        """Remove a spectator."""
        self._outboxes.discard(outbox)

    def show(self, frame: Frame, **more: Any) -> None:
        """Send the state, with further fields; it replaces a state that has not been sent yet."""
        if not self._outboxes:
            return
        state = _state(frame, **more)
        for outbox in self._outboxes:
            outbox.put(state)

    def finish(self, frame: Frame, end: str) -> None:
        """Send the last state and the end, and close every connection."""
        self._end = end
        for outbox in list(self._outboxes):
            outbox.notify(_state(frame))
            outbox.finish(end, reason=self._close_reason)


def _state(frame: Frame, **more: Any) -> str:
    state = {"type": "state", "tick": frame.tick, "to_act": frame.to_act, "drawing": frame.drawing}
    return compact({**state, **more})
