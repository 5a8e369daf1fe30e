"""What seats gain tick by tick, in games whose rules say so."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any, cast

from .game import Rules

__all__ = ["gives_rewards", "read_rewards", "reward_sum"]


def gives_rewards(rules: type[Rules]) -> bool:
    """Whether a game says what seats gain in each tick."""
    return rules.rewards is not Rules.rewards


def read_rewards(raw: object, seats: int) -> tuple[float | None, ...]:
    """The reward of each seat, None for a seat without one.

    Args:
        raw: What `Rules.rewards` returned.
        seats: Number of seats.

    Raises:
        TypeError: It is not a mapping.
        ValueError: A key is not a seat, or a value not a finite number.
    """
    if not isinstance(raw, Mapping):
        raise TypeError(f"rewards are a number by seat, such as {{0: 1.0}}, not {raw!r}")
    gained: list[float | None] = [None] * seats
    for seat, value in cast("Mapping[Any, Any]", raw).items():
        try:
            slot = -1 if isinstance(seat, bool) else operator.index(seat)
        except TypeError:
            slot = -1
        if not 0 <= slot < seats:
            raise ValueError(f"there is no seat {seat!r} to reward; there are {seats}")
        if value is None:
            continue
        try:
            # `float` would read a number from a text.
            gained[slot] = number = math.nan if isinstance(value, str | bytes) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(f"the reward of seat {slot} is {value!r}, not a finite number")
    return tuple(gained)


def reward_sum(one: float | None, other: float | None) -> float | None:
    """Two rewards of a seat together; None only if it got neither."""
    return other if one is None else one if other is None else one + other
