"""Ratings from whole rankings: Plackett and Luce's model, fitted to all blocks at once.

The model treats a ranking as a sequence of choices: the first place among all players, the next among those left, and
so on, each in proportion to strength. Tied players share their places: at each of these places, a tied player is still
available to the extent that it would be on average over the possible orders of the tie (Efron's method, as in Cox
regression, which has the same partial likelihood). Points, prior and the mean of 0 are those of `ratings`.

Intervals come from a bootstrap over blocks, in which each resample takes one step of Newton's method from the fit, or
from the curvature of the likelihood if that is wider: a bootstrap has no width for a player that has won everything.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist

from .rating_fit import POINTS, PRIOR, Matrix, Rankings, Rating, about_mean, climb, inverse, product, times

__all__ = ["rate_rankings"]

_MOST_BLOCKS = 5_000
"""Above this many blocks, the covariance gives the same intervals as resampling."""
_WORK = 1_000_000
"""Blocks to draw for all resamples together."""

_Stage = tuple[tuple[int, float], ...]
"""A choice: the players that are still available, each with the extent to which it is."""


class _Kind:
    """A distinct ranking and how often it occurred.

    Args:
        ranking: Players and their ranks.
        count: How often it occurred.
    """

    def __init__(self, ranking: Sequence[tuple[int, int]], count: int) -> None:
        self.count = count
        self.chosen: list[int] = []
        self.stages: list[_Stage] = []
        for rank in sorted({rank for _, rank in ranking}, reverse=True):
            tied = [player for player, other in ranking if other == rank]
            left = [(player, 1.0) for player, other in ranking if other < rank]
            for turn in range(len(tied)):
                stage = (*((player, 1 - turn / len(tied)) for player in tied), *left)
                # There is no choice when only one player is left
                if len(stage) > 1:
                    self.stages.append(stage)
                    self.chosen.append(tied[turn])

    def likelihood(self, worth: Sequence[float], point: Sequence[float]) -> float:
        """The log-likelihood of one ranking of this kind."""
        return sum(point[player] for player in self.chosen) - sum(
            math.log(sum(share * worth[player] for player, share in stage)) for stage in self.stages
        )

    def choices(self, worth: Sequence[float]) -> Iterable[list[tuple[int, float]]]:
        """Yield the probabilities of the available players, choice by choice."""
        for stage in self.stages:
            total = sum(share * worth[player] for player, share in stage)
            yield [(player, share * worth[player] / total) for player, share in stage]

    def add_gradient(self, worth: Sequence[float], to: list[float], weight: float) -> None:
        """Add the gradient of the log-likelihood of one ranking of this kind, times a weight."""
        for player in self.chosen:
            to[player] += weight
        for chances in self.choices(worth):
            for player, chance in chances:
                to[player] -= weight * chance


def rate_rankings(blocks: Iterable[Mapping[str, float]], *, level: float = 0.95) -> list[Rating]:
    """Rate all players that played; the order of the blocks does not matter.

    Args:
        blocks: Each player's score in a block, by label; higher is better.
        level: How often an interval contains the true rating.
    """
    labels, known = Rankings.of(blocks).counted()
    if not labels:
        return []
    count = len(labels)
    kinds = [_Kind(ranking, often) for ranking, often in known.items()]
    place = climb(
        count,
        lambda there: _likelihood(kinds, there),
        lambda there: times(inverse(_curvature(kinds, there)), _gradient(kinds, there)),
    )
    bread = inverse(_curvature(kinds, place))
    worth = _worths(place)
    scores: list[list[float]] = []
    for kind in kinds:
        score = [0.0] * count
        kind.add_gradient(worth, score, 1.0)
        scores.append(score)
    middle = math.fsum(place) / count
    wide = NormalDist().inv_cdf((1 + level) / 2)
    ends = _resampled(kinds, scores, bread, level) or _by_covariance(kinds, scores, bread, wide)
    found: list[Rating] = []
    for index, label in enumerate(labels):
        points, model = (place[index] - middle) * POINTS, wide * math.sqrt(about_mean(bread, index, count)) * POINTS
        low, high = points + ends[index][0] * POINTS, points + ends[index][1] * POINTS
        if high - low < 2 * model:
            found.append(Rating(label=label, points=points, low=points - model, high=points + model))
        else:
            found.append(Rating(label=label, points=points, low=low, high=high, method="bootstrap"))
    return found


def _resampled(
    kinds: Sequence[_Kind], scores: Sequence[Sequence[float]], bread: Matrix, level: float
) -> list[tuple[float, float]]:
    """How far resamples deviate from the fit, by player; empty above `_MOST_BLOCKS`."""
    blocks = sum(kind.count for kind in kinds)
    if blocks > _MOST_BLOCKS:
        return []
    moved = [times(bread, score) for score in scores]
    means = [math.fsum(move) / len(move) for move in moved]
    moved = [[value - mean for value in move] for move, mean in zip(moved, means, strict=True)]
    # Centred on the step for the blocks themselves, which is the pull of the prior
    rest = [
        math.fsum(kind.count * move[index] for kind, move in zip(kinds, moved, strict=True))
        for index in range(len(bread))
    ]
    chance = random.Random(0)
    numbers, weights = range(len(kinds)), [kind.count for kind in kinds]
    draws: list[list[float]] = []
    for _ in range(max(200, min(2_000, _WORK // blocks))):
        drawn = Counter(chance.choices(numbers, weights, k=blocks))
        draws.append(
            [
                sum(often * moved[kind][index] for kind, often in drawn.items()) - rest[index]
                for index in range(len(bread))
            ]
        )
    tail = round((1 - level) / 2 * len(draws))
    ends: list[tuple[float, float]] = []
    for index in range(len(bread)):
        ordered = sorted(draw[index] for draw in draws)
        ends.append((ordered[tail], ordered[-1 - tail]))
    return ends


def _by_covariance(
    kinds: Sequence[_Kind], scores: Sequence[Sequence[float]], bread: Matrix, wide: float
) -> list[tuple[float, float]]:
    size = len(bread)
    meat = [[0.0] * size for _ in range(size)]
    for kind, score in zip(kinds, scores, strict=True):
        for row, value in enumerate(score):
            if value:
                for column, other in enumerate(score):
                    meat[row][column] += kind.count * value * other
    robust = product(product(bread, meat), bread)
    halves = [wide * math.sqrt(about_mean(robust, index, size)) for index in range(size)]
    return [(-half, half) for half in halves]


def _worths(point: Sequence[float]) -> list[float]:
    top = max(point)
    return [math.exp(value - top) for value in point]


def _likelihood(kinds: Sequence[_Kind], point: Sequence[float]) -> float:
    worth, top = _worths(point), max(point)
    shifted = [value - top for value in point]
    prior = -PRIOR / 2 * math.fsum(value * value for value in point)
    return prior + math.fsum(kind.count * kind.likelihood(worth, shifted) for kind in kinds)


def _gradient(kinds: Sequence[_Kind], point: Sequence[float]) -> list[float]:
    worth, gradient = _worths(point), [-PRIOR * value for value in point]
    for kind in kinds:
        kind.add_gradient(worth, gradient, kind.count)
    return gradient


def _curvature(kinds: Sequence[_Kind], point: Sequence[float]) -> Matrix:
    """The negative Hessian of the log-likelihood, with the prior."""
    worth, size = _worths(point), len(point)
    matrix = [[PRIOR if row == column else 0.0 for column in range(size)] for row in range(size)]
    for kind in kinds:
        for chances in kind.choices(worth):
            for row, one in chances:
                line, weight = matrix[row], kind.count * one
                line[row] += weight
                for column, other in chances:
                    line[column] -= weight * other
    return matrix
