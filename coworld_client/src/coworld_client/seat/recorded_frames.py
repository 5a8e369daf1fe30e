"""A player that repeats the messages of a seat in an earlier episode, in any protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from .connection import SeatError
from .open_seat import OpenSeat

__all__ = ["GameProgress", "frame_of", "recorded_frames"]

_DELAY_VARIABLE = "COWORLD_FRAMES_DELAY"
"""Environment variable with the most seconds by which messages are sent later, to see whether a game depends on it."""


def recorded_frames(
    frames: Sequence[Mapping[str, str | int]], *, source: str, slot: int
) -> Callable[[OpenSeat], Awaitable[None]]:
    """Return a session that sends recorded messages, each once the game is as far as it was then.

    Args:
        frames: The messages to the game, in order: `text` or `base64`, and when they are due (`GameProgress`).
        source: Where they were read, for messages.
        slot: The seat that sent them.
    """
    most = float(os.environ.get(_DELAY_VARIABLE) or 0)

    async def play(seat: OpenSeat) -> None:
        progress = GameProgress()
        for number, frame in enumerate(frames, 1):
            while not progress.reached(frame):
                told = await seat.receive()
                if told is None:
                    raise SeatError(
                        f"The game differs from {source}: it ended before message {number} of seat {slot} was due.",
                        code="recording_diverged",
                        hint="Repeating it needs the same game, config, seed and opponents.",
                    )
                progress.take(told)
            if most:
                await asyncio.sleep(seat.rng.random() * most)
            await seat.send_frame(frame_of(frame))
        while await seat.receive() is not None:
            pass

    return play


def frame_of(frame: Mapping[str, str | int]) -> str | bytes:
    """A recorded message as it was sent."""
    told = frame.get("text")
    return base64.b64decode(str(frame["base64"])) if told is None else str(told)


class GameProgress:
    """How far a game is, by what it has sent: the tick that its messages tell, and the messages of that tick.

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

    def take(self, frame: str | bytes) -> None:
        """Take in a message from the game."""
        self._count += 1
        try:
            told: Any = json.loads(frame)
        except (ValueError, RecursionError):
            return
        tick: Any = cast("dict[str, Any]", told).get("tick") if isinstance(told, dict) else None
        if type(tick) is int:
            self._place = (tick, self._place[1] + 1 if tick == self._place[0] else 1)

    def reached(self, frame: Mapping[str, str | int]) -> bool:
        """Whether it is as far as it was when a recorded message was sent.

        Args:
            frame: The message: `after` is the number of messages that had arrived; `tick` the last tick that was told,
                and `nth` the number of its messages, both missing if none was told.
        """
        if "tick" in frame:
            return self._place >= (int(frame["tick"]), int(frame["nth"]))
        return self._count >= int(frame["after"])
