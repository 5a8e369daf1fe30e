"""Ranks several players: a round robin of blocks, ratings, and the pairs that cannot be told apart yet."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, field_validator

from ..documents.records import OpenEnum, Record
from ..episode.record import EpisodeRow, SlotRow
from .block_ledger import JudgedBlock
from .designs import Lineup, round_robin
from .estimates import Sample, Scale, least_wins
from .rating_fit import Rankings
from .ratings import Pairing, Rating, RatingName, pairings, rate
from .report_base import (
    Estimate,
    Evaluation,
    EvaluationPlan,
    IntervalRecord,
    measured_value,
    rounded,
    shared_places,
)
from .report_contents import INTERVAL, Encounter, Parts, ShownReport, Table, player_names, seats_table, shown_number

__all__ = [
    "Margins",
    "PairRecord",
    "Ranking",
    "RankingPlan",
    "RankingReport",
    "Standing",
    "encounters",
    "least_ranking_blocks",
    "not_apart",
    "pair_records",
    "player_labels",
    "rank_rows",
    "rating_interval",
]


class RankingPlan(EvaluationPlan):
    """The plan of a ranking: everything its report depends on besides the rows."""

    kind: Literal["rank"] = "rank"  # pyright: ignore[reportIncompatibleVariableOverride]
    entrants: tuple[SlotRow, ...] = Field(min_length=2, description="The ranked players.")
    rating: Annotated[RatingName, OpenEnum] = Field(default="bradley-terry", description="How players are rated.")

    def players(self) -> dict[str, SlotRow]:
        """The measured players, by label."""
        return dict(zip(player_labels(len(self.entrants)), self.entrants, strict=True))


class Standing(Record):
    """A player's place in the standings."""

    rank: int = Field(default=0, ge=0, description="Its place; equal ratings share one.")
    label: str = Field(description="Label of the player.")
    rating: float = Field(description="Its rating: 400 points more mean ten wins per loss; the mean is 0.")
    interval: IntervalRecord = Field(description="Interval of the rating.")


class PairRecord(Record):
    """The results of two players in the blocks they shared."""

    first: str = Field(description="Label of the first player.")
    second: str = Field(description="Label of the second player.")
    won: int = Field(ge=0, description="Blocks in which the first scored more.")
    lost: int = Field(ge=0, description="Blocks in which it scored less.")
    drawn: int = Field(ge=0, description="Blocks in which both scored the same.")
    apart: bool = Field(description="Whether these results tell them apart.")
    difference: float | None = Field(default=None, description="Mean of the first's score less the second's.")
    interval: IntervalRecord | None = Field(default=None, description="Its interval; null if there are too few blocks.")


class RankingReport(ShownReport):
    """The result of a ranking."""

    plan: RankingPlan = Field(description="The plan of the ranking.")  # pyright: ignore[reportIncompatibleVariableOverride]
    standings: tuple[Standing, ...] = Field(description="The ratings, the best first.")
    pairs: tuple[PairRecord, ...] = Field(description="Every pair of players that met.")

    @field_validator("standings")
    @classmethod
    def _with_places(cls, standings: tuple[Standing, ...]) -> tuple[Standing, ...]:
        # Earlier versions wrote none
        places = shared_places([one.rating for one in standings])
        return tuple(one.model_copy(update={"rank": place}) for place, one in zip(places, standings, strict=True))

    def estimates(self) -> list[Estimate]:
        """Every measured number with its interval, the most important first."""
        players = self.plan.players()
        ratings = [
            Estimate(
                quantity="rating", of=players[standing.label].name, value=standing.rating, interval=standing.interval
            )
            for standing in self.standings
        ]
        return ratings + super().estimates()

    def sentence(self, after: str) -> str:
        """Say how many pairs are told apart."""
        if not self.standings:
            return "Nobody could be ranked."
        if self.stopped == "told_apart":
            return f"Everybody is told apart from everybody else, {after}."
        return f"{sum(pair.apart for pair in self.pairs)} of {len(self.pairs)} pairs are told apart, {after}."

    def parts(self) -> Parts:
        """The parts to display."""
        return Parts(
            tables=[_standings(self), seats_table(self)],
            facts=[
                ("Rating", self.plan.rating),
                *(("Not told apart", f"{name} from {others}") for name, others in not_apart(self)),
            ],
            quantities={"rating": True, "mean score": False, "seat effect": True},
            encounters=encounters(self.plan, self.pairs),
        )


