"""The guarantees of evaluations in full: false alarms, coverage, time to a decision, and the cost of the arithmetic.

python tests/benchmarks/evaluation.py --runs 2000 [--only coverage_of_few_blocks]
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from _measure import finish, machine, run

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.escapes import COMMANDS, ESCAPES, FEW, alarmed
from support.simulated import (
    ADDS,
    DIFFERENCES,
    TOGETHER,
    added,
    episode_row,
    leave,
    pickup_plan,
    played,
    ranking_plan,
    scrimmage_plan,
    strength_blocks,
    strengths,
    tournament_rules,
)

from coworld_core.episode.record import SlotRow
from coworld_core.evaluation.designs import episode_key, round_robin
from coworld_core.evaluation.elo import EloTest, share_of
from coworld_core.evaluation.estimates import Scale, mean_interval, running_interval, sign_evidence
from coworld_core.evaluation.evaluation_files import open_evaluation
from coworld_core.evaluation.ratings import pairings, rate
from coworld_core.tournament.pairings import free_play
from coworld_core.tournament.standings import Tournament
from coworld_core.tournament.tournament_log import (
    LOG_NAME,
    Configured,
    EntrantAdded,
    EpisodeEnded,
    LogEvent,
    RoundScheduled,
    ScheduledBlock,
    encode_event,
    read_log,
)

LABELS = ["0", "1", "2", "3"]
STRENGTHS = [-0.9, -0.2, 0.2, 0.9]
POINTS_OF_ONE = 400 / math.log(10)


def null_comparisons(runs: int, blocks: int) -> dict[str, dict[str, float]]:
    """The share of comparisons between exchangeable players that ever end in a verdict."""
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


def alarms_of_those_who_escape(runs: int, blocks: int, looks: int) -> dict[str, dict[str, float]]:
    """The share of evaluations of equal players that say that they are not (`support.escapes`)."""
    return {
        how: {
            command: sum(alarmed(command, how, seed, looks if command in FEW else blocks) for seed in range(runs))
            / runs
            for command in COMMANDS
        }
        for how in ESCAPES
    }


def bounded_coverage(runs: int) -> dict[str, dict[str, float]]:
    """The share of intervals of means of few blocks that contain the mean, and how wide they are."""
    unit = Scale(low=0.0, high=1.0, certain=True)
    shapes: dict[str, tuple[Callable[[random.Random], float], float, Scale | None]] = {
        "0/1, 0.9": (lambda chance: float(chance.random() < 0.9), 0.9, unit),
        "0/1, 0.5": (lambda chance: float(chance.random() < 0.5), 0.5, unit),
        "ternary": (lambda chance: chance.choice((0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0)), 0.45, unit),
        "lost in 3 %": (lambda chance: float(chance.random() > 0.03), 0.97, unit),
        "heavy tails": (DIFFERENCES["heavy tails"], 0.0, None),
    }
    found: dict[str, dict[str, float]] = {}
    for name, (draw, mean, scale) in shapes.items():
        for blocks in (5, 10, 20, 50, 200):
            chance, held, width, there = random.Random(blocks), 0, 0.0, 0
            for _ in range(runs):
                interval = mean_interval([draw(chance) for _ in range(blocks)], scale=scale)
                if interval is not None:
                    there += 1
                    held += not interval.excludes(mean)
                    width += interval.high - interval.low
            if there:
                found[f"{name}, {blocks} blocks"] = {"coverage": held / there, "width": width / there}
        chance, missed = random.Random(1), 0
        for _ in range(runs // 4 or 1):
            values = [draw(chance) for _ in range(200)]
            looks = (running_interval(values[:look], scale=scale) for look in range(10, 201, 10))
            missed += any(interval is not None and interval.excludes(mean) for interval in looks)
        found[f"{name}, looked at on the way"] = {"missed": missed / (runs // 4 or 1)}
    return found


def beside_fishtest(runs: int, elo0: float = 0.0, elo1: float = 20.0) -> dict[str, dict[str, float]]:
    """How often our test of an Elo difference and Fishtest's SPRT pass, and after how many blocks on average."""
    found: dict[str, dict[str, float]] = {}
    for elo in (elo0, (elo0 + elo1) / 2, elo1, 2 * elo1):
        chance, results = random.Random(8), {"ours": [0, 0], "Fishtest's": [0, 0]}
        share = share_of(elo)
        for _ in range(runs):
            test, passed = EloTest(elo0, elo1, alpha=0.05, beta=0.05), dict[str, bool]()
            counts, blocks = [0] * 5, 0
            while len(passed) < 2:
                points = 2 * sum((chance.random() < share) / 2 for _ in range(2))
                blocks += 1
                if "ours" not in passed:
                    test.take(points / 2, points / 2)
                    if test.passed or test.failed:
                        passed["ours"] = test.passed
                        results["ours"][1] += blocks
                counts[round(2 * points)] += 1
                # It looks after batches of games
                if "Fishtest's" in passed or blocks % 8:
                    continue
                if abs(ratio := _pentanomial(counts, elo0, elo1)) >= math.log(19):
                    passed["Fishtest's"] = ratio > 0
                    results["Fishtest's"][1] += blocks
            for name, has in passed.items():
                results[name][0] += has
        found[f"{elo:g} Elo"] = {
            f"{name} {what}": total / runs
            for name, totals in results.items()
            for what, total in zip(("pass", "blocks"), totals, strict=True)
        }
    return found


