"""A player that repeats the messages of a seat in an earlier episode, in any protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from coworld_core.records.frame_places import FRAMES_DELAY_ENV, FramePlace

from .connection import SeatError
from .open_seat import OpenSeat

__all__ = ["frame_of", "recorded_frames", "tick_of"]


def recorded_frames(
    frames: Sequence[Mapping[str, str | int]], *, source: str, slot: int
) -> Callable[[OpenSeat], Awaitable[None]]:
    """Return a session that sends recorded messages, each once the game is as far as it was then.

    Args:
        frames: The messages to the game, in order: `text` or `base64`, and when they are due (`FramePlace`).
        source: Where they were read, for messages.
        slot: The seat that sent them.
    """
    most = float(os.environ.get(FRAMES_DELAY_ENV) or 0)

    async def play(seat: OpenSeat) -> None:
        progress = FramePlace()
        for number, frame in enumerate(frames, 1):
            while not progress.reached(frame):
                told = await seat.receive()
                if told is None:
                    raise SeatError(
                        f"The game differs from {source}: it ended before message {number} of seat {slot} was due.",
                        code="recording_diverged",
                        hint="Repeating it needs the same game, config, seed and opponents.",
                    )
                progress.take(tick_of(told))
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


def tick_of(frame: str | bytes) -> int | None:
    """The tick that a message tells, if it is a JSON object with one."""
    try:
        told: Any = json.loads(frame)
    except (ValueError, RecursionError):
        return None
    tick: Any = cast("dict[str, Any]", told).get("tick") if isinstance(told, dict) else None
    return tick if type(tick) is int else None
