"""How many blocks a comparison takes for which difference, before it is played: by simulation with a fixed seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from pydantic import Field

from ..documents.records import Record
from ..text.phrases import plural
from .comparison import Comparison, ComparisonPlan
from .elo import EloTest, elo_of, share_of, usual_blocks
from .estimates import sign_evidence
from .number_text import number
from .report_parts import Table

__all__ = ["ComparisonForecast", "ForecastRow", "forecast"]

_RUNS = 400
_LONGEST = 20_000
"""Simulated comparisons end after this many blocks, whatever their limit."""
_WON = (0.5, 0.55, 0.6, 0.65, 0.7, 0.8, 0.9)
"""Shares of the decided blocks that the new player wins."""
_VARIANCE = 0.125
"""Variance of a block's share if its two episodes are won or lost independently."""
_EXACT = 300
"""Tests of about this many blocks are simulated block by block, and longer ones in strides."""


class ForecastRow(Record):
    """What becomes of a comparison if this is the truth."""

    elo: float = Field(description="The Elo difference of the new player, if no block is drawn.")
    share: float = Field(description="The share of the points that it gets: a draw is a half.")
    better: float = Field(description="How often the verdict is better within the limit.")
    otherwise: float = Field(description="How often it is worse, or in a test of an Elo difference, not better.")
    undecided: float = Field(description="How often there is no verdict within the limit.")
    median: int | None = Field(description="Blocks until half of all comparisons have a verdict; null: too many.")
    most: int | None = Field(description="Blocks until four of five have one; null: too many.")