def _pentanomial(counts: Sequence[int], elo0: float, elo1: float) -> float:
    """The generalised log-likelihood ratio of pairs of games, with zero counts regularised as Fishtest does."""
    regular = [count or 1e-3 for count in counts]
    total = sum(regular)
    shares = [(count / total, value / 4) for value, count in enumerate(regular)]

    def most_likely(mean: float) -> list[float]:
        """What each value's share is divided by in the most likely distribution with this mean."""
        low, high = -1 / (1 - mean), 1 / mean
        for _ in range(40):
            middle = (low + high) / 2
            slope = sum(share * (value - mean) / (1 + middle * (value - mean)) for share, value in shares)
            low, high = (middle, high) if slope > 0 else (low, middle)
        return [1 + low * (value - mean) for _, value in shares]

    over, under = most_likely(share_of(elo0)), most_likely(share_of(elo1))
    return total * sum(share * math.log(a / b) for (share, _), a, b in zip(shares, over, under, strict=True))


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
    """The share of rankings of four equal players in which any two are declared different."""
    chance, alarms = random.Random(5), 0
    for _ in range(runs):
        drawn = list(strength_blocks(chance, [0.0] * 4, lambda block: round_robin(LABELS, 2, block), 120))
        alarms += any(any(pair.apart for pair in pairings(drawn[:look])) for look in range(20, 121, 20))
    return alarms / runs


