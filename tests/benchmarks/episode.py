"""Wall time of one episode compared with the floor: a bare script that starts the same game and the same players.

The programs take turns, A, B, C, A, B, C, …, so that the machine's load affects all of them equally; the result is the
ratio of medians. Each program is a separate process, and its start is included.

    python tests/benchmarks/episode.py --rounds 7
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from _measure import HERE, Timing, finish, interleaved, machine, median, python, run, show, spread
from _subject import BackendName, FloorNetwork, Subject, subject

from coworld_core.episode.record import read_record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["process", "docker"], nargs="+", default=["process", "docker"])
    parser.add_argument("--package", choices=["paintarena", "misfits"], default="paintarena")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of play")
    parser.add_argument("--cold", action="store_true", help="without a first round that does not count")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures: dict[str, Any] = {"benchmark": "episode", "machine": machine(), "play_seconds": options.seconds}
    with tempfile.TemporaryDirectory() as directory, FloorNetwork("docker" in options.backend):
        for backend in options.backend:
            about = subject(options.package, backend, Path(directory), seconds=options.seconds)
            figures[backend] = compare(about, backend, Path(directory), options)
    finish(figures, as_json=options.json)


def compare(about: Subject, backend: BackendName, scratch: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Take turns, print the table, and return the figures."""
    count = 0
    phases: dict[str, list[float]] = defaultdict(list)

    def workspace() -> Path:
        nonlocal count
        count += 1
        return scratch / f"{backend}-{count}"

    def floor() -> Timing:
        return run([python(), str(HERE / "_floor.py"), about.floor_spec()])

    def library() -> Timing:
        where = workspace()
        timing = run([python(), str(HERE / "_library.py"), str(about.manifest), backend, str(where), "1", "1"])
        record = read_record(where)
        for phase in record.phases:
            phases[phase.phase].append(phase.seconds)
        phases["all (episode.json)"].append(record.seconds)
        return timing

    def command() -> Timing:
        words = ["run-episode", str(about.manifest), "--variant", about.variant, "--backend", backend, "--quiet"]
        return run([python(), "-m", "coworld_cli", *words, "-o", str(workspace())])

    rounds: int = options.rounds
    if not options.cold:
        interleaved(1, floor, library, command)  # Fill the caches of files and bytecode for all programs.
    phases.clear()
    timings = interleaved(rounds, floor, library, command)
    names = ["floor", "run_episode()", "coworld run-episode"]
    base = median([timing.wall for timing in timings[0]])
    figures: dict[str, Any] = {"rounds": rounds, "phases": {name: median(seconds) for name, seconds in phases.items()}}
    rows: list[list[object]] = []
    for name, runs in zip(names, timings, strict=True):
        walls = [timing.wall for timing in runs]
        ratio = median(walls) / base
        figures[name] = {
            "wall_seconds": walls,
            "median_seconds": median(walls),
            "ratio": ratio,
            "cpu_seconds": median([timing.cpu for timing in runs]),
        }
        rows.append(
            [
                name,
                spread(walls),
                f"{ratio:.2f}",
                f"{figures[name]['cpu_seconds']:.2f}",
            ]
        )
    show(
        f"{options.package} on {backend}, {rounds} rounds",
        ["program", "wall s, median (range)", "x floor", "user+sys s"],
        rows,
    )
    show("phases of run_episode()", ["phase", "median s"], [[name, f"{median(s):.3f}"] for name, s in phases.items()])
    return figures


if __name__ == "__main__":
    main()
