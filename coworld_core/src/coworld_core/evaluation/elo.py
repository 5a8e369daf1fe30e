"""Elo differences of two players, and a test of them that holds at every look.

A block's share is what the new player got of its points: in a game of two seats, a win of an episode is 1 and a draw
1/2, so a block of both orders has 0, 1/4, 1/2, 3/4 or 1; in other games the block itself is won, drawn or lost. A mean
share s is 400 · log10(s / (1 - s)) points.

The test takes the terms of a generalised sequential probability ratio test (elo0, elo1, alpha, beta), and its stakes
are such that its capital grows like that test's likelihood ratio where that is right. It is a bet, however, whose
errors stay below alpha and beta whatever the shares look like and whenever one looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from ..documents.records import Record
from .betting import betting_interval

__all__ = ["EloDifference", "EloTest", "elo_difference", "elo_of", "share_of", "usual_blocks"]

_LARGEST = 0.5
"""The largest part of the capital that is ever at stake."""


def elo_of(share: float) -> float:
    """The Elo difference of a mean share; infinite for 0 and 1."""
    if not 0 < share < 1:
        return math.copysign(math.inf, share - 0.5)
    return 400 * math.log10(share / (1 - share)) + 0.0


def share_of(elo: float) -> float:
    """The mean share that an Elo difference means."""
    return 1 / (1 + 10 ** (-elo / 400))


class EloDifference(Record):
    """The Elo difference of the new player, from its mean share of the blocks' points."""

    value: float | None = Field(description="The difference; null: infinite, as it won everything or nothing.")
    low: float | None = Field(description="Lower end of its interval, valid at every look; null: no limit.")
    high: float | None = Field(description="Upper end; null: no limit.")
    share: float = Field(ge=0, le=1, description="Mean share of the points: a draw is a half.")

    def __str__(self) -> str:
        value = _points(self.value, "-∞" if self.share < 0.5 else "+∞")
        return f"{value} ({_points(self.low, '-∞')} to {_points(self.high, '+∞')})"


def _points(value: float | None, infinite: str) -> str:
    return infinite if value is None else f"{value:+.0f}"


def elo_difference(shares: Sequence[float], *, alpha: float = 0.05) -> EloDifference | None:
    """The Elo difference with its interval; None without blocks.

    Args:
        shares: The new player's share of each block, in their order.
        alpha: How often the interval may miss the difference at any look.
    """
    if not shares:
        return None
    low, high = betting_interval(shares, low=0.0, high=1.0, alpha=alpha)
    share = math.fsum(shares) / len(shares)
    value, least, most = (_finite(elo_of(one)) for one in (share, low, high))
    return EloDifference(value=value, low=least, high=most, share=float(f"{share:.6g}"))


def _finite(value: float) -> float | None:
    # Ends at a distance of a rounding error from 0 or 1 are no limits
    return float(f"{value:.6g}") if abs(value) < 2400 else None


def usual_blocks(elo0: float, elo1: float, *, alpha: float) -> int:
    """About how many blocks a test takes if the difference is elo1, and half of all blocks are drawn."""
    apart = share_of(elo1) - share_of(elo0)
    return math.ceil(2 * 0.125 * math.log(1 / alpha) / apart**2)


class EloTest:
    """Whether a player is better by more than elo0, or by less than elo1.

    Args:
        elo0: A difference up to this is not worth having.
        elo1: A difference from this on is; larger than elo0.
        alpha: How often a difference of at most elo0 may pass.
        beta: How often a difference of at least elo1 may fail.
    """

    def __init__(self, elo0: float, elo1: float, *, alpha: float, beta: float) -> None:
        low, high = share_of(elo0), share_of(elo1)
        self._for, self._against = _Side(low, high), _Side(1 - high, 1 - low)
        self._needs = math.log(1 / alpha), math.log(1 / beta)

    @property
    def passed(self) -> bool:
        """Whether the difference is more than elo0."""
        return self._for.log >= self._needs[0]

    @property
    def failed(self) -> bool:
        """Whether it is less than elo1."""
        return self._against.log >= self._needs[1]

    @property
    def evidence(self) -> float:
        """The evidence for more than elo0: 1 / alpha decides."""
        return math.exp(min(self._for.log, 700.0))

    @property
    def counter_evidence(self) -> float:
        """The evidence for less than elo1: 1 / beta decides."""
        return math.exp(min(self._against.log, 700.0))

    def blocks_left(self) -> float:
        """How many more blocks the test needs, if both capitals grow on as so far; infinite if neither does."""
        sides = zip((self._for, self._against), self._needs, strict=True)
        return min((need - side.log) * side.count / side.log if side.log > 0 else math.inf for side, need in sides)

    def take(self, least: float, most: float) -> None:
        """Take in a block.

        Args:
            least: The new player's share at the worst; less than the most if it is in doubt.
            most: Its share at the best.
        """
        self._for.take(least)
        self._against.take(1 - most)


class _Side:
    """A bet that a mean share is larger than one, made for the case that it is at least another.

    Args:
        mean: What it is larger than.
        expected: What it is expected to be.
    """

    def __init__(self, mean: float, expected: float) -> None:
        self._mean, self._expected = mean, expected
        self._sum, self._squares = 0.5, 0.25
        self.log, self.count = 0.0, 0

    def take(self, share: float) -> None:
        turn = self.count + 1
        variance = self._squares / turn
        # Stake more as soon as the difference is certainly larger than expected
        seen = self._sum / turn - math.sqrt(variance / turn)
        apart = max(self._expected, seen) - self._mean
        stake = min(apart / (variance + apart * apart), _LARGEST / self._mean)
        self.log += math.log1p(stake * (share - self._mean))
        self.count = turn
        self._sum += share
        self._squares += (share - self._sum / (turn + 1)) ** 2
