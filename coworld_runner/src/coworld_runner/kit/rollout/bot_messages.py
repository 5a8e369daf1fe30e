"""The messages between the rules and the process of a player.

The rules ask with `marshal`, which is the quickest; answers are JSON, because a player's process is not trusted. One
message carries what is asked in many episodes. A request is a tuple of its kind, the number of the episode, and:

======  ==========================================================================
`NEW`   the seed of the player's random numbers, and `hello` as JSON text or None
`ACT`   the observation, the legal actions with `marshal`, or None, and, in games
        with talk, what the seat has heard
`AGAIN` why the last action was refused, and the legal actions likewise
`END`   the message `over` as a value, or None if the episode does not go on
======  ==========================================================================

Each of them has one answer: the number of the episode, its kind, a value, the nanoseconds that it took, what the player
has printed, and what it says to other seats.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

__all__ = [
    "ACT",
    "ACTION",
    "AGAIN",
    "CHOICE",
    "DONE",
    "END",
    "FAILED",
    "MAX_ANSWER",
    "NEW",
    "PASSED",
    "Frames",
    "framed",
]

NEW, ACT, AGAIN, END = 0, 1, 2, 3
"""Kinds of requests."""

CHOICE, ACTION, PASSED, FAILED, DONE = 0, 1, 2, 3, 4
"""Kinds of answers: the index of a legal action, an action as JSON text, none, the exit status of a player that has
ended with the exception that it raised, and that a message was understood."""

MAX_ANSWER: Final = 64 * 1024 * 1024
"""Maximum size in bytes of a message from a player's process."""

_SIZE: Final = struct.Struct("<I")


def framed(content: bytes) -> bytes:
    """The content with its size in front."""
    return _SIZE.pack(len(content)) + content


class Frames:
    """Takes pieces of a stream, and yields the contents of complete frames.

    Args:
        most: Maximum size of one.
    """

    def __init__(self, most: int = 2**32 - 1) -> None:
        self._most = most
        self._left = bytearray()

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Add a piece.

        Raises:
            ValueError: A frame is too large.
        """
        left = self._left
        left += piece
        while len(left) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(left)
            if size > self._most:
                raise ValueError(f"a message of {size} bytes")
            if len(left) < _SIZE.size + size:
                return
            content = bytes(left[_SIZE.size : _SIZE.size + size])
            del left[: _SIZE.size + size]
            yield content
