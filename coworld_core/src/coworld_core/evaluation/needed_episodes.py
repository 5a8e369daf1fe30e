"""Which episodes an evaluation needs next, in the order in which they are best played."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from ..episode.record import EpisodeRow
from .designs import Lineup, parse_key
from .report_base import Evaluation

__all__ = ["NeededEpisodes"]


class NeededEpisodes:
    """The missing episodes of an evaluation, each of which is handed out once; void blocks are played again.

    Once its budget is used up, these are those of blocks that have begun.

    Args:
        evaluation: The evaluation, with its existing rows.
    """

    def __init__(self, evaluation: Evaluation[Any, Any]) -> None:
        self._evaluation = evaluation
        self._asked: set[str] = set()
        self._at = 0
        self._spoilt: set[int] = set()
        self._begun: set[int] = set()

    def next(self) -> tuple[int, str, Lineup] | None:
        """The first episode that is missing in the first incomplete block, possibly a replayed one; None: none is.

        Returns:
            The number of the block, the key of the episode, and who sits where.
        """
        ledger = self._evaluation.ledger
        self._at = max(self._at, ledger.judged + 1)
        blocks: Iterable[int] = range(self._at, self._evaluation.last_block + 1)
        if self._evaluation.over_budget:
            blocks = sorted(self._begun | ledger.begun)
        for block in itertools.chain(sorted(self._spoilt), blocks):
            for key, lineup in ledger.missing(block):
                if key not in self._asked:
                    return block, key, lineup
            self._spoilt.discard(block)
            # All of it is being played
            self._at = max(self._at, block + 1)
        return None

    def take(self) -> tuple[int, str, Lineup] | None:
        """The next episode, which is not handed out again."""
        found = self.next()
        if found is not None:
            self._asked.add(found[1])
            self._begun.add(found[0])
        return found

    def note(self, row: EpisodeRow) -> None:
        """Note that an episode has ended, which may have spoiled its block."""
        if (not row.ok or row.starved) and (place := parse_key(row.key)) is not None:
            self._spoilt.add(place[0])

    def restart(self) -> None:
        """Look at all blocks again, for example because more are allowed."""
        self._at = 0