class Ranking(Evaluation[RankingPlan, RankingReport]):
    """A ranking in progress; it ends when all players can be told apart.

    Args:
        plan: The players and the terms.

    Attributes:
        rankings: The results of its blocks.
    """

    def __init__(self, plan: RankingPlan) -> None:
        super().__init__(plan)
        self._labels = player_labels(len(plan.entrants))
        self.rankings = Rankings()

    def lineups(self, block: int) -> Sequence[Lineup]:
        """The lineups of a block."""
        return round_robin(self._labels, self.plan.slot_count, block, seed=self.plan.seed)

    @property
    def least_blocks(self) -> int | None:
        """How many blocks it takes to tell everybody apart if the same player of each pair always wins."""
        return least_ranking_blocks(len(self._labels), self.plan.slot_count, alpha=self.plan.alpha)

    def look(self, block: JudgedBlock) -> str:
        """Take in a block; return why no more are needed, or an empty string while more are."""
        if block.fate == "counted":
            self.rankings.add(block.scores)
        self.rankings.doubt(block.doubts)
        count = len(self._labels)
        # Checking every pair costs more than a block, so check only after as many blocks as there are pairs
        if block.block % (count * (count - 1) // 2):
            return ""
        found = self._pairs(self.rankings)
        everybody = len(found) == count * (count - 1) // 2
        return "told_apart" if everybody and all(pair.apart for pair in found) else ""

    def report(self) -> RankingReport:
        """The result; it does not depend on the order of the rows."""
        rankings = self.rankings if self.measured else Rankings()
        standings = [
            Standing(label=rating.label, rating=rounded(rating.points), interval=rating_interval(rating))
            for rating in rate(rankings, by=self.plan.rating)
        ]
        return RankingReport.model_validate(
            {**self.common(), "plan": self.plan, "standings": tuple(standings), "pairs": tuple(self._pairs(rankings))}
        )

    def _pairs(self, rankings: Rankings) -> list[PairRecord]:
        return pair_records(rankings, players=len(self._labels), alpha=self.plan.alpha)


def least_ranking_blocks(players: int, seats: int, *, alpha: float = 0.05) -> int:
    """How many blocks it takes to tell everybody apart if the same player of each pair always wins.

    Args:
        players: Number of players, at least two.
        seats: Number of seats in the game.
        alpha: How often any equally strong players may be told apart.
    """
    pairs = math.comb(players, 2)
    meetings = least_wins(pairs / alpha)
    # Everybody is in each block of a one-seat game, or if there are enough seats
    few = 1 < seats < players
    rounds = -(-meetings // math.comb(players - 2, seats - 2)) if few else meetings
    blocks = rounds * math.comb(players, seats) if few else rounds
    # Everybody is examined after as many blocks as there are pairs
    return -(-blocks // pairs) * pairs


def pair_records(blocks: Iterable[Mapping[str, float]], *, players: int, alpha: float) -> list[PairRecord]:
    """The result of every pair of players that met, without margins."""
    return [_pair_record(pair) for pair in pairings(blocks, players=players, alpha=alpha)]


def rating_interval(rating: Rating) -> IntervalRecord:
    """The interval of a rating, as reports record it."""
    return IntervalRecord(low=rounded(rating.low), high=rounded(rating.high), method=rating.method)


class Margins:
    """The mean score differences between players, pair by pair."""

    def __init__(self) -> None:
        self.rankings = Rankings()
        self._differences: dict[tuple[str, str], Sample] = {}

    def add(self, block: JudgedBlock) -> None:
        """Add a block."""
        self.rankings.doubt(block.doubts)
        if block.fate != "counted":
            return
        scores = block.scores
        self.rankings.add(scores)
        for first, second in itertools.combinations(sorted(scores), 2):
            self._differences.setdefault((first, second), Sample()).add(scores[first] - scores[second])

    def records(self, *, alpha: float, scale: Scale | None) -> list[PairRecord]:
        """The result, with margins, of every pair of players that met.

        Args:
            alpha: How often any two equally strong players may be told apart.
            scale: The differences that are possible, or could have been seen; None: unknown.
        """
        found: list[PairRecord] = []
        for pair in pairings(self.rankings, alpha=alpha):
            mean = measured_value(self._differences[pair.first, pair.second], scale)
            assert mean is not None
            said = {"difference": mean.value, "interval": mean.interval}
            found.append(_pair_record(pair).model_copy(update=said))
        return found


def _pair_record(pair: Pairing) -> PairRecord:
    return PairRecord(
        first=pair.first, second=pair.second, won=pair.won, lost=pair.lost, drawn=pair.drawn, apart=pair.apart
    )


def player_labels(count: int) -> list[str]:
    """Labels of the players in a ranking: numbered, and padded so that they sort in plan order."""
    return [f"player-{number:0{len(str(count))}d}" for number in range(1, count + 1)]


def rank_rows(plan: RankingPlan, rows: Iterable[EpisodeRow]) -> RankingReport:
    """Compute the report of a ranking from its rows.

    Args:
        plan: The plan of the ranking (`plan.json`).
        rows: The episodes, in any order (`episodes.jsonl`).
    """
    return Ranking(plan).over(rows)


def _standings(report: RankingReport) -> Table:
    names = player_names(report)
    measured = {entrant.label: entrant for entrant in report.entrants}
    forfeits = any(entrant.forfeits for entrant in report.entrants)
    rows: list[tuple[str, ...]] = []
    for standing in report.standings:
        interval, entrant = standing.interval, measured[standing.label]
        own = (
            f"{standing.rating:+.0f}",
            f"{interval.low:+.0f} to {interval.high:+.0f}",
            shown_number(entrant.mean_score, entrant.interval),
        )
        rows.append(
            (str(standing.rank), names[standing.label], *own, *([str(entrant.forfeits)] if forfeits else [])),
        )
    head = ("", "Player", "Rating", INTERVAL, "Mean", *(["Forfeits"] if forfeits else []))
    return Table(title="Standings", head=head, rows=tuple(rows), names=(0, 1, 3))


def not_apart(report: RankingReport) -> list[tuple[str, str]]:
    """For each player, the best first, the lower-ranked ones it is not told apart from; others are left out."""
    names = {label: player.name for label, player in report.plan.players().items()}
    place = {standing.label: index for index, standing in enumerate(report.standings)}
    close: dict[str, list[str]] = {}
    for pair in report.pairs:
        if not pair.apart:
            first, second = sorted((pair.first, pair.second), key=lambda label: place[label])
            close.setdefault(first, []).append(second)
    return [
        (names[label], ", ".join(names[other] for other in sorted(close[label], key=lambda one: place[one])))
        for label in sorted(close, key=lambda one: place[one])
    ]


def encounters(plan: EvaluationPlan, pairs: Sequence[PairRecord]) -> list[Encounter]:
    """Every pair that met, once from each side."""
    names = {label: player.name for label, player in plan.players().items()}
    found: list[Encounter] = []
    for pair in pairs:
        total = pair.won + pair.lost + pair.drawn
        for first, second, won, lost in (
            (pair.first, pair.second, pair.won, pair.lost),
            (pair.second, pair.first, pair.lost, pair.won),
        ):
            share = (won + pair.drawn / 2) / total
            found.append(
                Encounter(first=names[first], second=names[second], share=share, won=won, lost=lost, drawn=pair.drawn)
            )
    return found
