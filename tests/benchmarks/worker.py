"""Throughput of an Observatory's worker compared with `run-episode --parallel` of the same width.

Both play the same number of episodes of Paint Arena as local processes, in turns: the library's batch, which
`run-episode -n` calls, and the worker of a server that got one request for all of them. The start of the programs
does not count.

    python tests/benchmarks/worker.py --rounds 3
"""

from __future__ import annotations

import argparse
import json
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

from _measure import HERE, Timing, finish, interleaved, machine, median, python, run, show, spread
from _subject import subject


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=24)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=1.0, help="of play")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    numbers = count()
    with tempfile.TemporaryDirectory() as directory:
        about = subject("paintarena", "process", Path(directory), seconds=options.seconds)
        much = [str(options.episodes), str(options.at_once)]

        def batch() -> Timing:
            where = Path(directory) / f"batch-{next(numbers)}"
            return run([python(), str(HERE / "_library.py"), str(about.manifest), "process", str(where), *much])

        def worker() -> Timing:
            where = Path(directory) / f"observatory-{next(numbers)}"
            return run([python(), str(HERE / "_worker.py"), str(where), *much, str(options.seconds)])

        timings = interleaved(options.rounds, batch, worker)
    figures: dict[str, Any] = {"benchmark": "worker", "machine": machine(), "at_once": options.at_once}
    rows: list[list[object]] = []
    for name, runs in zip(("run-episode --parallel", "worker"), timings, strict=True):
        told = [json.loads(timing.output.splitlines()[-1]) for timing in runs]
        seconds = [each["seconds"] for each in told]
        each = [run for one in told for run in one["runs"]]
        figures[name] = {
            "seconds": median(seconds),
            "seconds_of_one": median(each),
            "cpu_seconds": median([timing.cpu for timing in runs]),
        }
        rows.append([name, spread(seconds), spread(each), f"{figures[name]['cpu_seconds']:.1f}"])
    figures["ratio"] = figures["run-episode --parallel"]["seconds"] / figures["worker"]["seconds"]
    show(
        f"{options.episodes} episodes of Paint Arena, {options.at_once} at a time",
        ["program", "wall s", "of one", "user+sys s, start included"],
        rows,
    )
    print(f"the worker plays at {figures['ratio']:.2f} of run-episode --parallel")
    finish(figures, as_json=options.json)


if __name__ == "__main__":
    main()
