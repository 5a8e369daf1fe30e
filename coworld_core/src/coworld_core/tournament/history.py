"""What a tournament has scheduled and played, in about thirty bytes per block, so that a million games fit in memory.

Objects for single blocks and matches are created on demand.
"""

from __future__ import annotations

import dataclasses
import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, overload

from ..evaluation.block_ledger import JudgedBlock
from ..evaluation.designs import Lineup, match_lineups
from .pairing_rule import PlayedMatch
from .tournament_log import RoundScheduled, ScheduledBlock

__all__ = ["History", "HistoryState", "PlayedRounds"]

_COUNTED: Final = "counted"


class _Meeting(NamedTuple):
    """What blocks with the same players have in common."""

    name: str
    players: tuple[str, ...]
    lineup: tuple[str, ...]


class HistoryState(NamedTuple):
    """A summary of blocks that are no longer kept."""

    blocks: int = 0
    round: int = 0
    """Number of the last block's round."""
    met: tuple[tuple[tuple[str, ...], int], ...] = ()
    """How often each group of players met; players are in the order of their first seats."""


class History:
    """The blocks of a tournament, and the outcomes of those that are over.

    A commissioner's blocks are kept in full: its round may be dropped later, and then everything is added up again.

    Args:
        past: A summary of earlier blocks, which are no longer kept.
    """

    def __init__(self, past: HistoryState | None = None) -> None:
        past = past or HistoryState()
        self._past, self._past_round = past.blocks, past.round
        self._meetings: list[_Meeting] = []
        self._numbers: dict[_Meeting, int] = {}
        self._met = Counter(dict(past.met))
        # Per kept block
        self._meeting, self._match, self._turn = array("I"), array("I"), array("I")
        self._seeds: dict[int, int] = {}
        # Per finished block: where its scores begin; then all scores
        self._begin, self._scores = array("Q"), array("d")
        self._lost: dict[int, JudgedBlock] = {}
        self._whole: dict[int, JudgedBlock] = {}
        # Per round: its number, and its last block so far
        self._round, self._end = array("I"), array("Q")
        self._byes: dict[int, tuple[str, ...]] = {}
        self.last_scheduled: RoundScheduled | None = None

    @property
    def state(self) -> HistoryState:
        """A summary of all blocks, to store in place of them."""
        return HistoryState(self.scheduled, self.last_round, tuple(self._met.items()))

    @property
    def scheduled(self) -> int:
        """Number of scheduled blocks."""
        return self._past + len(self._meeting)

    @property
    def over(self) -> int:
        """Number of finished blocks."""
        return self._past + len(self._begin)

    @property
    def last_round(self) -> int:
        """Number of the last round with blocks; 0 before the first."""
        return self._round[-1] if self._round else self._past_round

    # --- adding

    def schedule(self, event: RoundScheduled) -> None:
        """Add the blocks of a round, or further ones of the last round."""
        for one in event.blocks:
            meeting = _Meeting(one.name, one.players, one.lineup)
            number = self._numbers.setdefault(meeting, len(self._meetings))
            if number == len(self._meetings):
                self._meetings.append(meeting)
            self._met[one.players] += 1
            self._meeting.append(number)
            self._match.append(one.match)
            self._turn.append(self._met[one.players])
            if one.seed is not None:
                self._seeds[one.block] = one.seed
        if not self._round or self._round[-1] != event.round:
            self._round.append(event.round)
            self._end.append(0)
        self._end[-1] = self.scheduled
        if event.byes:
            self._byes[len(self._round) - 1] = event.byes
        self.last_scheduled = event

    def judge(self, block: JudgedBlock) -> None:
        """Add the outcome of the next block."""
        meeting = self._meetings[self._meeting[len(self._begin)]]
        self._begin.append(len(self._scores))
        if block.fate == _COUNTED:
            self._scores.extend([block.scores[name] for name in meeting.players])
        else:
            self._lost[block.block] = JudgedBlock(
                block=block.block, fate=block.fate, reason=block.reason, doubts=block.doubts
            )
        if meeting.lineup:
            self._whole[block.block] = block

    def leave_out(self, block: int, reason: str) -> None:
        """Discount a finished block of a commissioner."""
        self._whole[block] = dataclasses.replace(self._whole[block], fate="withdrawn", reason=reason, doubts={})
        self._lost[block] = self._whole[block]

    # --- blocks

    def block(self, number: int) -> ScheduledBlock:
        """A block as it was scheduled."""
        at, meeting = self._at(number), self._of(number)
        return ScheduledBlock(
            block=number,
            match=self._match[at],
            name=meeting.name,
            players=meeting.players,
            lineup=meeting.lineup,
            seed=self._seeds.get(number),
        )

    def blocks_of(self, number: int) -> list[ScheduledBlock]:
        """The blocks of a round."""
        at = bisect_left(self._round, number)
        return [self.block(block) for block in self._blocks_in(at)] if number in self._round[at : at + 1] else []

    def players(self, block: int) -> tuple[str, ...]:
        """The players that meet in a block."""
        return self._of(block).players

    def seed(self, block: int) -> int | None:
        """The seed scheduled for a block; None if it is drawn."""
        return self._seeds.get(block)

    def lineups(self, block: int, seats: int) -> Sequence[Lineup]:
        """The lineups of a block."""
        meeting = self._of(block)
        if meeting.lineup:
            return (meeting.lineup,)
        return match_lineups(meeting.players, seats, self._turn[self._at(block)])

    def judged(self, block: int) -> JudgedBlock:
        """The outcome of a commissioner's block."""
        return self._whole[block]

    def blocks(self) -> Iterator[JudgedBlock]:
        """All finished blocks in order; without a commissioner, they have only fates, reasons and scores."""
        for number in range(self._past + 1, self.over + 1):
            block = self._whole.get(number) or self._lost.get(number)
            yield block or JudgedBlock(block=number, fate=_COUNTED, scores=self.scores(number))

    def lost(self, since: int) -> list[JudgedBlock]:
        """The finished blocks after the given one that do not count."""
        return [self._lost[block] for block in range(since + 1, self.over + 1) if block in self._lost]

    def scores(self, block: int) -> Mapping[str, float]:
        """Each player's mean score in a finished block; empty if the block does not count."""
        if block in self._lost:
            return {}
        players, begin = self.players(block), self._begin[self._at(block)]
        return dict(zip(players, self._scores[begin : begin + len(players)], strict=True))

    # --- rounds

    def rounds(self, numbers: Collection[int], dropped: Collection[int]) -> PlayedRounds:
        """The finished rounds.

        Args:
            numbers: Rounds that are unfinished even if all their blocks are over.
            dropped: Rounds that do not count.
        """
        found: list[int] = []
        for at, (number, end) in enumerate(zip(self._round, self._end, strict=True)):
            if end > self.over or number in numbers:
                break
            if number not in dropped:
                found.append(at)
        return PlayedRounds(self, found)

    def number(self, at: int) -> int:
        """Number of a round; `at` is its index."""
        return self._round[at]

    def matches(self, at: int) -> tuple[PlayedMatch, ...]:
        """The matches of a finished round."""
        matches: dict[int, list[int]] = {}
        for block in self._blocks_in(at):
            matches.setdefault(self._match[self._at(block)], []).append(block)
        played = [self._played(blocks) for blocks in matches.values()]
        return (*played, *(PlayedMatch(players=(name,), name="bye") for name in self._byes.get(at, ())))

    def match_count(self, at: int) -> int:
        """Number of matches of a finished round, byes included."""
        blocks = self._blocks_in(at)
        return len({*self._match[self._at(blocks.start) : self._at(blocks.stop)]}) + len(self._byes.get(at, ()))

    def _blocks_in(self, at: int) -> range:
        return range((self._end[at - 1] if at else self._past) + 1, self._end[at] + 1)

    def _at(self, block: int) -> int:
        """Index of a block in the arrays of kept blocks."""
        return block - 1 - self._past

    def _of(self, block: int) -> _Meeting:
        return self._meetings[self._meeting[self._at(block)]]

    def _played(self, blocks: Sequence[int]) -> PlayedMatch:
        meeting = self._of(blocks[0])
        counted = [scores for block in blocks if (scores := self.scores(block))]
        means = counted[0] if len(counted) == 1 else _means(meeting.players, counted)
        return PlayedMatch(players=meeting.players, name=meeting.name, scores=means)


