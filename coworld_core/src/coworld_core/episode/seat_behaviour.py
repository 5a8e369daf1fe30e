"""What each seat did in an episode, from the events that the game wrote.

A game writes its events to `COGAME_EVENTS_URI`, as a JSON array or as one object per line, each with `tick`,
`kind` and `agent` (the seat). Games served by `coworld_runner.kit.server` write one event per decision:
`acted`, with the `seconds` from the request to the answer, `idle` if no action came in time, and `refused` for
a message that was not a legal action. If its rules give rewards, `reward` has the `value` that a seat gained in a
tick; a seat without a reward has no event. If they let seats talk, `said` has a `text`, and `to` whom it was said.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

from pydantic import Field

from ..documents.records import Record
from ..files.regular import open_regular
from ..text.phrases import plural
from .seat_event_kinds import ACTED, IDLE, REFUSED

__all__ = ["SeatBehaviour", "game_events", "quantile_seconds", "read_behaviour", "read_inaction"]

_LONGEST = 1_000_000
"""Maximum bytes per line: events are short."""
_LARGEST = 64 * 1024 * 1024
"""Maximum bytes of an array; lines are read one by one, so their number is not limited."""


class SeatBehaviour(Record):
    """What one seat did in an episode."""

    acted: int = Field(default=0, ge=0, description="Number of turns in which it acted.")
    idle: int = Field(default=0, ge=0, description="Number of turns in which it did not act in time.")
    refused: int = Field(default=0, ge=0, description="Number of its messages that were not legal actions.")
    seconds: tuple[tuple[float, int], ...] = Field(
        default=(), description="Seconds it took to act, to two significant digits, each with the number of turns."
    )

    @property
    def inaction(self) -> str:
        """What to say of a player that did nothing else, as a verb with its object."""
        refused = f", and {plural(self.refused, 'message')} of its were refused" if self.refused else ""
        return f"never acted in {plural(self.idle, 'turn')}{refused}"


def read_behaviour(path: Path, seats: int) -> tuple[SeatBehaviour, ...]:
    """Read what each seat did; empty if the game wrote no such events, or the file cannot be read.

    Args:
        path: The game's events; the content is untrusted.
        seats: Number of seats.
    """
    counts: Counter[tuple[int, str]] = Counter()
    took: list[Counter[float]] = [Counter() for _ in range(seats)]
    try:
        for event in game_events(path):
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
        SeatBehaviour(
            acted=counts[seat, ACTED],
            idle=counts[seat, IDLE],
            refused=counts[seat, REFUSED],
            seconds=tuple(sorted(took[seat].items())),
        )
        for seat in range(seats)
    )


def read_inaction(path: Path, seats: int) -> dict[int, SeatBehaviour]:
    """Read which seats never acted, though they had turns, and what they did instead; usually the first turns tell.

    Args:
        path: The game's events; the content is untrusted.
        seats: Number of seats.
    """
    left = set(range(seats))
    try:
        for event in game_events(path):
            if event.get("kind") == ACTED and isinstance(seat := event.get("agent"), int):
                left.discard(seat)
                if not left:
                    return {}
    except (OSError, ValueError, RecursionError):
        return {}
    return {slot: seen for slot, seen in enumerate(read_behaviour(path, seats)) if seen.idle and not seen.acted}


def quantile_seconds(seconds: Iterable[tuple[float, int]], share: float) -> float | None:
    """The quantile of the seconds per turn; None without turns.

    Args:
        seconds: Times and their counts, as in `SeatBehaviour`, in any order.
        share: The quantile, between 0 and 1.
    """
    ordered = sorted(seconds)
    left = share * sum(count for _, count in ordered)
    for value, count in ordered:
        left -= count
        if left <= 0:
            return value
    return None


def game_events(path: Path) -> Iterator[dict[str, object]]:
    """Yield the events that a game wrote, one by one; the content is untrusted.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not JSON.
    """
    with open_regular(path) as file:
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
