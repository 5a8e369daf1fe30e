"""How far a game is, by the messages that a seat has got: what a recorded message was sent after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["FRAMES_DELAY_ENV", "FramePlace"]

FRAMES_DELAY_ENV: Final = "COWORLD_FRAMES_DELAY"
"""Variable with the most seconds by which recorded messages are sent later, to see whether a game depends on it."""


class FramePlace:
    """How far a game is: the tick that its messages tell, and how many of them were of that tick.

    Another time, a game may send a message more or less before it begins, so only games that tell no ticks are followed
    by the number of messages.
    """

    def __init__(self) -> None:
        self._count = 0
        self._place = (-1, 0)

    @property
    def tick(self) -> int:
        """The last tick that was told; -1: none."""
        return self._place[0]

    def take(self, tick: int | None) -> None:
        """Take in a message from the game, and the tick that it tells, if it tells one."""
        self._count += 1
        if tick is not None:
            self._place = (tick, self._place[1] + 1 if tick == self._place[0] else 1)

    def fields(self) -> dict[str, int]:
        """The place, as a recorded message has it.

        `after` is the number of messages; `tick` the last tick that was told, and `nth` the number of its messages,
        both left out if none was told.
        """
        tick, nth = self._place
        return {"after": self._count, **({"tick": tick, "nth": nth} if nth else {})}

    def reached(self, then: Mapping[str, str | int]) -> bool:
        """Whether the game is as far as it was when a recorded message was sent, by the fields of that place."""
        if "tick" in then:
            return self._place >= (int(then["tick"]), int(then["nth"]))
        return self._count >= int(then["after"])
