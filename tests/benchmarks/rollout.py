"""Rules played in the process, compared with a loop over the bare rules and, if OpenSpiel is installed, its own loop.

python tests/benchmarks/rollout.py --rounds 9
uv run --no-sync --with open_spiel python tests/benchmarks/rollout.py --rounds 9
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _measure import finish, interleaved, machine, median, show

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "nim"))
from nim import Nim
from support.games import Gather

from coworld_core.rules import Rules
from coworld_runner.rollout import as_aec_env, rollouts
from coworld_runner.wrapping.openspiel import OpenSpiel, OpenSpielConfig


def act(observation: Any, legal: Any, rng: random.Random) -> Any:
    return rng.choice(legal) if legal else "stay"


def bare(rules: type[Rules], episodes: int) -> int:
    """Play the bare rules without checks; returns the number of ticks."""
    ticks = 0
    for seed in range(episodes):
        rng = random.Random(seed)
        game = rules(rules.Config(), seats=rules.seats, rng=rng)
        game.start()
        while seats := game.to_act():
            actions: dict[int, Any] = {}
            for seat in seats:
                legal = game.legal(seat)
                actions[seat] = rng.choice(legal) if legal else "stay"
            game.step(actions)
            ticks += 1
        game.scores()
    return ticks


def played(rules: type[Rules], episodes: int, policies: Any = "random", processes: int = 1) -> int:
    """Play the same by rollouts."""
    done = rollouts(rules, policies, episodes=episodes, processes=processes)
    return sum(one.ticks for one in done)


def environment(rules: type[Rules], episodes: int) -> int:
    """Play the same in a PettingZoo environment, with agents that sample by the action mask."""
    env, ticks = as_aec_env(rules), 0
    for seed in range(episodes):
        env.reset(seed=seed)
        for agent in env.agent_iter():
            seen, _, over, cut, _ = env.last()
            env.step(None if over or cut else env.action_space(agent).sample(seen["action_mask"]))
            ticks += not (over or cut)
    return ticks


def openspiel() -> tuple[type[Rules], Callable[[int], int]] | None:
    """Connect four as rules, and OpenSpiel's own loop; None if OpenSpiel is not installed."""
    try:
        game: Any = importlib.import_module("pyspiel").load_game("connect_four")
    except ModuleNotFoundError:
        return None

    class ConnectFour(OpenSpiel):
        """Connect four, as `coworld game wrap` writes it."""

        class Config(OpenSpielConfig):
            game: str = "connect_four"

    def loop(episodes: int) -> int:
        rng, ticks = random.Random(1), 0
        for _ in range(episodes):
            state = game.new_initial_state()
            while not state.is_terminal():
                state.apply_action(rng.choice(state.legal_actions()))
                ticks += 1
        return ticks

    return ConnectFour, loop


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    many = asked.episodes
    programs: dict[str, Callable[[], int]] = {
        "nim: bare rules": lambda: bare(Nim, many),
        "nim: random": lambda: played(Nim, many),
        "nim: a function": lambda: played(Nim, many, act),
        "nim: AECEnv": lambda: environment(Nim, max(many // 20, 1)),
        "gather: bare rules": lambda: bare(Gather, many),
        "gather: a function": lambda: played(Gather, many, act),
    }
    if found := openspiel():
        rules, loop = found
        programs["connect four: OpenSpiel's own loop"] = lambda: loop(many)
        programs["connect four: bare rules"] = lambda: bare(rules, many)
        programs["connect four: random"] = lambda: played(rules, many)

    def timed(program: Callable[[], int]) -> Callable[[], float]:
        def run() -> float:
            begun = time.process_time()
            ticks = program()
            return ticks / (time.process_time() - begun)

        return run

    results = interleaved(asked.rounds, *map(timed, programs.values()))
    speeds = dict(zip(programs, map(median, results), strict=True))
    begun = time.monotonic()
    ticks = played(Nim, many * 5, processes=2)
    figures: dict[str, Any] = {
        "machine": machine(),
        "ticks_per_second": {name: round(speed) for name, speed in speeds.items()},
        "of_bare": {
            name: round(speed / speeds[f"{name.partition(':')[0]}: bare rules"], 3)
            for name, speed in speeds.items()
            if "bare" not in name
        },
        "two_processes_ticks_per_second": round(ticks / (time.monotonic() - begun)),
    }
    if found:
        figures["of_openspiel"] = round(
            speeds["connect four: random"] / speeds["connect four: OpenSpiel's own loop"], 3
        )
    show(
        "Ticks a second, of processor time",
        ["", "ticks/s", "of bare"],
        [[name, f"{speed:,.0f}", figures["of_bare"].get(name, "")] for name, speed in speeds.items()],
    )
    finish(figures, as_json=asked.json)


if __name__ == "__main__":
    main()
