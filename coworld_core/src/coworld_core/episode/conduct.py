"""What each seat did in an episode, from the events that the game left of it.

A game writes its events where ``COGAME_EVENTS_URI`` says: a JSON array, or one object a line, each with ``tick``,
``kind`` and ``agent``, the seat. Games of rules write one for each decision: ``acted`` with ``seconds`` from the
question to the answer, ``idle`` where no action came in time, and ``refused`` for a message that was no legal action.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

from pydantic import Field

from ..records import Record

__all__ = ["ACTED", "IDLE", "REFUSED", "SeatConduct", "quantile_seconds", "read_conduct"]

ACTED, IDLE, REFUSED = "acted", "idle", "refused"
"""Kinds of events that say what a seat did."""

_LONGEST = 1_000_000
"""Bytes of a line that is read: events are short."""
_LARGEST = 64 * 1024 * 1024
"""Bytes of an array that is read; one object a line is read piece by piece."""


class SeatConduct(Record):
    """What one seat did in an episode."""

    acted: int = Field(default=0, ge=0, description="Turns in which it acted.")
    idle: int = Field(default=0, ge=0, description="Turns in which no action of its own came in time.")
    refused: int = Field(default=0, ge=0, description="Messages of its own that were no legal action.")
    seconds: tuple[tuple[float, int], ...] = Field(
        default=(), description="How long it took to act, to two significant digits, and how often."
    )


def read_conduct(path: Path, seats: int) -> tuple[SeatConduct, ...]:
    """What each seat did; empty where the game does not say it.

    Args:
        path: The events that the game left; nothing in the file is trusted.
        seats: How many there are.
    """
    counts: Counter[tuple[int, str]] = Counter()
    took: list[Counter[float]] = [Counter() for _ in range(seats)]
    try:
        for event in _events(path):
            kind, seat, seconds = event.get("kind"), event.get("agent"), event.get("seconds")
            if kind not in (ACTED, IDLE, REFUSED) or not isinstance(seat, int) or not 0 <= seat < seats:
                continue
            counts[int(seat), str(kind)] += 1
            if kind == ACTED and isinstance(seconds, int | float) and 0 <= seconds < math.inf:
                took[seat][float(f"{seconds:.2g}")] += 1
    except (OSError, ValueError, RecursionError):
        return ()
    if not counts:
        return ()
    return tuple(
        SeatConduct(
            acted=counts[seat, ACTED],
            idle=counts[seat, IDLE],
            refused=counts[seat, REFUSED],
            seconds=tuple(sorted(took[seat].items())),
        )
        for seat in range(seats)
    )


def quantile_seconds(seconds: Iterable[tuple[float, int]], share: float) -> float | None:
    """What so large a share of all turns took at most; None without turns.

    Args:
        seconds: Times and how often, as ``SeatConduct`` has them, in any order.
        share: Between 0 and 1.
    """
    ordered = sorted(seconds)
    left = share * sum(count for _, count in ordered)
    for value, count in ordered:
        left -= count
        if left <= 0:
            return value
    return None


def _events(path: Path) -> Iterator[dict[str, object]]:
    """The events, one by one.

    Raises:
        ValueError: The file holds something else.
    """
    with path.open("rb") as file:
        begin = file.read(1)
        file.seek(0)
        if begin == b"[":
            found: object = json.loads(file.read(_LARGEST))
            lines: Iterable[object] = cast("list[object]", found) if isinstance(found, list) else ()
        else:
            lines = map(json.loads, filter(bytes.strip, iter(lambda: file.readline(_LONGEST), b"")))
        for event in lines:
            if isinstance(event, dict):
                yield cast("dict[str, object]", event)
