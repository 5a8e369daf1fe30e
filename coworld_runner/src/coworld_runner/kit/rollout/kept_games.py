"""Which of many games are worth a replay: those that failed, were lost or came out unusually, a bounded number of each.

The first of each kind are kept, so that which games these are does not depend on how many processes play them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal

__all__ = ["EACH", "KeptGames", "KeptKind"]

KeptKind = Literal["", "asked", "failed", "lost", "unusual"]
"""Why a game is kept; empty: it is not."""

EACH: Final = 20
"""Games of each kind that are kept, beside those that are asked for."""

_KNOWN: Final = 16
"""Scores that must be known before another is unusual."""


class KeptGames:
    """Counts games as they end, and chooses."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._known = 0
        self._mean = 0.0
        self._squares = 0.0

    def choose(self, scores: Sequence[float] | None, *, asked: bool, failed: bool, focus: Sequence[int]) -> KeptKind:
        """Say why a game is kept, if it is.

        Args:
            scores: Its scores; None if it has none.
            asked: Whether it is kept in any case.
            failed: Whether a player failed, missed a turn, or had an action refused.
            focus: The seats of the player that is measured.
        """
        mine = [scores[slot] for slot in focus] if scores is not None else []
        usual = not mine or self._usual(math.fsum(mine) / len(mine))
        if asked:
            return "asked"
        if failed or scores is None:
            return self.counted("failed")
        others = [score for slot, score in enumerate(scores) if slot not in focus]
        if mine and others and max(mine) < max(others):
            return self.counted("lost")
        return "" if usual else self.counted("unusual")

    def counted(self, kind: KeptKind) -> KeptKind:
        """The kind, as long as not too many of it are kept."""
        self._counts[kind] += 1
        return kind if kind == "asked" or self._counts[kind] <= EACH else ""

    def _usual(self, score: float) -> bool:
        """Whether a score is within three deviations of the mean so far."""
        apart = score - self._mean
        usual = self._known < _KNOWN or abs(apart) <= 3 * math.sqrt(self._squares / self._known)
        self._known += 1
        self._mean += apart / self._known
        self._squares += apart * (score - self._mean)
        return usual
