"""Numbers and intervals in words, the same wherever they are read."""

from __future__ import annotations

import math

from .reports import IntervalRecord

__all__ = ["between", "excludes_zero", "interval_words", "number"]


def interval_words(interval: IntervalRecord | None, *, signed: bool = False) -> str:
    """An interval, and how it was made where that is not the usual way."""
    if interval is None:
        return "no interval yet"
    how = " (Student's t)" if interval.method == "student-t" else ""
    return f"{_ends(interval, signed=signed)}{how}"


def _ends(interval: IntervalRecord, *, signed: bool) -> str:
    return " to ".join(number(end, interval, signed=signed) for end in (interval.low, interval.high))


def between(interval: IntervalRecord | None, *, signed: bool = False) -> str:
    """An interval behind its number, in a sentence; nothing where there is none."""
    return f" ({_ends(interval, signed=signed)})" if interval is not None else ""


def excludes_zero(interval: IntervalRecord | None) -> bool:
    """Whether an interval says that something is not 0; one without width is that of blocks that came out alike."""
    return interval is not None and interval.low < interval.high and not interval.low <= 0 <= interval.high


def number(value: float, interval: IntervalRecord | None = None, *, signed: bool = False) -> str:
    """A number with its significant digits: four, or as many as its interval supports.

    Args:
        value: It.
        interval: Of it, if there is one.
        signed: Whether it has a sign also when it is positive.
    """
    sign = "+" if signed else ""
    width = interval.high - interval.low if interval is not None else 0.0
    if not 1e-9 < width < math.inf:
        return f"{value:{sign}.4g}"
    digits = max(0, 1 - math.floor(math.log10(width / 2)))
    return f"{round(value, digits) + 0.0:{sign}.{digits}f}"
