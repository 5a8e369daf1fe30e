"""Means with intervals, and evidence that stays valid when checked after every block.

`mean_interval` is for a number of blocks that was fixed in advance; `running_interval` and `sign_evidence` are
valid at every look. Both need to know which numbers are possible (`Scale`) to say anything about few blocks. All of it
is plain Python: 10,000 resamples of 40 blocks take about ten milliseconds.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from .beta import beta_quantile, log_beta
from .betting import betting_interval

__all__ = [
    "LEAST",
    "Doubt",
    "Interval",
    "Sample",
    "SampleState",
    "Scale",
    "difference_interval",
    "firm_evidence",
    "least_wins",
    "mean_interval",
    "running_interval",
    "share_interval",
    "sign_evidence",
    "student_quantile",
]

_FEW = 20
"""Below this many blocks, resamples say too little about how blocks vary."""
_MANY = 256
"""Above this many blocks, Student's t and the bootstrap agree to a fiftieth of the interval's width, or better if the
blocks' numbers are not skewed. It is also how many blocks a byte can number."""
_DRAWS = 10_000
LEAST = 10
"""Minimum number of blocks for an interval where no bounds are known: with fewer, it would be too narrow."""
_DUST = 1e-12
"""Numbers that differ by less than this part of their size are equal."""
_LOOSE = 10
"""Bounds that are more than this many times as wide as the numbers seen are as good as none."""
_TIGHTEST = 0.02
"""Sets where the running interval is tightest: at a few times 1 / 0.02 blocks, about where comparisons end."""
_PRIOR = 10
"""How strongly `sign_evidence` expects a small advantage rather than a total one."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A confidence interval: it contains the true value as often as its level says."""

    low: float
    high: float
    method: Literal["bootstrap", "student-t", "running", "betting", "clopper-pearson", "mover"]

    def excludes(self, value: float) -> bool:
        """Whether a value is outside the interval."""
        return not self.low <= value <= self.high


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The numbers that a block can have."""

    low: float
    high: float
    certain: bool
    """Whether no others are possible; if not, these are the ends of those seen so far."""

    @classmethod
    def of(cls, allowed: tuple[float | None, float | None], seen: tuple[float, float] | None) -> Scale | None:
        """The scale of a game's scores; None if nothing is known.

        Args:
            allowed: The lowest and the highest score that the game allows; None: unknown.
            seen: The lowest and the highest score so far; None: there is none.
        """
        known = [value for value in (*allowed, *(seen or ())) if value is not None]
        if not known:
            return None
        low, high = min(known), max(known)
        width = seen[1] - seen[0] if seen is not None else 0.0
        bounded = None not in allowed and low < high and math.isfinite(high - low)
        # A score of up to a billion says nothing about a game in which all have about a hundred
        certain = bounded and (width == 0 or high - low <= _LOOSE * width)
        return (
            cls(low=low, high=high, certain=certain)
            if certain or seen is None
            else cls(low=seen[0], high=seen[1], certain=False)
        )

    def differences(self, times: float = 1.0) -> Scale:
        """The scale of differences of two such numbers, or of that many times a difference."""
        width = times * (self.high - self.low)
        return Scale(low=-width, high=width, certain=self.certain)

    def fraction_of(self, value: float) -> float:
        """Where a number is, from 0 at the lower end to 1 at the upper."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


class SampleState(NamedTuple):
    """The stored form of a `Sample`."""

    kept: tuple[float, ...]
    past: int
    mean: float
    squares: float


