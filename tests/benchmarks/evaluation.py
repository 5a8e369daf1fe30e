"""What evaluations promise, whole: false alarms, coverage, time to a decision, and how long the arithmetic takes.

python tests/benchmarks/evaluation.py --runs 2000
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from _measure import finish, machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.simulated import DIFFERENCES, strength_blocks

from coworld_core.evaluation.designs import round_robin
from coworld_core.evaluation.estimates import mean_interval, running_interval, sign_evidence
from coworld_core.evaluation.ratings import pairings, rate

LABELS = ["0", "1", "2", "3"]
STRENGTHS = [-0.9, -0.2, 0.2, 0.9]
POINTS_OF_ONE = 400 / math.log(10)


def null_comparisons(runs: int, blocks: int) -> dict[str, dict[str, float]]:
    """The share of comparisons of exchangeable players that ever end in a verdict."""
    found: dict[str, dict[str, float]] = {}
    for shape, draw in DIFFERENCES.items():
        chance, evidence_alarms, interval_alarms = random.Random(1), 0, 0
        for _ in range(runs):
            won = lost = 0
            evidence = interval = False
            values: list[float] = []
            for look in range(blocks):
                values.append(draw(chance))
                won, lost = won + (values[-1] > 0), lost + (values[-1] < 0)
                evidence = evidence or sign_evidence(won, lost) >= 20
                if look % 10 == 9:
                    running = running_interval(values)
                    interval = interval or (running is not None and running.excludes(0))
            evidence_alarms += evidence
            interval_alarms += interval
        found[shape] = {"evidence": evidence_alarms / runs, "interval": interval_alarms / runs}
    return found


def blocks_to_a_decision(runs: int) -> dict[str, float]:
    """Median blocks until a verdict, by the mean of normal differences."""
    found: dict[str, float] = {}
    for mean in (0.3, 0.6, 1.2):
        chance, needed = random.Random(2), list[int]()
        for _ in range(runs):
            won = lost = 0
            while sign_evidence(won, lost) < 20:
                better = chance.gauss(mean, 1) > 0
                won, lost = won + better, lost + (not better)
            needed.append(won + lost)
        found[f"{mean:g} deviations"] = statistics.median(needed)
    return found


def coverage(runs: int) -> dict[str, float]:
    """The share of intervals that contain the truth."""
    found: dict[str, float] = {}
    for blocks in (8, 20, 50):
        chance, covered = random.Random(3), 0
        for _ in range(runs):
            interval = mean_interval([chance.gauss(3, 2) for _ in range(blocks)])
            covered += interval is not None and not interval.excludes(3)
        found[f"mean of {blocks} blocks"] = covered / runs
    for seats in (2, 4):
        chance, covered = random.Random(4), 0
        for _ in range(runs):
            drawn = strength_blocks(chance, STRENGTHS, lambda block: round_robin(LABELS, seats, block), 60)  # noqa: B023
            for rating in rate(drawn):
                covered += rating.low <= STRENGTHS[int(rating.label)] * POINTS_OF_ONE <= rating.high
        found[f"ratings, {seats} seats"] = covered / (4 * runs)
    return found


def null_rankings(runs: int) -> float:
    """The share of rankings of four equal players in which any two are told apart."""
    chance, alarms = random.Random(5), 0
    for _ in range(runs):
        drawn = list(strength_blocks(chance, [0.0] * 4, lambda block: round_robin(LABELS, 2, block), 120))
        alarms += any(any(pair.apart for pair in pairings(drawn[:look])) for look in range(20, 121, 20))
    return alarms / runs


def times(games: int) -> dict[str, float]:
    """Seconds."""
    chance = random.Random(6)
    found: dict[str, float] = {}
    for blocks in (50, 400, 1000, 10_000):
        values = [chance.gauss(0, 1) for _ in range(blocks)]
        begun = time.perf_counter()
        mean_interval(values)
        found[f"interval of {blocks} blocks"] = time.perf_counter() - begun
    drawn = list(strength_blocks(chance, STRENGTHS, lambda block: round_robin(LABELS, 2, block), games))
    begun = time.perf_counter()
    rate(drawn)
    found[f"ratings of {games} games"] = time.perf_counter() - begun
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--blocks", type=int, default=400)
    parser.add_argument("--games", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    figures: dict[str, Any] = {
        "machine": machine(),
        "false_alarms": null_comparisons(asked.runs, asked.blocks),
        "blocks_to_a_decision": blocks_to_a_decision(asked.runs),
        "coverage": coverage(asked.runs),
        "equal_players_told_apart": null_rankings(asked.runs),
        "seconds": times(asked.games),
    }
    for name, value in figures.items():
        print(f"{name}: {value}")
    finish(figures, as_json=asked.json)


if __name__ == "__main__":
    main()
