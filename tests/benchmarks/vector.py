"""Environment steps a second of many games at once, beside Gymnasium's own vector environments over single ones.

A step is a move of the learner in one game and its random opponent's answer. The policy is random, and as cheap as it
can be. Seconds are those of all processes, as other programs may keep processors busy; divide them by the number of
processors for a machine that is idle.

python tests/benchmarks/vector.py --rounds 5
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import psutil
from _measure import finish, interleaved, machine, median, show
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "nim"))
from nim import Nim

from coworld_runner.kit.rollout import as_gym_env, as_vector_env

Program = Callable[[int], int]


def single() -> Any:
    return as_gym_env(Nim)


def spent() -> float:
    """Seconds of processor time of this process and those that it has started."""
    programs = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(sum(program.cpu_times()[:2]) for program in programs)


def playing(envs: Any) -> Program:
    """Steps of an environment by legal actions at random; returns how many rows that were."""
    rng = np.random.default_rng(1)
    mask = [envs.reset(seed=1)[0]["action_mask"]]

    def play(steps: int) -> int:
        for _ in range(steps):
            chosen = (mask[0] * rng.random(mask[0].shape)).argmax(axis=1)
            mask[0] = envs.step(chosen)[0]["action_mask"]
        return steps * envs.num_envs

    return play


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--games", type=int, default=128)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    games, processes = asked.games, asked.processes
    few = max(processes, 2)
    environments: dict[str, Any] = {
        f"as_vector_env, {processes} processes": as_vector_env(Nim, games, processes=processes),
        "as_vector_env, this process": as_vector_env(Nim, games),
        f"as_vector_env, all seats, {processes} processes": as_vector_env(Nim, games, seat="all", processes=processes),
        "SyncVectorEnv": SyncVectorEnv([single] * games),
        f"AsyncVectorEnv, {few} environments": AsyncVectorEnv([single] * few),
    }
    # A process for each environment takes long to start, and its steps take as long for few as for many.
    weights = [asked.steps, asked.steps, asked.steps, max(asked.steps // 10, 1), asked.steps]

    def timed(program: Program, steps: int) -> Callable[[], tuple[float, float]]:
        def run() -> tuple[float, float]:
            wall, begun = time.monotonic(), spent()
            rows = program(steps)
            seconds = spent() - begun
            return rows / max(seconds, 0.01), rows / (time.monotonic() - wall)

        return run

    try:
        programs = [timed(playing(one), steps) for one, steps in zip(environments.values(), weights, strict=True)]
        results = interleaved(asked.rounds, *programs)
    finally:
        for one in environments.values():
            one.close()
    by_processor = {
        name: median([cast("float", pair[0]) for pair in pairs])
        for name, pairs in zip(environments, results, strict=True)
    }
    by_clock = {name: median([pair[1] for pair in pairs]) for name, pairs in zip(environments, results, strict=True)}
    ours = by_processor[f"as_vector_env, {processes} processes"]
    figures: dict[str, Any] = {
        "machine": machine(),
        "load": os.getloadavg()[0],
        "steps_per_processor_second": {name: round(speed) for name, speed in by_processor.items()},
        "steps_per_second": {name: round(speed) for name, speed in by_clock.items()},
        "ours_of_theirs": {name: round(ours / speed, 1) for name, speed in by_processor.items()},
    }
    show(
        f"Steps of nim, {games} games, median of {asked.rounds}",
        ["", "for a second of a processor", "for a second of the clock", "as_vector_env is faster"],
        [
            [name, f"{speed:,.0f}", f"{by_clock[name]:,.0f}", f"{figures['ours_of_theirs'][name]} x"]
            for name, speed in by_processor.items()
        ],
    )
    finish(figures, as_json=asked.json)


if __name__ == "__main__":
    main()