class Sample:
    """One number per block, for a mean and its intervals.

    Up to 256 numbers are kept for the bootstrap. Beyond that, earlier ones are reduced to their count, mean and sum of
    squares, so that memory use does not grow with the number of blocks.

    Args:
        values: The first numbers.

    Attributes:
        count: Number of numbers added.
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
        """Create a sample that continues from a stored state."""
        sample = cls()
        sample._kept = list(state.kept)
        sample._past, sample._mean, sample._squares = state[1:]
        sample.count = state.past + len(state.kept)
        return sample

    @property
    def state(self) -> SampleState:
        """The state to store; `resumed` continues from it."""
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
        """The mean; there must be at least one number."""
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
        # Chan's formula, which avoids cancellation between two large sums
        apart, whole = mean - self._mean, self._past + len(kept)
        return (
            whole,
            self._mean + apart * len(kept) / whole,
            self._squares + squares + apart**2 * self._past * len(kept) / whole,
        )

    def interval(self, *, level: float = 0.95, seed: int = 0, scale: Scale | None = None) -> Interval | None:
        """An interval for the mean, for a number of blocks that was fixed in advance (`mean_interval`)."""
        count = self.count
        if scale is not None and scale.certain and count <= _MANY:
            return _bounded(self._kept, scale, level=level)
        if count < LEAST or (deviation := self._cautious(scale)) <= 0:
            return None
        if count < _FEW or count > _MANY or deviation != self.deviation:
            middle = self.mean
            half = student_quantile((1 + level) / 2, count - 1) * deviation / math.sqrt(count)
            return Interval(low=middle - half, high=middle + half, method="student-t")
        drawn, value = _resamples(count, _DRAWS, seed), self._kept.__getitem__
        means = sorted(sum(map(value, drawn[start : start + count])) for start in range(0, len(drawn), count))
        # Plain percentiles are too narrow, as the normal distribution is compared with Student's t (Hesterberg's
        # expansion)
        wide = math.sqrt(count / (count - 1)) * student_quantile((1 + level) / 2, count - 1)
        tail = round(statistics.NormalDist().cdf(-wide) * _DRAWS)
        return Interval(low=means[tail] / count, high=means[-1 - tail] / count, method="bootstrap")

    def _cautious(self, scale: Scale | None) -> float:
        """The standard deviation; if all blocks agree, as if one more had differed as far as numbers do."""
        widest = scale.high - scale.low if scale is not None else 0.0
        deviation = self.deviation
        return deviation if deviation > _DUST * max(widest, abs(self.mean)) else widest / math.sqrt(self.count + 1)

    def running(self, *, alpha: float = 0.05, scale: Scale | None = None) -> Interval | None:
        """An interval for the mean that may be checked after every block (`running_interval`).

        Above 256 blocks it does without bounds, as earlier numbers are not kept.
        """
        count = self.count
        if scale is not None and scale.certain and 0 < count <= _MANY:
            ends = betting_interval(self._kept, low=scale.low, high=scale.high, alpha=alpha)
            return Interval(low=ends[0], high=ends[1], method="betting")
        if count < LEAST or (deviation := self._cautious(scale)) <= 0:
            return None
        middle = self.mean
        spread = _TIGHTEST * count + 1
        half = deviation * math.sqrt(2 * spread / (count**2 * _TIGHTEST) * math.log(math.sqrt(spread) / alpha))
        return Interval(low=middle - half, high=middle + half, method="running")


def mean_interval(
    values: Iterable[float], *, level: float = 0.95, seed: int = 0, scale: Scale | None = None
) -> Interval | None:
    """An interval for the mean over blocks.

    Where bounds are known, and up to 256 blocks, it is computed by betting, or by Clopper and Pearson's method if only
    both bounds occur. Otherwise from 20 to 256 blocks by bootstrap (percentiles of 10,000 resamples, widened as
    Student's t is compared with the normal distribution), and by Student's t for other numbers of blocks. If all blocks
    agree, it is computed as if one more had differed as far as the scale is wide.

    Args:
        values: One number per block.
        level: How often such an interval contains the true mean.
        seed: Seed of the resampling.
        scale: The numbers that are possible, or were seen.

    Returns:
        The interval; None without bounds for fewer than ten blocks, or if all numbers are equal and none differs.
    """
    return Sample(values).interval(level=level, seed=seed, scale=scale)


def _bounded(values: Sequence[float], scale: Scale, *, level: float) -> Interval | None:
    """An interval for the mean of numbers with known bounds; None for fewer than two."""
    if len(values) < 2:
        return None
    width = scale.high - scale.low
    high = sum(value == scale.high for value in values)
    if high + sum(value == scale.low for value in values) == len(values):
        share = share_interval(high / len(values), len(values), level=level)
        assert share is not None
        return Interval(low=scale.low + share.low * width, high=scale.low + share.high * width, method=share.method)
    ends = betting_interval(values, low=scale.low, high=scale.high, alpha=1 - level, fixed=True)
    return Interval(low=ends[0], high=ends[1], method="betting")


@lru_cache(maxsize=4)
def _resamples(count: int, draws: int, seed: int) -> bytes:
    """The blocks in each resample, one resample after the other; the same for everything measured in them."""
    chance = random.Random(seed)
    # Unless the count divides 256, the remainder would make the first blocks more frequent
    most = 256 - 256 % count
    place, refused = bytes(number % count for number in range(256)), bytes(range(most, 256))
    drawn = b""
    while len(drawn) < count * draws:
        drawn += chance.randbytes(count * draws + 1000).translate(place, refused)
    return drawn[: count * draws]


def running_interval(values: Sequence[float], *, alpha: float = 0.05, scale: Scale | None = None) -> Interval | None:
    """An interval for the mean that may be checked after every block.

    It is computed by betting where bounds are known, and is an asymptotic confidence sequence otherwise.

    Args:
        values: One number per block, in their order.
        alpha: How often it may miss the true mean at any look.
        scale: The numbers that are possible, or were seen.

    Returns:
        The interval; None without bounds for fewer than ten blocks, or if all numbers are equal and none differs.
    """
    if scale is None or not scale.certain:
        return Sample(values).running(alpha=alpha, scale=scale)
    if not values:
        return None
    ends = betting_interval(values, low=scale.low, high=scale.high, alpha=alpha)
    return Interval(low=ends[0], high=ends[1], method="betting")


def share_interval(share: float, count: int, *, level: float = 0.95) -> Interval | None:
    """Clopper and Pearson's interval for a proportion: it is never too narrow.

    Args:
        share: The proportion, between 0 and 1.
        count: Number of independent observations.
        level: How often such an interval contains the true proportion.

    Returns:
        The interval; None without observations.
    """
    if count < 1:
        return None
    tail, there = (1 - level) / 2, share * count
    return Interval(
        low=beta_quantile(tail, there, count - there + 1) if there > 0 else 0.0,
        high=beta_quantile(1 - tail, there + 1, count - there) if there < count else 1.0,
        method="clopper-pearson",
    )


def difference_interval(value: float, of: Interval, less: float, other: Interval, *, among: int = 1) -> Interval:
    """An interval for the difference of two independent estimates (Zou and Donner's MOVER).

    Args:
        value: The first estimate.
        of: Its interval, of level 0.95.
        less: The estimate to subtract.
        other: Its interval, of level 0.95.
        among: Number of such intervals that are to contain the true values all at once.
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

    If both are exchangeable, it reaches 20 in at most one evaluation in twenty, however often it is checked. Draws do
    not count.

    Args:
        won: Blocks won.
        lost: Blocks lost.
    """
    log = log_beta(_PRIOR + won, _PRIOR + lost) - log_beta(_PRIOR, _PRIOR) + (won + lost) * math.log(2)
    return math.exp(min(log, 700.0))


def least_wins(needed: float) -> int:
    """How many blocks one has to win, and lose none, until `sign_evidence` is what is needed."""
    won = 0
    while sign_evidence(won, 0) < needed:
        won += 1
    return won


class Doubt(NamedTuple):
    """What one or more blocks take from whoever leads, because one of the two may have caused that they do not count.

    All numbers are blocks, from the first player's view.
    """

    won: int = 0
    """Wins that the first may not claim as long as it leads."""
    lost: int = 0
    """Losses that it must bear besides."""
    other_won: int = 0
    """Wins that the second may not claim as long as it leads."""
    other_lost: int = 0
    """Losses that it must bear besides."""

    @classmethod
    def of(cls, counted: int | None, earlier: int | None) -> Doubt:
        """The doubt of one block.

        Args:
            counted: What it counts as: 1 won by the first, -1 lost, 0 drawn; None: it is not counted.
            earlier: What it would have been at first; None: unknown.
        """

        def of_one(counted: int | None, earlier: int | None) -> tuple[int, int]:
            return int(counted == 1 and earlier != 1), int(earlier in (-1, None) and counted != -1)

        def other(result: int | None) -> int | None:
            return None if result is None else -result

        return cls(*of_one(counted, earlier), *of_one(other(counted), other(earlier)))

    def plus(self, more: Doubt) -> Doubt:
        """Both together."""
        return Doubt(*map(sum, zip(self, more, strict=True)))


def firm_evidence(won: int, lost: int, doubt: Doubt = Doubt()) -> float:  # noqa: B008 - it is immutable
    """`sign_evidence` that nobody can gain by making blocks disappear.

    It holds even if blocks that were not counted, or that were played again, are counted against whoever leads.

    Args:
        won: Blocks won.
        lost: Blocks lost.
        doubt: What such blocks would take.
    """
    more, less = won, lost
    if won < lost:
        more, less, doubt = lost, won, Doubt(*doubt[2:], *doubt[:2])
    more, less = more - doubt.won, less + doubt.lost
    least = sign_evidence(more, less)
    return min(sign_evidence(won, lost), least if more > less else min(1.0, least))


@cache
def student_quantile(share: float, freedom: int) -> float:
    """The quantile of Student's t distribution.

    Args:
        share: Between one half and one.
        freedom: Degrees of freedom.
    """
    if freedom > _MANY:
        # The closed form is slow for many degrees of freedom; here the expansion is accurate to ten digits
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
    """The share of Student's t distribution below a non-negative value."""
    # The closed form for integer degrees of freedom
    angle = math.atan2(value, math.sqrt(freedom))
    cosine = math.cos(angle)
    term, total = (cosine, cosine) if freedom % 2 else (1.0, 1.0)
    for step in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= cosine**2 * (step - 1) / step
        total += term
    if freedom % 2 == 0:
        return 0.5 + math.sin(angle) * total / 2
    return 0.5 + (angle + (math.sin(angle) * total if freedom > 1 else 0.0)) / math.pi
