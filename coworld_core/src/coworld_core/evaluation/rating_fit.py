"""What the rating models share: compact rankings, maximum likelihood by Newton's method, and matrices."""

from __future__ import annotations

import itertools
import math
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from .estimates import Doubt

__all__ = [
    "POINTS",
    "PRIOR",
    "Matrix",
    "Rankings",
    "RankingsState",
    "Rating",
    "about_mean",
    "climb",
    "inverse",
    "product",
    "times",
]

POINTS = 400 / math.log(10)
"""Elo points per natural unit of strength."""
PRIOR = (POINTS / 1000) ** 2
"""Precision of the prior of a rating, which is normal and 1,000 points wide."""
Matrix = list[list[float]]
_SMALL = 1e-7


@dataclass(frozen=True, kw_only=True)
class Rating:
    """A player's rating and its interval."""

    label: str
    points: float
    low: float
    high: float
    method: Literal["model", "bootstrap"] = "model"
    """How the interval was computed."""


_Ranking = tuple[tuple[str, ...], tuple[int, ...]]
"""The labels of a block's players, and their ranks: greater is better, and equal ranks are ties."""


class RankingsState(NamedTuple):
    """The stored form of `Rankings`."""

    kinds: tuple[_Ranking, ...]
    often: tuple[int, ...]
    blocks: tuple[int, ...]
    """The kind of each block; empty if the order of the blocks does not matter."""
    doubts: tuple[tuple[str, str, Doubt], ...] = ()
    """The doubts about pairs of players."""


class Rankings:
    """The rankings of players, block by block.

    A million games have only a few kinds of rankings, so each block takes four bytes: the number of its kind.

    Args:
        blocks: Each player's score in a block, by label; higher is better.

    Attributes:
        doubts: What blocks that were not counted, or were played again, take from whoever leads a pair.
    """

    def __init__(self, blocks: Iterable[Mapping[str, float]] = ()) -> None:
        self._numbers: dict[_Ranking, int] = {}
        self._kinds: list[_Ranking] = []
        self._often: list[int] = []
        self._blocks = array("L" if array("I").itemsize < 4 else "I")
        self._unordered: tuple[int, ...] = ()
        self.doubts: dict[tuple[str, str], Doubt] = {}
        for block in blocks:
            self.add(block)

    @classmethod
    def of(cls, blocks: Iterable[Mapping[str, float]]) -> Rankings:
        """The rankings of some blocks; if they are `Rankings` already, they are returned unchanged."""
        return blocks if isinstance(blocks, cls) else cls(blocks)

    @classmethod
    def resumed(cls, state: RankingsState) -> Rankings:
        """Create rankings that continue from a stored state."""
        rankings = cls()
        rankings._kinds, rankings._often = list(state.kinds), list(state.often)
        rankings._numbers = {kind: number for number, kind in enumerate(state.kinds)}
        rankings._blocks.extend(state.blocks)
        rankings._unordered = () if state.blocks else state.often
        rankings.doubts = {(first, second): Doubt(*doubt) for first, second, doubt in state.doubts}
        return rankings

    def state(self, *, in_order: bool) -> RankingsState:
        """The state to store; `resumed` continues from it.

        Args:
            in_order: Whether to keep the order of the blocks; without it, the state does not grow with their number.
        """
        doubts = tuple((*pair, doubt) for pair, doubt in self.doubts.items())
        return RankingsState(tuple(self._kinds), tuple(self._often), tuple(self._blocks) if in_order else (), doubts)

    def add(self, block: Mapping[str, float]) -> None:
        """Add a block."""
        labels = tuple(sorted(block))
        scores = [block[label] for label in labels]
        ranks = {score: rank for rank, score in enumerate(sorted(set(scores)))}
        kind = labels, tuple([ranks[score] for score in scores])
        number = self._numbers.setdefault(kind, len(self._kinds))
        if number == len(self._kinds):
            self._kinds.append(kind)
            self._often.append(0)
        self._often[number] += 1
        self._blocks.append(number)

    def doubt(self, doubts: Mapping[tuple[str, str], Doubt]) -> None:
        """Add the doubts of a block, by pair of labels, sorted."""
        for pair, doubt in doubts.items():
            self.doubts[pair] = self.doubts.get(pair, Doubt()).plus(doubt)

    def __iter__(self) -> Iterator[dict[str, float]]:
        """The blocks in order, with ranks for scores; blocks stored without their order come first."""
        unordered = (number for number, often in enumerate(self._unordered) for _ in range(often))
        for number in itertools.chain(unordered, self._blocks):
            labels, ranks = self._kinds[number]
            yield dict(zip(labels, ranks, strict=True))

    def among(self, names: Collection[str]) -> Rankings:
        """The same blocks with only the given players."""
        found = Rankings({name: rank for name, rank in block.items() if name in names} for block in self)
        found.doubt({pair: doubt for pair, doubt in self.doubts.items() if all(name in names for name in pair)})
        return found

    def counted(self) -> tuple[list[str], Counter[tuple[tuple[int, int], ...]]]:
        """The labels of all players, and how often each ranking occurs: pairs of a player's index and its rank."""
        everybody = sorted({label for labels, _ in self._kinds for label in labels})
        place = {label: index for index, label in enumerate(everybody)}
        found = {
            tuple((place[label], rank) for label, rank in zip(labels, ranks, strict=True)): count
            for (labels, ranks), count in zip(self._kinds, self._often, strict=True)
        }
        # Sorted, because sums of floating-point numbers depend on their order
        return everybody, Counter(dict(sorted(found.items())))


def climb(
    size: int, likelihood: Callable[[Sequence[float]], float], newton: Callable[[Sequence[float]], Sequence[float]]
) -> list[float]:
    """Find the parameters that maximise a likelihood with a single maximum, by Newton's method.

    Args:
        size: Number of parameters.
        likelihood: The logarithm of the likelihood.
        newton: Newton's step: the gradient of that logarithm, multiplied by the inverse of its negative Hessian.
    """
    place = [0.0] * size
    best = likelihood(place)
    for _ in range(200):
        step = newton(place)
        if max(map(abs, step), default=0.0) < _SMALL:
            # So near, each step squares the error, and the likelihood is too coarse to judge it
            return [value + change for value, change in zip(place, step, strict=True)]
        length = 1.0
        while True:
            there = [value + length * change for value, change in zip(place, step, strict=True)]
            reached = likelihood(there)
            if reached >= best or length < 1e-6:
                break
            length /= 2
        if reached >= best:
            place, best = there, reached
        if length < 1e-6:
            break
    return place


def times(matrix: Matrix, vector: Sequence[float]) -> list[float]:
    """The product of a matrix and a vector."""
    return [math.fsum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def inverse(matrix: Matrix) -> Matrix:
    """The inverse of a matrix."""
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


def product(a: Matrix, b: Matrix) -> Matrix:
    """The product of two matrices."""
    columns = list(zip(*b, strict=True))
    return [[math.fsum(x * y for x, y in zip(row, column, strict=True)) for column in columns] for row in a]


def about_mean(covariance: Matrix, index: int, count: int) -> float:
    """The variance of the difference between a rating and the mean of all ratings."""
    own = covariance[index][index] - 2 * math.fsum(covariance[index][:count]) / count
    return max(0.0, own + math.fsum(math.fsum(row[:count]) for row in covariance[:count]) / count**2)