class ComparisonForecast(Record):
    """How many blocks a comparison takes, by the true difference."""

    plan: ComparisonPlan = Field(description="The plan of the comparison.")
    episodes_per_block: int = Field(ge=1, description="Episodes of a block.")
    least_blocks: int = Field(description="Blocks that the clearest possible outcome needs.")
    runs: int = Field(description="Simulated comparisons for each difference.")
    rows: tuple[ForecastRow, ...] = Field(description="The differences, the smallest first.")

    @property
    def headline(self) -> str:
        """What would be played, in a sentence."""
        plan, most = self.plan, plural(self.plan.max_blocks, "block")
        return (
            f"{plan.new.name} against {plan.old.name}: at most {most} of {plural(self.episodes_per_block, 'episode')}. "
            f"A verdict needs at least {self.least_blocks} blocks."
        )

    @property
    def table(self) -> Table:
        """The differences, as a table."""
        otherwise = "Worse" if self.plan.elo1 is None else "Not better"
        return Table(
            title="Forecast",
            head=(
                "Elo",
                "Share",
                "Better",
                otherwise,
                "Undecided",
                "Half after",
                "80 % after",
            ),
            rows=tuple(
                (
                    f"{row.elo:+.0f}",
                    _percent(row.share),
                    *(_percent(one) for one in (row.better, row.otherwise, row.undecided)),
                    *("–" if blocks is None else plural(blocks, "block") for blocks in (row.median, row.most)),
                )
                for row in self.rows
            ),
            names=(),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What the numbers assume."""
        if self.plan.elo1 is not None:
            return ("The two episodes of a block are taken to be independent; drawn games make it shorter.",)
        return (
            "Drawn blocks are no evidence: if half of all blocks are drawn, it takes twice as many. "
            "Blocks that differ only in who sits where are drawn if the players play alike.",
        )


def _percent(share: float) -> str:
    return f"{number(round(100 * share, 1))} %"


def forecast(plan: ComparisonPlan, *, seed: int = 0) -> ComparisonForecast:
    """Simulate comparisons by this plan.

    Args:
        plan: The plan of the comparison.
        seed: Seed of the simulation; the same seed gives the same forecast.
    """
    comparison = Comparison(plan)
    rows = [_row(plan, elo, chance) for elo, chance in _truths(plan, random.Random(seed))]
    least = comparison.least_blocks
    assert least is not None
    return ComparisonForecast(
        plan=plan,
        episodes_per_block=len(comparison.lineups(1)),
        least_blocks=least,
        runs=_RUNS,
        rows=tuple(rows),
    )


_Run = Callable[[], tuple[int, int]]
"""Simulates one comparison: 1 for better, -1 for worse or not better, 0 for none; and after how many blocks."""


def _truths(plan: ComparisonPlan, chance: random.Random) -> Sequence[tuple[float, _Run]]:
    if plan.elo0 is None or plan.elo1 is None:
        needed = _needed_wins(1 / plan.alpha, _LONGEST)
        # Equal players are simulated up to the limit only
        limits = [min(plan.max_blocks, 2_000), *[_LONGEST] * (len(_WON) - 1)]
        return [
            (elo_of(won), lambda won=won, limit=limit: _by_signs(won, limit, needed, chance))
            for won, limit in zip(_WON, limits, strict=True)
        ]
    step = plan.elo1 - plan.elo0
    differences = [plan.elo0 + step * part for part in (-1.0, 0.0, 0.5, 1.0, 2.0)]
    return [(elo, lambda elo=elo: _by_bets(plan, elo, chance)) for elo in differences]


def _row(plan: ComparisonPlan, elo: float, run: _Run) -> ForecastRow:
    runs = [run() for _ in range(_RUNS)]
    ended = sorted(blocks for verdict, blocks in runs if verdict)

    def after(share: float) -> int | None:
        at = math.ceil(share * _RUNS) - 1
        return ended[at] if at < len(ended) else None

    within = [verdict for verdict, blocks in runs if blocks <= plan.max_blocks]
    better, otherwise = within.count(1) / _RUNS, within.count(-1) / _RUNS
    return ForecastRow(
        elo=float(f"{elo:.6g}"),
        share=float(f"{share_of(elo):.6g}"),
        better=better,
        otherwise=otherwise,
        undecided=max(0.0, round(1 - better - otherwise, 6)),
        median=after(0.5),
        most=after(0.8),
    )


def _needed_wins(needed: float, most: int) -> list[int]:
    """How many of a number of decided blocks must be won for a verdict, by that number."""
    found: list[int] = []
    won = 0
    for blocks in range(most + 1):
        won = max(won, (blocks + 1) // 2)
        while won <= blocks and sign_evidence(won, blocks - won) < needed:
            won += 1
        found.append(won)
    return found


def _by_signs(share: float, limit: int, needed: Sequence[int], chance: random.Random) -> tuple[int, int]:
    won, luck = 0, chance.random
    for blocks in range(1, limit + 1):
        if luck() < share:
            won += 1
        if won >= needed[blocks]:
            return 1, blocks
        if blocks - won >= needed[blocks]:
            return -1, blocks
    return 0, limit


def _by_bets(plan: ComparisonPlan, elo: float, chance: random.Random) -> tuple[int, int]:
    assert plan.elo0 is not None
    assert plan.elo1 is not None
    usual = usual_blocks(plan.elo0, plan.elo1, alpha=min(plan.alpha, plan.beta))
    limit, share = 12 * usual, share_of(elo)
    if usual > _EXACT:
        return _by_strides(plan, share, limit, max(1, usual // 60), chance)
    test = EloTest(plan.elo0, plan.elo1, alpha=plan.alpha, beta=plan.beta)
    for blocks in range(1, limit + 1):
        points = ((chance.random() < share) + (chance.random() < share)) / 2
        test.take(points, points)
        if test.passed or test.failed:
            return (1 if test.passed else -1), blocks
    return 0, limit


def _by_strides(plan: ComparisonPlan, share: float, limit: int, stride: int, chance: random.Random) -> tuple[int, int]:
    """The same as a random walk of the capitals' logarithms, whose steps are of many blocks and so nearly normal."""
    assert plan.elo0 is not None
    assert plan.elo1 is not None
    low, high = share_of(plan.elo0), share_of(plan.elo1)
    stake = (high - low) / (_VARIANCE + (high - low) ** 2)
    needs = math.log(1 / plan.alpha), math.log(1 / plan.beta)
    capital = other = 0.0
    for blocks in range(stride, limit + 1, stride):
        points = stride * share + math.sqrt(stride * _VARIANCE) * chance.gauss(0, 1)
        lost = stride * _VARIANCE * stake**2 / 2
        capital += stake * (points - stride * low) - lost
        other += stake * (stride * high - points) - lost
        if capital >= needs[0] or other >= needs[1]:
            return (1 if capital >= needs[0] else -1), blocks
    return 0, limit
