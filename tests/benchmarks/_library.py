"""Runs episodes by the library, for the benchmarks. Arguments: package, backend, output, episodes, how many at once."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import anyio
from _measure import peak_mib

from coworld_runner.episode.backend_choice import make_backend
from coworld_runner.episode.batch import run_batch
from coworld_runner.episode.single import run_episode
from coworld_runner.package.plan import plan_episode
from coworld_runner.package.resolver import resolve_package


async def main(package: str, backend: str, output: Path, episodes: int, parallel: int) -> None:
    found = await resolve_package(package)
    plan = plan_episode(found, variant="quick")
    assert backend in ("process", "docker")
    begun = time.monotonic()
    async with make_backend(backend, found) as entered:
        if episodes == 1:
            record = await run_episode(plan, backend=entered, workspace=output)
            ok, runs = record.ok, [record.seconds]
        else:
            summary = await run_batch(plan, episodes=episodes, parallel=parallel, backend=entered, workspace=output)
            ok, runs = summary.ok, [row.seconds for row in summary.episodes]
    seconds = time.monotonic() - begun
    print(json.dumps({"ok": ok, "seconds": seconds, "runs": runs, "peak_rss_mib": peak_mib()}))
    if not ok:
        raise SystemExit(f"not all went well; see {output}")


if __name__ == "__main__":
    _, where, kind, into, count, at_once = sys.argv
    anyio.run(main, where, kind, Path(into), int(count), int(at_once))
