"""Who is better than whom among several? A round robin of blocks, ratings, and who is not told apart yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from ..episode.record import EpisodeRow, SeatRow
from ..records import Record
from .designs import Lineup, round_robin
from .judging import JudgedBlock
from .ratings import pairings, rate
from .reports import Evaluation, EvaluationPlan, EvaluationReport, IntervalRecord, rounded

__all__ = ["PairRecord", "Ranking", "RankingPlan", "RankingReport", "Standing", "player_labels", "rank_rows"]


class RankingPlan(EvaluationPlan):
    """What a ranking is about: everything that its report depends on besides the rows."""

    entrants: tuple[SeatRow, ...] = Field(min_length=2, description="Who is ranked.")

    def players(self) -> dict[str, SeatRow]:
        """Who is measured, by label."""
        return dict(zip(player_labels(len(self.entrants)), self.entrants, strict=True))


class Standing(Record):
    """Where a player stands."""

    label: str = Field(description="What it is called in the plan.")
    points: float = Field(description="Its rating: 400 more make ten wins to one loss; the mean of all is 0.")
    interval: IntervalRecord = Field(description="Of that rating.")


class PairRecord(Record):
    """How two players did in the blocks that both were in."""

    first: str = Field(description="Label of the one.")
    second: str = Field(description="Label of the other.")
    won: int = Field(ge=0, description="Blocks in which the first scored more.")
    lost: int = Field(ge=0, description="Blocks in which it scored less.")
    drawn: int = Field(ge=0, description="Blocks in which both scored the same.")
    apart: bool = Field(description="Whether that tells them apart.")


class RankingReport(EvaluationReport):
    """What a ranking came to."""

    plan: RankingPlan = Field(description="Who was ranked.")
    standings: tuple[Standing, ...] = Field(description="The ratings, the best first.")
    pairs: tuple[PairRecord, ...] = Field(description="Every two players who met.")


class Ranking(Evaluation[RankingPlan, RankingReport]):
    """A ranking while it goes on; over when everybody is told apart.

    Args:
        plan: Who is ranked.
    """

    def __init__(self, plan: RankingPlan) -> None:
        super().__init__(plan)
        self._labels = player_labels(len(plan.entrants))

    def lineups(self, block: int) -> Sequence[Lineup]:
        """The lineups of a block."""
        return round_robin(self._labels, self.plan.seats, block, seed=self.plan.seed)

    def look(self, block: JudgedBlock) -> str:
        """Take in a block, and say why no more are needed; empty while more are."""
        count = len(self._labels)
        # to look at every pair costs more than a block: once for as many blocks as there are pairs
        if block.block % (count * (count - 1) // 2):
            return ""
        found = self._pairs()
        everybody = len(found) == count * (count - 1) // 2
        return "told_apart" if everybody and all(pair.apart for pair in found) else ""

    def report(self) -> RankingReport:
        """What it came to; the same for the same rows, however they are ordered."""
        standings = [
            Standing(
                label=rating.label,
                points=rounded(rating.points),
                interval=IntervalRecord(low=rounded(rating.low), high=rounded(rating.high), method="model"),
            )
            for rating in rate(block.scores for block in self.counted)
        ]
        return RankingReport.model_validate(
            {**self.common(), "plan": self.plan, "standings": tuple(standings), "pairs": tuple(self._pairs())}
        )

    def _pairs(self) -> list[PairRecord]:
        found = pairings((block.scores for block in self.counted), players=len(self._labels), alpha=self.plan.alpha)
        return [
            PairRecord(
                first=pair.first,
                second=pair.second,
                won=pair.won,
                lost=pair.lost,
                drawn=pair.drawn,
                apart=pair.apart,
            )
            for pair in found
        ]


def player_labels(count: int) -> list[str]:
    """What players are called in a ranking: by their places in the plan, so that they sort as they stand there."""
    return [f"player-{number:0{len(str(count))}d}" for number in range(1, count + 1)]


def rank_rows(plan: RankingPlan, rows: Iterable[EpisodeRow]) -> RankingReport:
    """Say what the rows of a ranking come to.

    Args:
        plan: Who was ranked (``plan.json``).
        rows: The episodes, in any order (``episodes.jsonl``).
    """
    return Ranking(plan).over(rows)
