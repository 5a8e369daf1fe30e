"""The cost of starting: `coworld --help` compared with a bare import of click, imports, and reading a manifest.

python tests/benchmarks/startup.py --rounds 15
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from _measure import Timing, finish, interleaved, machine, median, python, run, show, spread
from _subject import ROOT

PROGRAMS = {
    "python -c 'import click'": ["-c", "import click"],
    "coworld --help": ["-m", "coworld_cli", "--help"],
    "coworld run-episode --help": ["-m", "coworld_cli", "run-episode", "--help"],
    "import coworld_core": ["-c", "import coworld_core"],
    "import coworld_runner.episode.single": ["-c", "import coworld_runner.episode.single"],
    "python -c pass": ["-c", "pass"],
}

_LOADING = """
import json, statistics, sys, time
from pathlib import Path
begun = time.perf_counter()
from coworld_core.manifest.manifest_file import load_manifest
imported = time.perf_counter()
load_manifest(Path(sys.argv[1]), template=True)
first = time.perf_counter()
warm = []
for _ in range(int(sys.argv[2])):
    begin = time.perf_counter()
    load_manifest(Path(sys.argv[1]), template=True)
    warm.append(time.perf_counter() - begin)
print(json.dumps({"import_ms": (imported - begun) * 1e3, "first_ms": (first - imported) * 1e3,
                  "warm_ms": statistics.median(warm) * 1e3}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cold", action="store_true", help="without a first round that does not count")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    def program(words: list[str]) -> Any:
        def once() -> Timing:
            return run([python(), *words])

        return once

    programs = [program(words) for words in PROGRAMS.values()]
    if not options.cold:
        interleaved(1, *programs)  # Fill the caches of files and bytecode.
    timings = interleaved(options.rounds, *programs)
    base = median([timing.wall for timing in timings[0]])
    figures: dict[str, Any] = {"benchmark": "startup", "machine": machine()}
    rows: list[list[object]] = []
    for name, runs in zip(PROGRAMS, timings, strict=True):
        walls = [timing.wall for timing in runs]
        cpu = median([timing.cpu for timing in runs])
        figures[name] = {"median_seconds": median(walls), "ratio": median(walls) / base, "cpu_seconds": cpu}
        rows.append([name, spread(walls, 3), f"{median(walls) / base:.2f}", f"{cpu:.3f}"])
    show(
        f"start-up, {options.rounds} rounds",
        ["program", "wall s, median (range)", "x import click", "user+sys s"],
        rows,
    )

    manifest = ROOT / "examples/paintarena/coworld_manifest_template.json"
    loading = json.loads(run([python(), "-c", _LOADING, str(manifest), "50"]).output)
    figures["load_manifest_ms"] = loading["warm_ms"]
    figures["load_manifest"] = loading
    show(
        "reading and checking a manifest",
        ["import ms", "first ms", "warm ms"],
        [[f"{loading[key]:.2f}" for key in ("import_ms", "first_ms", "warm_ms")]],
    )
    finish(figures, as_json=options.json)


if __name__ == "__main__":
    main()
