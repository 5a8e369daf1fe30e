"""Confidence sequences and tests for means of bounded numbers, by betting.

Somebody bets on every next block that the mean is larger than m, and somebody else that it is smaller. If m is the
mean, neither can expect to win, so a capital that has grown to 2 / alpha refutes m, whenever one looks (Waudby-Smith
and Ramdas, "Estimating means of bounded random variables by betting", 2024). The interval is what is not refuted. It
assumes nothing but the bounds, and its width is never zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["Bets", "MeanTest", "betting_interval"]

_LARGEST = 0.5
"""The largest part of the capital that is ever at stake."""
_STEPS = 24
"""Halvings of an end of the interval: it is known to one part in 16 million of the range."""


class Bets:
    """The stakes of both bettors, block by block; they depend on earlier blocks only.

    Args:
        alpha: How often a true mean may be refuted.
        fixed: Number of blocks, if the result is looked at only then; None: after each block.
    """

    def __init__(self, *, alpha: float, fixed: int | None = None) -> None:
        self._log = 2 * math.log(2 / alpha)
        self._fixed = fixed
        self._count, self._sum, self._squares = 0, 0.5, 0.25

    def next(self) -> float:
        """The stake on the next number, before limits that depend on the candidate mean."""
        turn = self._count + 1
        variance = self._squares / turn
        spread = variance * (self._fixed if self._fixed is not None else turn * math.log(1 + turn))
        return math.sqrt(self._log / spread)

    def take(self, value: float) -> None:
        """Take in a number between 0 and 1."""
        self._count += 1
        self._sum += value
        self._squares += (value - self._sum / (self._count + 1)) ** 2


def stakes(values: Iterable[float], *, alpha: float, fixed: int | None) -> Iterator[float]:
    """The stakes on numbers between 0 and 1."""
    bets = Bets(alpha=alpha, fixed=fixed)
    for value in values:
        yield bets.next()
        bets.take(value)


def gain(value: float, mean: float, stake: float) -> float:
    """By what one bet that the mean is larger multiplies the capital, as a logarithm.

    Args:
        value: The number, between 0 and 1.
        mean: The candidate mean.
        stake: The stake, before its limit.
    """
    return math.log1p(min(stake, _LARGEST / mean) * (value - mean)) if mean > 0 else math.inf if value > 0 else 0.0


class MeanTest:
    """Whether a mean is larger than a candidate, decided as soon as the bets show it.

    Args:
        mean: The candidate, in units of the range: 0 is its lower end and 1 its upper end.
        alpha: How often it may be refuted if it is the mean. Both directions share it.

    Attributes:
        larger: Whether the mean is certainly larger.
        smaller: Whether it is certainly smaller.
    """

    def __init__(self, mean: float, *, alpha: float) -> None:
        self._mean, self._needed = mean, math.log(2 / alpha)
        self._bets = Bets(alpha=alpha)
        self._up = self._down = 0.0
        self.larger = self.smaller = False

    def take(self, value: float) -> None:
        """Take in a number between 0 and 1."""
        stake = self._bets.next()
        self._bets.take(value)
        self._up += gain(value, self._mean, stake)
        self._down += gain(1 - value, 1 - self._mean, stake)
        self.larger = self.larger or self._up >= self._needed
        self.smaller = self.smaller or self._down >= self._needed


def betting_interval(
    values: Sequence[float], *, low: float, high: float, alpha: float = 0.05, fixed: bool = False
) -> tuple[float, float]:
    """An interval for the mean of bounded numbers.

    Args:
        values: The numbers, in their order.
        low: The lowest number that is possible.
        high: The highest; more than the lowest.
        alpha: How often it may miss the mean.
        fixed: Whether the number of blocks was fixed in advance; otherwise it holds after every block, and is wider.

    Returns:
        Its ends.
    """
    shares = [min(1.0, max(0.0, (value - low) / (high - low))) for value in values]
    given = list(stakes(shares, alpha=alpha, fixed=len(shares) if fixed else None))
    needed = math.log(2 / alpha)

    def lower(of: Sequence[float]) -> float:
        return _first_unrefuted(lambda mean: _refuted(of, given, mean, needed))

    # Where the mean changes on the way, the two ends may pass each other
    least, most = sorted((lower(shares), 1 - lower([1 - share for share in shares])))
    return low + least * (high - low), low + most * (high - low)


def _first_unrefuted(refuted: Callable[[float], bool]) -> float:
    """The smallest mean that is not refuted as too small; the larger a mean, the less its bets win."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        between = (low + high) / 2
        if refuted(between):
            low = between
        else:
            high = between
    return low


def _refuted(values: Sequence[float], given: Sequence[float], mean: float, needed: float) -> bool:
    capital, most, log1p = 0.0, _LARGEST / mean if mean > 0 else math.inf, math.log1p
    for value, stake in zip(values, given, strict=True):
        capital += log1p((stake if stake < most else most) * (value - mean))
        if capital >= needed:
            return True
    return False
