"""Whether seats may send messages to each other, how long ones, how many, and to whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

__all__ = ["Audience", "TalkLimits"]

Audience = Literal["all", "seat", "team"]
"""Whom a message may be for: all other seats, one of them, or those on the same side."""

MAX_LENGTH = 10_000
MAX_PER_TICK = 100


@dataclass(frozen=True, kw_only=True)
class TalkLimits:
    """Seats may send messages to each other.

    Attributes:
        length: Maximum number of characters of a message.
        per_tick: Maximum number of messages of a seat in a tick.
        to: Whom messages may be for.

    Raises:
        ValueError: A limit is not a whole number from 1 to 10,000 (`length`) or 100 (`per_tick`), or `to` is not some
            of `all`, `seat` and `team`.
    """

    length: int = 280
    per_tick: int = 1
    to: tuple[Audience, ...] = ("all", "seat")

    def __post_init__(self) -> None:
        for name, most in (("length", MAX_LENGTH), ("per_tick", MAX_PER_TICK)):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= most:
                raise ValueError(f"{name} must be a whole number from 1 to {most}, got {value!r}")
        given = cast("object", self.to)
        known = cast("tuple[object, ...]", given) if isinstance(given, tuple) else ()
        if not known or not set(map(str, known)) <= set(get_args(Audience)):
            raise ValueError(f'to must be a tuple of "all", "seat" and "team", got {given!r}')

    def describe(self) -> dict[str, Any]:
        """The value as sent to players."""
        return {"length": self.length, "per_tick": self.per_tick, "to": list(self.to)}
