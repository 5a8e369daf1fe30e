"""What a comparison says besides its verdict: evidence in words, the chance, and how many more blocks it may take."""

from __future__ import annotations

import math

from .beta import beta_below
from .estimates import Doubt, firm_evidence

__all__ = ["chance_better", "describe_evidence", "more_blocks", "percent", "two_digits"]

_MOST = 100_000
"""More blocks than this are not foretold."""
_LEVELS = ((1.0, "none"), (10**0.5, "hardly any"), (10.0, "some"))
"""Below these numbers; the steps are Jeffreys'."""


def describe_evidence(evidence: float, decides: float) -> str:
    """The evidence in words."""
    if evidence >= decides:
        return "decisive"
    return next((words for below, words in _LEVELS if evidence <= below), "strong, but not decisive")


def chance_better(won: int, lost: int) -> float:
    """The chance that more than half of all decided blocks are won, from the beta posterior with a uniform prior."""
    return float(f"{1 - beta_below(0.5, won + 1, lost + 1):.6g}")


def more_blocks(won: int, lost: int, blocks: int, doubt: Doubt, *, needed: float) -> int | None:
    """About how many more blocks a verdict needs if blocks are won and lost as often as so far.

    Args:
        won: Blocks won.
        lost: Blocks lost.
        blocks: Blocks in all.
        doubt: What the evidence takes from whoever leads.
        needed: The evidence that decides.

    Returns:
        Their number, with two digits; None if it cannot be said, or is more than 100,000.
    """
    if won == lost:
        return None

    def decided(more: int) -> bool:
        grown = 1 + more / blocks
        fewer = Doubt(*(round(part * grown) for part in doubt))
        return firm_evidence(round(won * grown), round(lost * grown), fewer) >= needed

    low, high = 0, 1
    while not decided(high):
        low, high = high, 2 * high
        if low > _MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    return two_digits(high)


def two_digits(count: float) -> int:
    """A number of blocks, rounded up to two digits."""
    step = 10 ** max(0, math.floor(math.log10(max(1, count))) - 1)
    return math.ceil(count / step) * step


def percent(chance: float) -> str:
    """A chance as text."""
    if chance >= 0.9995 or chance <= 0.0005:
        return "more than 99.9 %" if chance > 0.5 else "less than 0.1 %"
    return f"{100 * chance:.3g} %"
