"""Means with intervals, and evidence that stays valid when checked after every block.

``mean_interval`` is for a number of blocks that was settled before; ``running_interval`` and ``sign_evidence`` hold at
every look. All of it is plain Python: 10,000 resamples of 40 blocks take about ten milliseconds.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, NamedTuple

__all__ = [
    "Interval",
    "Sample",
    "SampleState",
    "difference_interval",
    "mean_interval",
    "running_interval",
    "share_interval",
    "sign_evidence",
    "student_quantile",
]

_FEW = 20
"""Below this many blocks, resampling them says too little about how they vary."""
_MANY = 256
"""Above this many blocks, Student's t and the bootstrap agree to a fiftieth of the interval's width, and better where
what blocks come to is not skewed. It is also what a byte can number."""
_DRAWS = 10_000
_LEAST_RUNNING = 10
"""Blocks before which the running interval, an asymptotic one, would promise too much."""
_TIGHTEST = 0.02
"""Where the running interval is tightest: 1 / 0.02 times a few blocks, about where comparisons end."""
_PRIOR = 10
"""How strongly ``sign_evidence`` expects a small advantage rather than a total one."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An interval that contains the truth in as many cases out of a hundred as its level says."""

    low: float
    high: float
    method: Literal["bootstrap", "student-t", "running", "wilson", "mover"]

    def excludes(self, value: float) -> bool:
        """Whether a value is outside."""
        return not self.low <= value <= self.high


class SampleState(NamedTuple):
    """A ``Sample`` as it is stored."""

    kept: tuple[float, ...]
    past: int
    mean: float
    squares: float


class Sample:
    """One number per block, for a mean and its intervals.

    Up to 256 numbers are kept, because the bootstrap resamples them. Of more, only their count, mean and sum of squares
    are, so that the memory does not grow with the number of blocks.

    Args:
        values: The first numbers.

    Attributes:
        count: How many numbers there are.
    """

    __slots__ = ("_kept", "_mean", "_past", "_squares", "count")

    def __init__(self, values: Iterable[float] = ()) -> None:
        self.count = 0
        self._kept: list[float] = []
        self._past, self._mean, self._squares = 0, 0.0, 0.0
        for value in values:
            self.add(value)

    @classmethod
    def resumed(cls, state: SampleState) -> Sample:
        """A sample that goes on from where another was stored."""
        sample = cls()
        sample._kept = list(state.kept)
        sample._past, sample._mean, sample._squares = state[1:]
        sample.count = state.past + len(state.kept)
        return sample

    @property
    def state(self) -> SampleState:
        """A value to store and to go on from (``resumed``)."""
        return SampleState(tuple(self._kept), self._past, self._mean, self._squares)

    def add(self, value: float) -> None:
        """Add the number of the next block."""
        if len(self._kept) == _MANY:
            self._past, self._mean, self._squares = self._moments()
            self._kept.clear()
        self._kept.append(value)
        self.count += 1

    @property
    def mean(self) -> float:
        """The mean of at least one number."""
        return self._moments()[1]

    @property
    def deviation(self) -> float:
        """The sample standard deviation; 0 of a single number."""
        return math.sqrt(self._moments()[2] / (self.count - 1)) if self.count > 1 else 0.0

    def _moments(self) -> tuple[int, float, float]:
        """The count, the mean, and the sum of squares about the mean."""
        kept = self._kept
        if not kept:
            return self._past, self._mean, self._squares
        mean = math.fsum(kept) / len(kept)
        squares = math.fsum((value - mean) ** 2 for value in kept)
        if not self._past:
            return len(kept), mean, squares
        # Chan's formula, which does not cancel as a difference of two large sums would
        apart, whole = mean - self._mean, self._past + len(kept)
        return (
            whole,
            self._mean + apart * len(kept) / whole,
            self._squares + squares + apart**2 * self._past * len(kept) / whole,
        )

    def interval(self, *, level: float = 0.95, seed: int = 0) -> Interval | None:
        """An interval for the mean, for a number of blocks that was settled before (``mean_interval``)."""
        count = self.count
        if count < 2:
            return None
        if count < _FEW or count > _MANY:
            middle = self.mean
            half = student_quantile((1 + level) / 2, count - 1) * self.deviation / math.sqrt(count)
            return Interval(low=middle - half, high=middle + half, method="student-t")
        drawn, value = _resamples(count, _DRAWS, seed), self._kept.__getitem__
        means = sorted(sum(map(value, drawn[start : start + count])) for start in range(0, len(drawn), count))
        # plain percentiles are as much too narrow as the normal distribution is beside Student's (Hesterberg's
        # expansion)
        wide = math.sqrt(count / (count - 1)) * student_quantile((1 + level) / 2, count - 1)
        tail = round(statistics.NormalDist().cdf(-wide) * _DRAWS)
        return Interval(low=means[tail] / count, high=means[-1 - tail] / count, method="bootstrap")

    def running(self, *, alpha: float = 0.05) -> Interval | None:
        """An interval for the mean that may be checked after every block (``running_interval``)."""
        count = self.count
        if count < _LEAST_RUNNING:
            return None
        middle = self.mean
        spread = _TIGHTEST * count + 1
        half = self.deviation * math.sqrt(2 * spread / (count**2 * _TIGHTEST) * math.log(math.sqrt(spread) / alpha))
        return Interval(low=middle - half, high=middle + half, method="running")


