"""Ratings of players, from their relative results in each block.

The default is Bradley and Terry's model with ties after Davidson, fitted to all blocks at once, so that the order of
the blocks does not matter. A block of more than two players counts as all the pairs in it; Plackett and Luce's model
(`plackett`) rates whole rankings instead. Points are on Elo's scale: 400 points more mean ten wins per loss. The mean
is 0. A weak prior (normal, 1,000 points wide) keeps the rating of a player that has won everything finite.

Intervals come from the curvature of the likelihood or from the variation between blocks (the sandwich estimate, which
allows for the dependence of pairs in a block), whichever is wider: a bootstrap over blocks would have no width for a
player that has won everything. Above `EXACT` players, whose covariances would take time that grows with the cube of
their number, intervals are approximated from each player's own games and its opponents' (`sparse_fit`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

from .estimates import Doubt, firm_evidence
from .rating_fit import POINTS, PRIOR, Rankings, Rating, about_mean, climb, inverse, product, times
from .sparse_fit import Sparse, dense, marginal_variances, solve

__all__ = ["EXACT", "Pairing", "Rating", "RatingName", "pairings", "rate"]

EXACT = 128
"""The most players whose covariances are computed."""

RatingName = Literal["bradley-terry", "plackett-luce", "openskill"]
"""How players are rated: pair by pair, by whole rankings, or game by game."""

_Signature = tuple[tuple[int, int, int], ...]
"""The outcome of a block, for each pair: first player, second player, and 0 or 1 for the winner or 2 for a tie."""


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """The results of two players against each other."""

    first: str
    second: str
    won: int
    """Blocks in which the first did better."""
    lost: int
    drawn: int
    apart: bool
    """Whether these results tell them apart."""


def rate(
    blocks: Iterable[Mapping[str, float]], *, by: RatingName = "bradley-terry", level: float = 0.95
) -> list[Rating]:
    """Rate all players that played.

    Args:
        blocks: Each player's score in a block, by label; higher is better. Their order matters only to `openskill`.
        by: The rating model.
        level: How often an interval contains the true rating.

    Returns:
        The ratings, the best first; equal ones are sorted by label.

    Raises:
        EnvironmentFault: Code `not_installed` if openskill is needed and not installed.
    """
    if by == "plackett-luce":
        from .plackett_luce import rate_rankings

        ratings = rate_rankings(blocks, level=level)
    elif by == "openskill":
        from .openskill import rate_online

        ratings = rate_online(blocks, level=level)
    else:
        ratings = _rate_pairs(blocks, level=level)
    # Further digits would tell equal players apart
    ratings = [replace(rating, points=round(rating.points, 6) + 0.0) for rating in ratings]
    return sorted(ratings, key=lambda rating: (-rating.points, rating.label))


def _rate_pairs(blocks: Iterable[Mapping[str, float]], *, level: float) -> list[Rating]:
    labels, categories = _categories(blocks)
    count = len(labels)
    if not count:
        return []
    ties = any(outcome == 2 for signature in categories for _, _, outcome in signature)
    size = count + ties
    counts: Counter[tuple[int, int, int]] = Counter()
    for signature, often in categories.items():
        for pair in signature:
            counts[pair] += often

    def step(there: Sequence[float]) -> list[float]:
        curvature, gradient = _curvature(counts, there, count), _gradient(counts, there, count)
        return solve(curvature, gradient) if count > EXACT else times(inverse(dense(curvature)), gradient)

    place = climb(size, lambda there: _likelihood(counts, there, count), step)
    curvature = _curvature(counts, place, count)
    gradients = ((_residuals(signature, place, count), often) for signature, often in categories.items())
    variances = _variances(curvature, gradients, count, exact=count <= EXACT)
    width = NormalDist().inv_cdf((1 + level) / 2) * POINTS
    return [
        Rating(
            label=labels[index],
            points=place[index] * POINTS,
            low=place[index] * POINTS - width * math.sqrt(variance),
            high=place[index] * POINTS + width * math.sqrt(variance),
        )
        for index, variance in enumerate(variances)
    ]


def _residuals(signature: _Signature, place: Sequence[float], count: int) -> dict[int, float]:
    """The gradient of one block, by parameter."""
    gradient: dict[int, float] = {}
    for first, second, outcome in signature:
        stats, shares = _outcomes(place, first, second, count)
        for statistic, share in [(stats[outcome], 1.0), *((stat, -p) for stat, p in zip(stats, shares, strict=True))]:
            for index, value in statistic:
                gradient[index] = gradient.get(index, 0.0) + share * value
    return gradient


def _variances(
    curvature: Sparse, gradients: Iterable[tuple[Mapping[int, float], int]], count: int, *, exact: bool
) -> list[float]:
    """The variance of each rating's difference from the mean, by curvature or between blocks, whichever is wider.

    Args:
        curvature: The negative Hessian, with the prior.
        gradients: The gradient of each kind of block, and how often it occurred.
        count: Number of players.
        exact: Whether to compute the covariances of all players.
    """
    if not exact:
        between = [0.0] * count
        for gradient, often in gradients:
            for index, value in gradient.items():
                if index < count:
                    between[index] += often * value * value
        # A player's own games decide how far the variation between blocks exceeds what the model expects
        return [
            variance * max(1.0, between[index] / (curvature[index][index] - PRIOR))
            for index, variance in enumerate(marginal_variances(curvature, count))
        ]
    size = len(curvature)
    bread, meat = inverse(dense(curvature)), [[0.0] * size for _ in range(size)]
    for gradient, often in gradients:
        for row, value in gradient.items():
            for column, other in gradient.items():
                meat[row][column] += often * value * other
    robust = product(product(bread, meat), bread)
    return [max(about_mean(bread, index, count), about_mean(robust, index, count)) for index in range(count)]


def pairings(
    blocks: Iterable[Mapping[str, float]], *, players: int | None = None, alpha: float = 0.05
) -> list[Pairing]:
    """Compare every pair of players that met, and say whether the results tell them apart.

    The pairs share the risk of an error by Holm's procedure for e-values: of all pairs that are not told apart yet, the
    one with the most evidence needs their number / alpha. So pairs that are easy to tell apart help the others.

    Args:
        blocks: Each player's score in a block, by label.
        players: Number of players, if not all of them have played yet.
        alpha: How often any equally strong players may be told apart, among all pairs and however often it is checked.
    """
    rankings = Rankings.of(blocks)
    labels, categories = _categories(rankings)
    met: dict[tuple[int, int], list[int]] = {}
    for signature, often in categories.items():
        for first, second, outcome in signature:
            met.setdefault((first, second), [0, 0, 0])[outcome] += often
    count = players or len(labels)
    most = count * (count - 1) // 2
    evidence = {
        pair: firm_evidence(won, lost, rankings.doubts.get((labels[pair[0]], labels[pair[1]]), Doubt()))
        for pair, (won, lost, _) in sorted(met.items())
    }
    apart = set[tuple[int, int]]()
    for pair in sorted(evidence, key=lambda one: (-evidence[one], one)):
        if evidence[pair] < (most - len(apart)) / alpha:
            break
        apart.add(pair)
    return [
        Pairing(
            first=labels[first],
            second=labels[second],
            won=won,
            lost=lost,
            drawn=drawn,
            apart=(first, second) in apart,
        )
        for (first, second), (won, lost, drawn) in sorted(met.items())
    ]


def _categories(blocks: Iterable[Mapping[str, float]]) -> tuple[list[str], Counter[_Signature]]:
    """The players, and how often each outcome of a block occurs: a million games have few distinct ones."""
    everybody, known = Rankings.of(blocks).counted()
    categories: Counter[_Signature] = Counter()
    for ranking, often in known.items():
        signature = tuple(
            (one, other, 2 if rank == least else int(rank < least))
            for at, (one, rank) in enumerate(ranking)
            for other, least in ranking[at + 1 :]
        )
        categories[signature] += often
    return everybody, Counter(dict(sorted(categories.items())))


_Statistic = tuple[tuple[int, float], ...]


def _outcomes(point: Sequence[float], first: int, second: int, count: int) -> tuple[list[_Statistic], list[float]]:
    """For each outcome of a pair: the parameters that its logit sums, with their weights, and its probability."""
    stats: list[_Statistic] = [((first, 1.0),), ((second, 1.0),)]
    if len(point) > count:
        stats.append(((first, 0.5), (second, 0.5), (count, 1.0)))
    logits = [sum(point[index] * value for index, value in stat) for stat in stats]
    top = max(logits)
    weights = [math.exp(logit - top) for logit in logits]
    total = sum(weights)
    return stats, [weight / total for weight in weights]


def _likelihood(counts: Mapping[tuple[int, int, int], int], point: Sequence[float], count: int) -> float:
    total = -PRIOR / 2 * math.fsum(value * value for value in point)
    for (first, second, outcome), often in counts.items():
        total += often * math.log(max(_outcomes(point, first, second, count)[1][outcome], 1e-300))
    return total


def _curvature(counts: Mapping[tuple[int, int, int], int], point: Sequence[float], count: int) -> Sparse:
    """The negative Hessian of the log-likelihood, with the prior."""
    size = len(point)
    matrix: Sparse = [{row: PRIOR} for row in range(size)]
    met: Counter[tuple[int, int]] = Counter()
    for (first, second, _), often in counts.items():
        met[first, second] += often
    for (first, second), often in met.items():
        stats, shares = _outcomes(point, first, second, count)
        mean: Counter[int] = Counter()
        for stat, share in zip(stats, shares, strict=True):
            for row, value in stat:
                mean[row] += share * value  # pyright: ignore[reportArgumentType]
                for column, other in stat:
                    matrix[row][column] = matrix[row].get(column, 0.0) + often * share * value * other
        for row, value in mean.items():
            for column, other in mean.items():
                matrix[row][column] = matrix[row].get(column, 0.0) - often * value * other
    return matrix


def _gradient(counts: Mapping[tuple[int, int, int], int], point: Sequence[float], count: int) -> list[float]:
    gradient = [-PRIOR * value for value in point]
    for (first, second, outcome), often in counts.items():
        stats, shares = _outcomes(point, first, second, count)
        for index, value in stats[outcome]:
            gradient[index] += often * value
        for stat, share in zip(stats, shares, strict=True):
            for index, value in stat:
                gradient[index] -= often * share * value
    return gradient
