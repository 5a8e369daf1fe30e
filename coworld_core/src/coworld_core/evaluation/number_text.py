"""Formats numbers and intervals as text, in the same way everywhere."""

from __future__ import annotations

import math

from .report_base import IntervalRecord

__all__ = ["between", "excludes_zero", "interval_text", "number"]


def interval_text(interval: IntervalRecord | None, *, signed: bool = False) -> str:
    """Format an interval, with its method if that is Student's t."""
    if interval is None:
        return "no interval yet"
    how = " (Student's t)" if interval.method == "student-t" else ""
    return f"{_ends(interval, signed=signed)}{how}"


def _ends(interval: IntervalRecord, *, signed: bool) -> str:
    return " to ".join(number(end, interval, signed=signed) for end in (interval.low, interval.high))


def between(interval: IntervalRecord | None, *, signed: bool = False) -> str:
    """Format an interval to follow its number in a sentence; empty if there is none."""
    return f" ({_ends(interval, signed=signed)})" if interval is not None else ""


def excludes_zero(interval: IntervalRecord | None) -> bool:
    """Whether an interval excludes 0; one without width, in an old file, excludes nothing."""
    return interval is not None and interval.low < interval.high and not interval.low <= 0 <= interval.high


def number(value: float, interval: IntervalRecord | None = None, *, signed: bool = False) -> str:
    """Format a number with four significant digits, or as many digits as its interval supports.

    Args:
        value: The number.
        interval: Its interval, if there is one.
        signed: Whether to show the sign of a positive number too.
    """
    sign = "+" if signed else ""
    width = interval.high - interval.low if interval is not None else 0.0
    if not 1e-9 < width < math.inf:
        return f"{value:{sign}.4g}"
    digits = max(0, 1 - math.floor(math.log10(width / 2)))
    return f"{round(value, digits) + 0.0:{sign}.{digits}f}"
