"""Playing replays again, compared with playing; and whole runs verified, with their files, and the memory that takes.

python tests/benchmarks/verifying.py --rounds 5
uv run --no-sync --with open_spiel python tests/benchmarks/verifying.py --rounds 5
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from _measure import finish, interleaved, machine, median, peak_mib, show

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "nim"))
from nim import Nim
from rollout import openspiel
from support.nim_episode import NIM
from support.played_runs import leave_run

from coworld_core.rules import Rules, check_replay, read_replay
from coworld_runner.certification.verification import Verifier
from coworld_runner.kit.rollout import rollouts

_AT_ONCE = 64


def _games() -> dict[str, type[Rules]]:
    games: dict[str, type[Rules]] = {"nim": Nim}
    if found := openspiel():
        games["connect four"] = found[0]
    return games


def _played(rules: type[Rules], episodes: int) -> list[bytes]:
    """Play episodes, and keep their replays."""
    return [one.replay or b"" for one in rollouts(rules, "random", episodes=episodes, record=True)]


def _verified(rules: type[Rules], replays: list[bytes]) -> None:
    for replay in replays:
        assert check_replay(rules, read_replay(replay)).tick is None


def _seconds(program: Callable[[], object]) -> Callable[[], float]:
    def run() -> float:
        begun = time.process_time()
        program()
        return time.process_time() - begun

    return run


async def _runs(place: Path, episodes: int) -> float:
    """Verify a run again and again; returns the processor seconds of this process and the worker."""
    before = os.times()
    async with Verifier() as verifier:
        for _ in range(0, episodes, _AT_ONCE):
            assert all(one.ok for one in await verifier.verify([("run", place)] * _AT_ONCE))
    after = os.times()
    return sum(after[:4]) - sum(before[:4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=1024)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    figures: dict[str, Any] = {"machine": machine(), "replays": {}, "runs": {}}
    for name, rules in _games().items():
        replays = _played(rules, asked.episodes)
        play, verify = (
            median(times)
            for times in interleaved(
                asked.rounds,
                _seconds(lambda rules=rules: _played(rules, asked.episodes)),
                _seconds(lambda rules=rules, replays=replays: _verified(rules, replays)),
            )
        )
        figures["replays"][name] = {
            "verified_per_second": round(asked.episodes / verify),
            "played_per_second": round(asked.episodes / play),
            "of_playing": round(verify / play, 2),
        }
    place = anyio.run(leave_run, NIM, Path(tempfile.mkdtemp()) / "run")
    start = anyio.run(_runs, place, _AT_ONCE)
    few, memory = anyio.run(_runs, place, _AT_ONCE + asked.episodes) - start, peak_mib()
    anyio.run(_runs, place, _AT_ONCE + 4 * asked.episodes)
    shutil.rmtree(place.parent)
    figures["runs"] = {
        "nim_per_processor_second": round(asked.episodes / few),
        "more_mib_for_four_times_as_many": round(peak_mib() - memory, 1),
    }
    rows = [(name, *found.values()) for name, found in figures["replays"].items()]
    show("Replays, episodes a second of processor time", ("game", "verified", "played", "time of playing"), rows)
    show("Runs of nim with their files", ("a second of processor time", "more MiB"), [tuple(figures["runs"].values())])
    finish(figures, as_json=asked.json)


if __name__ == "__main__":
    main()