def mean_interval(values: Iterable[float], *, level: float = 0.95, seed: int = 0) -> Interval | None:
    """An interval for the mean over blocks.

    From 20 to 256 blocks by bootstrap (percentiles of 10,000 resamples, as far out as Student's t is
    beyond the normal distribution), otherwise by Student's t.

    Args:
        values: One number a block.
        level: How often such an interval contains the truth.
        seed: Of the resampling.

    Returns:
        The interval; None for fewer than two blocks.
    """
    return Sample(values).interval(level=level, seed=seed)


@lru_cache(maxsize=4)
def _resamples(count: int, draws: int, seed: int) -> bytes:
    """Which blocks are in each resample, one resample after the other; the same for all that is measured in them."""
    chance = random.Random(seed)
    # unless the count divides 256, the remainder would make the first blocks more frequent
    most = 256 - 256 % count
    place, refused = bytes(number % count for number in range(256)), bytes(range(most, 256))
    drawn = b""
    while len(drawn) < count * draws:
        drawn += chance.randbytes(count * draws + 1000).translate(place, refused)
    return drawn[: count * draws]


def running_interval(values: Iterable[float], *, alpha: float = 0.05) -> Interval | None:
    """An interval for the mean that may be checked after every block (an asymptotic confidence sequence).

    Args:
        values: One number a block.
        alpha: How often it may ever miss the truth.

    Returns:
        The interval; None for fewer than ten blocks.
    """
    return Sample(values).running(alpha=alpha)


def share_interval(share: float, count: int, *, level: float = 0.95) -> Interval | None:
    """Wilson's interval for a share of what happened or did not.

    Args:
        share: Between 0 and 1.
        count: Of how many independent observations.
        level: How often such an interval contains the truth.

    Returns:
        The interval; None without observations.
    """
    if count < 1:
        return None
    wide = statistics.NormalDist().inv_cdf((1 + level) / 2) ** 2 / count
    middle = (share + wide / 2) / (1 + wide)
    half = math.sqrt(wide * (share * (1 - share) + wide / 4)) / (1 + wide)
    return Interval(low=max(0.0, middle - half), high=min(1.0, middle + half), method="wilson")


def difference_interval(value: float, of: Interval, less: float, other: Interval, *, among: int = 1) -> Interval:
    """An interval for the difference of two numbers that were measured apart (Zou and Donner's MOVER).

    Args:
        value: The one.
        of: Its interval, of level 0.95.
        less: The other.
        other: Its interval, likewise.
        among: How many such intervals there are that shall contain the truth all together.
    """
    normal = statistics.NormalDist()
    wider = normal.inv_cdf(1 - 0.025 / among) / normal.inv_cdf(0.975)
    return Interval(
        low=value - less - wider * math.hypot(value - of.low, other.high - less),
        high=value - less + wider * math.hypot(of.high - value, less - other.low),
        method="mover",
    )


def sign_evidence(won: int, lost: int) -> float:
    """How much more likely these wins and losses are if one side is better than if both are exchangeable.

    Under the latter it reaches 20 in at most one of twenty evaluations, however often one looks. Draws say nothing.

    Args:
        won: Blocks won.
        lost: Blocks lost.
    """
    log = _log_beta(_PRIOR + won, _PRIOR + lost) - _log_beta(_PRIOR, _PRIOR) + (won + lost) * math.log(2)
    return math.exp(min(log, 700.0))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


@cache
def student_quantile(share: float, freedom: int) -> float:
    """The quantile of Student's t distribution.

    Args:
        share: Between one half and one.
        freedom: Degrees of freedom.
    """
    if freedom > _MANY:
        # in closed form the time grows with the degrees of freedom; here the expansion is right to ten digits
        return _near_normal(statistics.NormalDist().inv_cdf(share), freedom)
    low, high = 0.0, 1.0
    while _student_below(high, freedom) < share:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        if _student_below(middle, freedom) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _near_normal(normal: float, freedom: int) -> float:
    """The quantile of Student's t from that of the normal distribution (Abramowitz and Stegun, 26.7.5)."""
    square = normal * normal
    terms = (
        (square + 1) / 4,
        ((5 * square + 16) * square + 3) / 96,
        (((3 * square + 19) * square + 17) * square - 15) / 384,
        ((((79 * square + 776) * square + 1482) * square - 1920) * square - 945) / 92160,
    )
    return normal * (1 + sum(term / freedom**power for power, term in enumerate(terms, 1)))


def _student_below(value: float, freedom: int) -> float:
    """The share of Student's t distribution below a value that is not negative."""
    # in closed form for whole degrees of freedom
    angle = math.atan2(value, math.sqrt(freedom))
    cosine = math.cos(angle)
    term, total = (cosine, cosine) if freedom % 2 else (1.0, 1.0)
    for step in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= cosine**2 * (step - 1) / step
        total += term
    if freedom % 2 == 0:
        return 0.5 + math.sin(angle) * total / 2
    return 0.5 + (angle + (math.sin(angle) * total if freedom > 1 else 0.0)) / math.pi
