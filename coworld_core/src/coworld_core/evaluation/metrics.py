"""Metrics other than the scores: a JSON pointer to any list in the results with one number for each seat."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

__all__ = ["known_metrics", "measured"]


def measured(results: Mapping[str, Any], pointer: str, seats: int) -> tuple[float, ...] | None:
    """The numbers that a pointer leads to, by slot; None unless it leads to a list of one number for each seat.

    Args:
        results: A game's results.
        pointer: JSON pointer (RFC 6901), e.g. `/painted_tiles`.
        seats: Required length of the list.
    """
    value: object = results
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping):
            value = cast("Mapping[str, object]", value).get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(cast("list[object]", value)):
            value = cast("list[object]", value)[int(key)]
        else:
            return None
    return _numbers(value, seats) if pointer.startswith("/") else None


def known_metrics(results: Mapping[str, Any], seats: int) -> list[str]:
    """Pointers to every list with one number for each seat.

    Args:
        results: A game's results.
        seats: Length of the lists.
    """
    found: list[str] = []
    pending: list[tuple[str, object]] = [("", results)]
    while pending:
        pointer, value = pending.pop()
        if _numbers(value, seats) is not None:
            found.append(pointer)
        elif isinstance(value, Mapping):
            for key, below in cast("Mapping[str, object]", value).items():
                pending.append((f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}", below))
        elif isinstance(value, list):
            pending += [(f"{pointer}/{index}", below) for index, below in enumerate(cast("list[object]", value))]
    return sorted(found)


def _numbers(value: object, seats: int) -> tuple[float, ...] | None:
    if not isinstance(value, list) or len(cast("list[object]", value)) != seats:
        return None
    items = cast("Sequence[object]", value)
    numbers = [float(item) for item in items if isinstance(item, int | float) and not isinstance(item, bool)]
    return tuple(numbers) if len(numbers) == seats and all(map(math.isfinite, numbers)) else None
