"""Evaluations whose truth is known: rows as ``run_many`` writes them, of games that are drawn."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from coworld_core.episode.record import EpisodeRow, SeatRow
from coworld_core.evaluation.comparison import ComparisonPlan
from coworld_core.evaluation.designs import Lineup, episode_key
from coworld_core.evaluation.ranking import RankingPlan

__all__ = ["DIFFERENCES", "comparison_plan", "episode_row", "pair_rows", "ranking_plan", "strength_blocks"]

DIFFERENCES: dict[str, Callable[[random.Random], float]] = {
    "normal": lambda chance: chance.gauss(0, 1),
    "win, draw, loss": lambda chance: chance.choice((-2.0, 0.0, 2.0)),
    "90 % draws": lambda chance: chance.choice((-1.0, 1.0)) if chance.random() < 0.1 else 0.0,
    "heavy tails": lambda chance: chance.gauss(0, 1) / max(1e-9, chance.gammavariate(1, 1)) ** 0.5,
    "five values": lambda chance: float(chance.choice((-2, -1, 0, 1, 2))),
}
"""Differences of a block between players that are exchangeable."""


_GAME: dict[str, Any] = {
    "coworld": "game",
    "version": "1",
    "variant": "default",
    "seats": 2,
    "seed": 0,
    "seeded": True,
    "max_blocks": 400,
}


def comparison_plan(**values: Any) -> ComparisonPlan:
    return ComparisonPlan.model_validate({**_GAME, "new": SeatRow(name="New"), "old": SeatRow(name="Old"), **values})


def ranking_plan(**values: Any) -> RankingPlan:
    return RankingPlan.model_validate({**_GAME, **values})


def episode_row(key: str, *scores: float, **values: Any) -> EpisodeRow:
    status = "completed" if scores else "failed"
    return EpisodeRow.model_validate(
        {
            "index": 1,
            "key": key,
            "run_id": "r",
            "workspace": key,
            "status": status,
            "ok": bool(scores),
            "scores": scores,
            "seconds": 1.0,
            **values,
        }
    )


def pair_rows(block: int, difference: float, *, seat: float = 0.0, attempt: int = 1) -> list[EpisodeRow]:
    """Both orders of two players, of whom the new one is better by a difference and the first seat by ``seat``."""
    return [
        episode_row(episode_key(block, attempt, 1), 10 + difference + seat, 10.0),
        episode_row(episode_key(block, attempt, 2), 10.0 + seat, 10 + difference),
    ]


def strength_blocks(
    chance: random.Random, strengths: Sequence[float], lineups: Callable[[int], Sequence[Lineup]], blocks: int
) -> Iterator[dict[str, float]]:
    """Blocks as Bradley and Terry have them: who sits there finishes in an order drawn by strength (natural units)."""
    for block in range(1, blocks + 1):
        labels = sorted({label for lineup in lineups(block) for label in lineup if label is not None})
        # exponential times of these rates finish in an order of Plackett and Luce's model
        yield {label: -chance.expovariate(2.718281828459045 ** strengths[int(label)]) for label in labels}
