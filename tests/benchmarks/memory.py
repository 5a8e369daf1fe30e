"""Peak memory of the runner by size of replay and logs; it should be constant, since neither is held in memory.

python tests/benchmarks/memory.py --mebibytes 200
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from _measure import HERE, finish, machine, python, run, show
from _subject import BackendName, subject

MIB = 1 << 20


def peak(backend: BackendName, scratch: Path, what: str, size: int) -> float:
    """Peak resident MiB of a runner during an episode that writes `size` MiB."""
    place = scratch / f"{backend}-{what}-{size}"
    place.mkdir()
    about = subject("misfits", backend, place, seconds=0.2)
    manifest = json.loads(about.manifest.read_text())
    for place_of_config in (manifest["variants"][0], manifest["certification"]):
        place_of_config["game_config"] |= {
            "behaviour": "big-replay" if what == "replay" else "floods-log",
            "size": size * MIB,
        }
    about.manifest.write_text(json.dumps(manifest))
    timing = run([python(), str(HERE / "_library.py"), str(about.manifest), backend, str(place / "run"), "1", "1"])
    return float(json.loads(timing.output.splitlines()[-1])["peak_rss_mib"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["process", "docker"], nargs="+", default=["process"])
    parser.add_argument("--mebibytes", type=int, default=200, help="of replay or log, against 1")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures: dict[str, Any] = {"benchmark": "memory", "machine": machine(), "mebibytes": options.mebibytes, "peaks": {}}
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as directory:
        for backend in options.backend:
            for what in ("replay", "log"):
                small = peak(backend, Path(directory), what, 1)
                large = peak(backend, Path(directory), what, options.mebibytes)
                figures["peaks"][f"{backend} {what}"] = {
                    "small_mib": small,
                    "large_mib": large,
                    "growth_mib": large - small,
                }
                rows.append([backend, what, f"{small:.1f}", f"{large:.1f}", f"{large - small:+.1f}"])
    show(
        "peak RSS of the runner, MiB",
        ["backend", "of what", "1 MiB of it", f"{options.mebibytes} MiB of it", "growth"],
        rows,
    )
    finish(figures, as_json=options.json)


if __name__ == "__main__":
    main()
