"""Fitting ratings of many players, of whom most never met: time and memory grow with the pairs that met.

Exact but for rounding where equations are solved; variances are approximated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from .rating_fit import Matrix

__all__ = ["Sparse", "dense", "marginal_variances", "solve"]

Sparse: TypeAlias = list[dict[int, float]]
"""A symmetric matrix: of each row, the values that are not 0, by column."""

_STEPS = 1000
_EXACTLY = 1e-12
_CLOSELY = 1e-6


def dense(matrix: Sparse) -> Matrix:
    """The same matrix with all its values."""
    return [[row.get(column, 0.0) for column in range(len(matrix))] for row in matrix]


def solve(matrix: Sparse, vector: Sequence[float]) -> list[float]:
    """Solve a system of equations by conjugate gradients.

    Args:
        matrix: Symmetric and positive definite.
        vector: The right side.
    """
    rows = [(row.pop(index), list(row.items())) for index, row in enumerate(map(dict, matrix))]
    found, left = [0.0] * len(vector), list(vector)
    scaled: list[float] = [value / own for value, (own, _) in zip(left, rows, strict=True)]
    along: list[float] = scaled
    size = math.fsum(a * b for a, b in zip(left, scaled, strict=True))
    least = _EXACTLY**2 * size
    for _ in range(_STEPS):
        if size <= least or size == 0:
            break
        image: list[float] = [
            own * at + sum([value * along[column] for column, value in others])
            for at, (own, others) in zip(along, rows, strict=True)
        ]
        length = size / math.fsum(a * b for a, b in zip(along, image, strict=True))
        found = [value + length * step for value, step in zip(found, along, strict=True)]
        left = [value - length * step for value, step in zip(left, image, strict=True)]
        scaled = [value / own for value, (own, _) in zip(left, rows, strict=True)]
        before, size = size, math.fsum(a * b for a, b in zip(left, scaled, strict=True))
        along = [value + size / before * step for value, step in zip(scaled, along, strict=True)]
    return found


def marginal_variances(matrix: Sparse, count: int) -> list[float]:
    """Approximate the diagonal of the inverse, less what all players have in common, by Gaussian belief propagation.

    It is exact where the pairs that met form no loops. Where they do, what returns to a player around a loop is left
    out, which is little if it has many opponents, or meets them at random; what is returned by all, the uncertain mean,
    is left out as well.

    Args:
        matrix: Diagonally dominant, with negative values off the diagonal.
        count: How many of the first rows are of players; the others' parameters are taken as known.
    """
    own = [row[index] for index, row in enumerate(matrix[:count])]
    others = [
        [(at, value * value) for at, value in row.items() if at not in (index, *range(count, len(matrix)))]
        for index, row in enumerate(matrix[:count])
    ]
    # What each player knows without one of its opponents, by that opponent
    known = [dict.fromkeys([at for at, _ in met], precision) for met, precision in zip(others, own, strict=True)]
    total = own
    for _ in range(_STEPS):
        taken = [[square / known[at][index] for at, square in met] for index, met in enumerate(others)]
        before, total = total, [precision - math.fsum(parts) for precision, parts in zip(own, taken, strict=True)]
        for index, (met, parts) in enumerate(zip(others, taken, strict=True)):
            whole = total[index]
            known[index] = {at: whole + part for (at, _), part in zip(met, parts, strict=True)}
        if max(abs(new / old - 1) for new, old in zip(total, before, strict=True)) < _CLOSELY:
            break
    return [1 / precision for precision in total]
