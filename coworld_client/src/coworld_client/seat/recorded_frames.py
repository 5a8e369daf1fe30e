"""A player that repeats the messages of a seat in an earlier episode, in any protocol."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence

from .connection import SeatError
from .open_seat import OpenSeat

__all__ = ["recorded_frames"]

_DELAY_VARIABLE = "COWORLD_FRAMES_DELAY"
"""Environment variable with the most seconds by which messages are sent later, to see whether a game depends on it."""


def recorded_frames(
    frames: Sequence[Mapping[str, str | int]], *, source: str, slot: int
) -> Callable[[OpenSeat], Awaitable[None]]:
    """Return a session that sends recorded messages, each once as many have arrived as had before.

    Args:
        frames: The messages to the game, in order: `text` or `base64`, and in `after` the number of messages from the
            game that had arrived by then.
        source: Where they were read, for messages.
        slot: The seat that sent them.
    """
    most = float(os.environ.get(_DELAY_VARIABLE) or 0)

    async def play(seat: OpenSeat) -> None:
        arrived = 0
        for number, frame in enumerate(frames, 1):
            while arrived < int(frame["after"]):
                if await seat.receive() is None:
                    raise SeatError(
                        f"The game differs from {source}: it ended before message {number} of seat {slot} was due.",
                        code="recording_diverged",
                        hint="Repeating it needs the same game, config, seed and opponents.",
                    )
                arrived += 1
            if most:
                await asyncio.sleep(seat.rng.random() * most)
            told = frame.get("text")
            await seat.send_frame(base64.b64decode(str(frame["base64"])) if told is None else str(told))
        while await seat.receive() is not None:
            pass

    return play
