"""Throughput of concurrent episodes compared with what the processors allow.

There are two references. The bound: E episodes, N at a time, take at least E / N times the wall time of one alone, and
at least the processor seconds of E episodes run alone, spread over all processors. The floor: as many bare scripts
(`_floor.py`), as many at a time. On docker, the processor seconds count the whole machine, which must be quiet.

    python tests/benchmarks/parallel.py --backend process docker
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from _measure import HERE, finish, interleaved, machine, median, python, run, show
from _subject import FloorNetwork, Subject, subject


def busy_seconds() -> float:
    """Seconds for which all processors of this machine have been busy so far, in any program."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Batch:
    """A batch of episodes."""

    seconds: float
    """Wall time without the start of the program."""
    cost: float
    """Processor seconds per episode: of its process tree, or on docker of the whole machine."""


def played(about: Subject, where: Path, episodes: int, at_once: int) -> Batch:
    """Play a number of episodes, `at_once` at a time."""
    words = [str(about.manifest), about.backend, str(where), str(episodes), str(at_once)]
    before = busy_seconds()
    timing = run([python(), str(HERE / "_library.py"), *words])
    busy = busy_seconds() - before if about.backend == "docker" else timing.cpu
    return Batch(json.loads(timing.output.splitlines()[-1])["seconds"], busy / episodes)


_numbers = count(1)


def fresh(scratch: Path) -> Path:
    """The path of a new directory."""
    return scratch / f"run-{next(_numbers)}"


def floors(about: Subject, episodes: int, at_once: int) -> float:
    """Seconds for the same number of bare scripts."""
    begun = time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        done = [pool.submit(run, [python(), str(HERE / "_floor.py"), about.floor_spec()]) for _ in range(episodes)]
        for each in done:
            each.result()
    return time.monotonic() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["process", "docker"], nargs="+", default=["process"])
    parser.add_argument("--package", choices=["paintarena", "misfits"], default="paintarena")
    parser.add_argument("--episodes", type=int, default=24)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.0, help="of play")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cold", action="store_true", help="without a first episode that does not count")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    processors = len(os.sched_getaffinity(0))
    figures: dict[str, Any] = {"benchmark": "parallel", "machine": machine(), "at_once": options.at_once}
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as directory, FloorNetwork("docker" in options.backend):
        for backend in options.backend:
            about = subject(options.package, backend, Path(directory), seconds=options.seconds)
            scratch = Path(directory) / backend
            scratch.mkdir()
            if not options.cold:
                played(about, scratch / "warm", 1, 1)
            alone, bare, many = interleaved(
                options.rounds,
                lambda about=about, scratch=scratch: played(about, fresh(scratch), 1, 1),
                lambda about=about: floors(about, options.episodes, options.at_once),
                lambda about=about, scratch=scratch: played(about, fresh(scratch), options.episodes, options.at_once),
            )
            single, cost = median([batch.seconds for batch in alone]), median([batch.cost for batch in alone])
            ours, paid = median([batch.seconds for batch in many]), median([batch.cost for batch in many])
            floor = median(bare)
            bound = max(single * options.episodes / options.at_once, cost * options.episodes / processors)
            figures[backend] = {
                "alone_seconds": single,
                "alone_cpu_seconds": cost,
                "bound_seconds": bound,
                "floor_seconds": floor,
                "together_seconds": ours,
                "together_cpu_seconds_each": paid,
                "share_of_what_processors_allow": bound / ours,
                "share_of_floor": floor / ours,
            }
            cells = [single, cost, paid, bound, floor, ours, bound / ours, floor / ours]
            rows.append([backend, *(f"{cell:.2f}" for cell in cells)])
    show(
        f"{options.package}: {options.episodes} episodes, {options.at_once} at a time, {processors} processors",
        ["backend", "one alone", "its cpu", "cpu of each", "bound", "floor", "ours", "bound/ours", "floor/ours"],
        rows,
    )
    finish(figures, as_json=options.json)


if __name__ == "__main__":
    main()
