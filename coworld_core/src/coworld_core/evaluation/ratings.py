"""Ratings of players, from their relative results in each block.

Bradley and Terry's model with ties after Davidson, fitted to all blocks at once, so that the order of the blocks does
not matter. A block of more than two players counts as all the pairs in it. The points are Elo's: 400 more make ten wins
to one loss. The mean is 0. A weak prior (normal, 1,000 points wide) keeps the rating of a player finite that has won
everything.

Intervals come from the curvature of the likelihood, or from how much blocks differ (the sandwich estimate, which knows
that pairs of one block are not independent), whichever is wider: a bootstrap over blocks would have no width for a
player that has won everything.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from .estimates import sign_evidence

__all__ = ["Pairing", "Rating", "pairings", "rate"]

_POINTS = 400 / math.log(10)
_PRIOR = (_POINTS / 1000) ** 2
"""Precision of the prior."""
_Signature = tuple[tuple[int, int, int], ...]
"""What came of a block: first player, second player, and 0, 1 or 2 for a win of the first, of the second, or a tie."""
_Matrix = list[list[float]]


@dataclass(frozen=True, kw_only=True)
class Rating:
    """How strong one player is."""

    label: str
    points: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """How two players did against each other."""

    first: str
    second: str
    won: int
    """Blocks in which the first did better."""
    lost: int
    drawn: int
    apart: bool
    """Whether that tells them apart."""


def rate(blocks: Iterable[Mapping[str, float]], *, level: float = 0.95) -> list[Rating]:
    """Rate all players that played.

    Args:
        blocks: Each player's score in a block, by label; higher is better.
        level: How often an interval contains the truth.

    Returns:
        The ratings, the best first; equal ones by label.
    """
    labels, categories = _categories(blocks)
    count = len(labels)
    if not count:
        return []
    ties = any(outcome == 2 for signature in categories for _, _, outcome in signature)
    size = count + ties
    counts: Counter[tuple[int, int, int]] = Counter()
    for signature, times in categories.items():
        for pair in signature:
            counts[pair] += times
    place = _fit(counts, size, count)
    bread = _inverse(_curvature(counts, place, count))
    meat = [[0.0] * size for _ in range(size)]
    for signature, times in categories.items():
        gradient = [0.0] * size
        for first, second, outcome in signature:
            stats, shares = _outcomes(place, first, second, count)
            for statistic, share in [
                (stats[outcome], 1.0),
                *((stat, -p) for stat, p in zip(stats, shares, strict=True)),
            ]:
                for index, value in statistic:
                    gradient[index] += share * value
        for row in range(size):
            if gradient[row]:
                for column in range(size):
                    meat[row][column] += times * gradient[row] * gradient[column]
    robust = _product(_product(bread, meat), bread)
    width = NormalDist().inv_cdf((1 + level) / 2) * _POINTS
    ratings = [
        Rating(
            label=labels[index],
            points=place[index] * _POINTS,
            low=place[index] * _POINTS - width * spread,
            high=place[index] * _POINTS + width * spread,
        )
        for index in range(count)
        for spread in [math.sqrt(max(_about_mean(bread, index, count), _about_mean(robust, index, count)))]
    ]
    return sorted(ratings, key=lambda rating: (-rating.points, rating.label))


def pairings(
    blocks: Iterable[Mapping[str, float]], *, players: int | None = None, alpha: float = 0.05
) -> list[Pairing]:
    """Compare every pair of players that met, and say whether the results tell them apart.

    Args:
        blocks: Each player's score in a block, by label.
        players: How many there are, where not all of them have played yet.
        alpha: How often any two of all that are equally strong may be told apart, however often one looks.
    """
    labels, categories = _categories(blocks)
    met: dict[tuple[int, int], list[int]] = {}
    for signature, times in categories.items():
        for first, second, outcome in signature:
            met.setdefault((first, second), [0, 0, 0])[outcome] += times
    count = players or len(labels)
    most = count * (count - 1) // 2
    return [
        Pairing(
            first=labels[first],
            second=labels[second],
            won=won,
            lost=lost,
            drawn=drawn,
            apart=sign_evidence(won, lost) >= most / alpha,
        )
        for (first, second), (won, lost, drawn) in sorted(met.items())
    ]


def _categories(blocks: Iterable[Mapping[str, float]]) -> tuple[list[str], Counter[_Signature]]:
    """The players, and how often blocks came out alike: a million games are few kinds of them."""
    known: Counter[tuple[tuple[str, ...], tuple[int, ...]]] = Counter()
    for block in blocks:
        labels = tuple(sorted(block))
        scores = [block[label] for label in labels]
        ranks = {score: rank for rank, score in enumerate(sorted(set(scores)))}
        known[labels, tuple(ranks[score] for score in scores)] += 1
    everybody = sorted({label for labels, _ in known for label in labels})
    place = {label: index for index, label in enumerate(everybody)}
    categories: Counter[_Signature] = Counter()
    for (labels, ranks), times in known.items():
        signature = tuple(
            (place[labels[i]], place[labels[j]], 2 if ranks[i] == ranks[j] else int(ranks[i] < ranks[j]))
            for i in range(len(labels))
            for j in range(i + 1, len(labels))
        )
        categories[signature] += times
    # sums of floating-point numbers depend on their order
    return everybody, Counter(dict(sorted(categories.items())))


_Statistic = tuple[tuple[int, float], ...]


def _outcomes(place: Sequence[float], first: int, second: int, count: int) -> tuple[list[_Statistic], list[float]]:
    """Of the outcomes of a pair: by which parameters each grows more likely, and how likely it is."""
    stats: list[_Statistic] = [((first, 1.0),), ((second, 1.0),)]
    if len(place) > count:
        stats.append(((first, 0.5), (second, 0.5), (count, 1.0)))
    logits = [sum(place[index] * value for index, value in stat) for stat in stats]
    top = max(logits)
    weights = [math.exp(logit - top) for logit in logits]
    total = sum(weights)
    return stats, [weight / total for weight in weights]


def _likelihood(counts: Mapping[tuple[int, int, int], int], place: Sequence[float], count: int) -> float:
    total = -_PRIOR / 2 * math.fsum(value * value for value in place)
    for (first, second, outcome), times in counts.items():
        total += times * math.log(max(_outcomes(place, first, second, count)[1][outcome], 1e-300))
    return total


def _curvature(counts: Mapping[tuple[int, int, int], int], place: Sequence[float], count: int) -> _Matrix:
    """How sharply the likelihood falls around a place."""
    size = len(place)
    matrix = [[_PRIOR if row == column else 0.0 for column in range(size)] for row in range(size)]
    met: Counter[tuple[int, int]] = Counter()
    for (first, second, _), times in counts.items():
        met[first, second] += times
    for (first, second), times in met.items():
        stats, shares = _outcomes(place, first, second, count)
        mean: Counter[int] = Counter()
        for stat, share in zip(stats, shares, strict=True):
            for row, value in stat:
                mean[row] += share * value  # pyright: ignore[reportArgumentType]
                for column, other in stat:
                    matrix[row][column] += times * share * value * other
        for row, value in mean.items():
            for column, other in mean.items():
                matrix[row][column] -= times * value * other
    return matrix


def _fit(counts: Mapping[tuple[int, int, int], int], size: int, count: int) -> list[float]:
    """Where the likelihood is greatest, by Newton's method: it has one top."""
    place = [0.0] * size
    best = _likelihood(counts, place, count)
    for _ in range(200):
        gradient = [-_PRIOR * value for value in place]
        for (first, second, outcome), times in counts.items():
            stats, shares = _outcomes(place, first, second, count)
            for index, value in stats[outcome]:
                gradient[index] += times * value
            for stat, share in zip(stats, shares, strict=True):
                for index, value in stat:
                    gradient[index] -= times * share * value
        inverse = _inverse(_curvature(counts, place, count))
        step = [math.fsum(a * b for a, b in zip(row, gradient, strict=True)) for row in inverse]
        length = 1.0
        while True:
            there = [value + length * change for value, change in zip(place, step, strict=True)]
            reached = _likelihood(counts, there, count)
            if reached >= best or length < 1e-6:
                break
            length /= 2
        done = max(map(abs, step)) < 1e-10
        if reached >= best:
            place, best = there, reached
        if done or length < 1e-6:
            break
    return place


def _inverse(matrix: _Matrix) -> _Matrix:
    size = len(matrix)
    rows = [[*row, *(float(column == index) for column in range(size))] for index, row in enumerate(matrix)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(rows[row][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        scale = rows[column][column]
        rows[column] = [value / scale for value in rows[column]]
        for row in range(size):
            if row != column and (factor := rows[row][column]):
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[column], strict=True)]
    return [row[size:] for row in rows]


def _product(a: _Matrix, b: _Matrix) -> _Matrix:
    columns = list(zip(*b, strict=True))
    return [[math.fsum(x * y for x, y in zip(row, column, strict=True)) for column in columns] for row in a]


def _about_mean(covariance: _Matrix, index: int, count: int) -> float:
    """The variance of a rating less the mean of all."""
    own = covariance[index][index] - 2 * math.fsum(covariance[index][:count]) / count
    return max(0.0, own + math.fsum(math.fsum(row[:count]) for row in covariance[:count]) / count**2)
