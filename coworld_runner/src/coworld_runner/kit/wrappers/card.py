"""Measures the card of a game: what the game costs to play, and whether it is fair.

`python -m coworld_runner.kit.wrappers.card MODULE:CLASS [SEATS [POLICY [BASELINE]]]` prints it. A separate process in
the game's directory measures everything, with random players and, if one is named, a policy that plays against them.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import psutil
from pydantic import BaseModel, ConfigDict

from coworld_core.errors import CoworldError, EnvironmentFault
from coworld_core.evaluation.estimates import mean_interval
from coworld_core.rules import Play, Rules, action_schema, audit_rules, load_player, load_rules

from ...backends.process.child_environment import child_environment
from ...package.random_player import RANDOM, sample
from ..rollout import rollout, rollouts

__all__ = ["Card", "SeatMean", "main", "measure_card"]

MOST_EPISODES: Final = 1000
MEASURE_TIMEOUT: Final = 120.0
_MIB: Final = 2**20


class SeatMean(BaseModel):
    """A mean over episodes or blocks, with its 95 % interval; a single value has no interval."""

    model_config = ConfigDict(frozen=True)

    mean: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.mean:+.2f}"
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


class Card(BaseModel):
    """The measurements of a game.

    Attributes:
        start_seconds: Time from the start of the process to the first state.
        steps_per_second: Ticks of random play per second, within the process.
        turn_p50_ms: Median time to compute a served turn: observation and legal actions as JSON, and the step.
        turn_p99_ms: 99th percentile of that time.
        memory_mib: Memory of the process at the end.
        memory_bare_mib: Memory of the process before it loaded the game.
        observation_bytes: Average size of an observation as JSON.
        legal_actions: Average number of legal actions.
        ticks: Average length of an episode.
        episodes: Number of episodes of random play.
        findings: Findings of the audit; empty if the same seed and actions give the same game.
        bias: By seat, its mean score less that of all seats, random against random.
        margin: Mean score of the measured policy in seat 0, less that of a random player there.
    """

    model_config = ConfigDict(frozen=True)

    start_seconds: float
    steps_per_second: float
    turn_p50_ms: float
    turn_p99_ms: float
    memory_mib: float
    memory_bare_mib: float
    observation_bytes: float
    legal_actions: float
    ticks: float
    episodes: int
    findings: tuple[str, ...]
    bias: tuple[SeatMean, ...]
    margin: SeatMean | None = None

    def markdown(self) -> str:
        """Return the rows of a Markdown table."""
        sure = self.findings[0] if self.findings else "yes"
        rows = {
            "Start-up": f"{self.start_seconds:.2f} s",
            "Random play in the process": f"{self.steps_per_second:,.0f} steps/s",
            "A turn, p50 and p99": f"{self.turn_p50_ms:.2f} ms, {self.turn_p99_ms:.2f} ms",
            "Memory": f"{self.memory_mib:.0f} MiB, {self.memory_bare_mib:.0f} of them before the game is loaded",
            "An observation": f"{self.observation_bytes:,.0f} bytes, {self.legal_actions:.1f} legal moves",
            "An episode, random against random": f"{self.ticks:.1f} ticks",
            "Deterministic": sure.replace("\n", " ").replace("|", "\\|"),
            f"Seats, random against random ({self.episodes} episodes)": "; ".join(
                f"{seat}: {mean}" for seat, mean in enumerate(self.bias)
            ),
        }
        if self.margin is not None:
            rows["The second player in seat 0, compared with a random one"] = str(self.margin)
        return "".join(f"| {name} | {value} |\n" for name, value in {"": "", "---": "---", **rows}.items())


def measure_card(name: str, *, directory: Path, seats: int, policy: str | None = None, baseline: str = RANDOM) -> Card:
    """Measure a game in a separate process.

    Args:
        name: The rules, as `load_rules` finds them from `directory`.
        directory: The game's directory.
        seats: Number of seats to play.
        policy: File with a player to measure against random ones, relative to `directory`.
        baseline: The random player. For a game that lists no actions, a file with a player that knows what to answer.

    Raises:
        EnvironmentFault: The process failed (its last line is in the message), or took too long.
    """
    command = [sys.executable, "-m", __spec__.name, name, str(seats), policy or "", baseline]
    begun = time.time()
    try:
        done = subprocess.run(
            [*command, "--json", repr(begun)],
            cwd=directory,
            env=child_environment(None),
            capture_output=True,
            text=True,
            check=False,
            timeout=MEASURE_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentFault(f"{name} could not be measured in {MEASURE_TIMEOUT:g} s.", code="not_measured") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise EnvironmentFault(f"{name} could not be measured: {last}", code="not_measured")
    return Card.model_validate_json(done.stdout.splitlines()[-1])


def _measure(name: str, seats: int | None, policy: str | None, baseline: str, begun: float) -> Card:
    bare = _memory()
    rules = load_rules(name)
    seats = seats or rules.seats
    Play(rules, seats=seats)
    start = time.time() - begun
    costs, seen, offered = _turns(rules, seats, baseline)
    schema = action_schema(rules)
    report = audit_rules(rules, seats=seats, ticks=100, sample=lambda rng: sample(schema, rng))
    steps, seconds, scores = _episodes(rules, seats, baseline)
    middle = [sum(one) / seats for one in scores]
    return Card(
        start_seconds=start,
        steps_per_second=steps / seconds,
        turn_p50_ms=costs[len(costs) // 2] * 1000,
        turn_p99_ms=costs[len(costs) * 99 // 100] * 1000,
        memory_mib=_memory(),
        memory_bare_mib=bare,
        observation_bytes=seen,
        legal_actions=offered,
        ticks=steps / len(scores),
        episodes=len(scores),
        findings=tuple(issue.message for issue in report.errors),
        bias=tuple(
            _mean([one[seat] - mean for one, mean in zip(scores, middle, strict=True)]) for seat in range(seats)
        ),
        margin=_margin(rules, seats, policy, baseline) if policy else None,
    )


def _turns(rules: type[Rules], seats: int, baseline: str) -> tuple[list[float], float, float]:
    """Return the seconds of each turn in ascending order, and the average bytes and legal actions of an observation."""
    rng, until = random.Random(1), time.monotonic() + 2
    answer = None if baseline == RANDOM else load_player(baseline)
    costs: list[float] = []
    size = offered = asked = 0
    while time.monotonic() < until and len(costs) < 5000:
        play = Play(rules, seats=seats, seed=rng.getrandbits(31))
        while not play.over and time.monotonic() < until:
            begun = time.perf_counter()
            actions: dict[int, Any] = {}
            for seat in play.to_act:
                text, legal = play.observe(seat), play.legal(seat)
                size, offered, asked = size + len(text.encode()), offered + len(legal or ()), asked + 1
                if legal:
                    actions[seat] = play.read(seat, json.loads(rng.choice(legal)))
                elif answer is not None:
                    actions[seat] = answer(json.loads(text), None, rng)
            play.step(actions)
            costs.append(time.perf_counter() - begun)
    return sorted(costs), size / asked, offered / asked


def _episodes(rules: type[Rules], seats: int, baseline: str) -> tuple[int, float, list[tuple[float, ...]]]:
    steps, scores, begun = 0, list[tuple[float, ...]](), time.perf_counter()
    for done in rollouts(rules, baseline, episodes=MOST_EPISODES, seats=seats, seed=1):
        steps += done.ticks
        scores.append(done.scores)
        if time.perf_counter() - begun > 3:
            break
    return steps, time.perf_counter() - begun, scores


def _margin(rules: type[Rules], seats: int, policy: str, baseline: str) -> SeatMean:
    others = [baseline] * (seats - 1)
    # Load it once: a player may practise first.
    act = load_player(policy)
    values: list[float] = []
    begun = time.monotonic()
    while len(values) < 250 and (not values or time.monotonic() - begun < 5):
        ours, theirs = (
            rollout(rules, [one, *others], seats=seats, seed=len(values)).scores[0] for one in (act, baseline)
        )
        values.append(ours - theirs)
    return _mean(values)


def _mean(values: list[float]) -> SeatMean:
    interval = mean_interval(values)
    ends = (None, None) if interval is None else (interval.low, interval.high)
    return SeatMean(mean=sum(values) / len(values), low=ends[0], high=ends[1])


def _memory() -> float:
    return psutil.Process().memory_info().rss / _MIB


def main() -> int:
    """Measure what the arguments name: `NAME [SEATS [POLICY [BASELINE]]]`; return the exit code."""
    words = sys.argv[1:]
    begun = float(words.pop()) if "--json" in words else psutil.Process().create_time()
    as_json = "--json" in words
    name, seats, policy, baseline, *more = (*(word for word in words if word != "--json"), *("",) * 4)
    if not name or any(more) or not (seats or "1").isdigit():
        print(
            "usage: python -m coworld_runner.kit.wrappers.card MODULE:CLASS [SEATS [POLICY [BASELINE]]]",
            file=sys.stderr,
        )
        return 2
    try:
        card = _measure(name, int(seats) if seats else None, policy or None, baseline or RANDOM, begun)
    except CoworldError as error:
        print(error.message, file=sys.stderr)
        return 1
    print(card.model_dump_json() if as_json else card.markdown())
    return 0


if __name__ == "__main__":
    sys.exit(main())