class PlayedRounds(Sequence[tuple[PlayedMatch, ...]]):
    """The matches of the finished rounds, created on demand.

    Args:
        history: The history that contains the rounds.
        rounds: The index of each round in it.
    """

    def __init__(self, history: History, rounds: Sequence[int]) -> None:
        self._history = history
        self._rounds = rounds

    def __len__(self) -> int:
        return len(self._rounds)

    @overload
    def __getitem__(self, index: int) -> tuple[PlayedMatch, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[tuple[PlayedMatch, ...], ...]: ...
    def __getitem__(self, index: int | slice) -> tuple[PlayedMatch, ...] | tuple[tuple[PlayedMatch, ...], ...]:
        if isinstance(index, slice):
            return tuple(map(self._history.matches, self._rounds[index]))
        return self._history.matches(self._rounds[index])

    @property
    def match_count(self) -> int:
        """Number of matches in all rounds, byes included."""
        return sum(map(self._history.match_count, self._rounds))

    def numbered_backwards(self) -> Iterator[tuple[int, tuple[PlayedMatch, ...]]]:
        """The rounds with their numbers, the last one first."""
        return ((self._history.number(at), self._history.matches(at)) for at in reversed(self._rounds))


def _means(players: Sequence[str], blocks: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: math.fsum(block[name] for block in blocks) / len(blocks) for name in players} if blocks else {}