def seats_and_values(runs: int, blocks: int) -> dict[str, dict[str, float]]:
    """Scrimmages and pickups without a true effect: the rates of false alarms, and the coverage of intervals.

    In scrimmages the first seat has an effect in every second run; in pickups the candidate is as strong as its pool.
    """
    seat_alarms = seat_held = value_alarms = value_held = values = 0
    for number in range(runs):
        worth = number % 2 / 2
        plan = scrimmage_plan(max_blocks=blocks)
        report: Any = open_evaluation(plan).over(played(plan, strengths({}, seat=worth), seed=number))
        seat_held += _holds(report.slot_effects[0], worth / 2)
        seat_alarms += worth == 0 and not _holds(report.slot_effects[0], 0.0)
        plan = pickup_plan(2, slot_count=4, max_blocks=blocks)
        report = open_evaluation(plan).over(played(plan, strengths({}, seat=0.5), seed=number))
        value_alarms += not _holds(report.overall, 0.0)
        for one in (*report.values, report.self_play):
            value_held += _holds(one, 0.0)
            values += 1
    return {
        "seat effect": {"false_alarms": seat_alarms / (runs - runs // 2), "coverage": seat_held / runs},
        "value over replacement": {"false_alarms": value_alarms / runs, "coverage": value_held / values},
    }


def credit(runs: int, blocks: int) -> dict[str, float]:
    """The share of intervals of credit and synergy that contain the known true value."""
    truth = {label: adds + TOGETHER / 2 * (label != "pool-2") for label, adds in ADDS.items()}
    dealt = together = 0
    for number in range(runs):
        plan = pickup_plan(2, slot_count=4, max_blocks=blocks, credit="shapley", team=True)
        report: Any = open_evaluation(plan).over(played(plan, added(0.5), seed=number))
        dealt += sum(_holds(one, truth[one.label]) for one in report.credits)
        together += sum(
            _holds(one, TOGETHER * ({one.first, one.second} == {"candidate", "pool-1"})) for one in report.synergies
        )
    return {"credit": dealt / (3 * runs), "synergy": together / (3 * runs)}


def _holds(measured: Any, truth: float) -> bool:
    interval = measured.interval
    return interval is not None and interval.low <= truth <= interval.high


def times(games: int) -> dict[str, float]:
    """Seconds to compute intervals and ratings."""
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


def tournament_times(games: int, players: int = 20) -> dict[str, float]:
    """Wall and processor seconds to read and rate a tournament's log file, and the peak memory of this process."""
    chance = random.Random(7)
    rules = tournament_rules(pairing="free-play", rounds=games, max_blocks=max(1, games // 2))
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, LOG_NAME)
        tournament = Tournament(rules, free_play)
        check = b""
        with path.open("wb") as log:

            def happen(event: LogEvent) -> None:
                nonlocal check
                line, check = encode_event(event, check)
                log.write(line)

            happen(Configured(rules=rules))
            names = [f"player-{number}" for number in range(players)]
            for name in names:
                happen(EntrantAdded(name=name, player=SlotRow(name=name)))
            block = 0
            while block < games // 2:
                order = chance.sample(names, players)
                pairs = list(zip(order[::2], order[1::2], strict=True))[: games // 2 - block]
                blocks = [ScheduledBlock(block=block + at, match=at, players=pair) for at, pair in enumerate(pairs, 1)]
                happen(RoundScheduled(round=block // (players // 2) + 1, blocks=tuple(blocks)))
                for scheduled in blocks:
                    for number in (1, 2):
                        key = episode_key(scheduled.block, 1, number)
                        happen(EpisodeEnded(row=episode_row(key, chance.random(), chance.random())))
                block += len(blocks)
        begun, processor = time.perf_counter(), time.process_time()
        for event in read_log(path):
            tournament.apply(event)
        report = tournament.report()
        seconds, processor = time.perf_counter() - begun, time.process_time() - processor
    assert report.blocks == games // 2
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    what = f"standings of {games} games from the log"
    return {what: seconds, f"{what}, processor": processor, f"peak memory after {games} games, MiB": peak}


_REPORT = """
import resource, sys
from coworld_runner.evaluation import read_evaluation
report = read_evaluation(sys.argv[1]).report
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def report_figures(episodes: int) -> dict[str, float]:
    """Seconds and peak memory of a process that computes the report of a ranking from its directory."""
    entrants = tuple(SlotRow(name=name) for name in "ABCDEFGH")
    plan = ranking_plan(entrants=entrants, max_blocks=max(1, episodes // 2))
    with tempfile.TemporaryDirectory() as place:
        directory = leave(Path(place, "run"), plan, played(plan, strengths({})))
        done = run([sys.executable, "-c", _REPORT, str(directory)])
    return {"seconds": done.wall, "processor seconds": done.cpu, "peak memory, MiB": float(done.output)}


FIGURES: dict[str, Callable[[argparse.Namespace], Any]] = {
    "false_alarms": lambda asked: null_comparisons(asked.runs, asked.blocks),
    "false_alarms_of_those_who_escape": lambda asked: alarms_of_those_who_escape(
        asked.runs, asked.blocks // 4 or 1, asked.looks
    ),
    "coverage_of_few_blocks": lambda asked: bounded_coverage(asked.runs),
    "beside_fishtest": lambda asked: beside_fishtest(asked.runs // 10 or 1),
    "blocks_to_a_decision": lambda asked: blocks_to_a_decision(asked.runs),
    "coverage": lambda asked: coverage(asked.runs),
    "equal_players_told_apart": lambda asked: null_rankings(asked.runs),
    "seats_and_values": lambda asked: seats_and_values(asked.runs, asked.looks),
    "credit": lambda asked: credit(asked.runs // 4 or 1, asked.looks),
    "seconds": lambda asked: times(asked.games),
    "reports": lambda asked: {str(count): report_figures(count) for count in (asked.episodes // 10, asked.episodes)},
    "tournaments": lambda asked: tournament_times(asked.games // 100 or 2) | tournament_times(asked.games),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--blocks", type=int, default=400)
    parser.add_argument("--looks", type=int, default=30, help="blocks of scrimmages and pickups")
    parser.add_argument("--episodes", type=int, default=10_000, help="of a report")
    parser.add_argument("--games", type=int, default=1_000_000)
    parser.add_argument("--only", choices=FIGURES, help="one of the figures")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    figures: dict[str, Any] = {"machine": machine()}
    figures |= {name: measure(asked) for name, measure in FIGURES.items() if asked.only in (None, name)}
    for name, value in figures.items():
        print(f"{name}: {value}")
    finish(figures, as_json=asked.json)


if __name__ == "__main__":
    main()
