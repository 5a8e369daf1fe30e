"""The client with an Observatory on this machine: long lists, many files, and a large file.

* listing: all episodes of a platform with many, page by page
* files: the replays of 200 episodes, 16 at a time compared with one at a time
* large: one replay of `--mebibytes` MiB: peak memory above that of an idle client, and throughput compared with
  `curl` for the same bytes, taking turns in one run

    python tests/benchmarks/client.py --mebibytes 2048
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from _measure import HERE, Timing, finish, interleaved, machine, median, python, run, show, spread
from _platform import fill_episodes

sys.path.insert(0, str(HERE.parent))

from support.cli_kit import quick_commands
from support.observatory import Observatory, running_observatory

from observatory.store.columns import new_id
from observatory.store.models import Artifact

MIB = 1 << 20
SMALL = 64 * 1024


async def fill(platform: Observatory, episodes: int, files: int, large: int) -> list[str]:
    """Add episodes, with replays for the first of them; returns the ids of those, that of the large replay last."""
    async with platform.services() as services:
        kept = (await fill_episodes(services, episodes, members=1)).episodes[: files + 1]
        for index, episode in enumerate(kept):
            size = large if index == len(kept) - 1 else SMALL
            source = platform.settings.data / "replay.bin"
            digest = await anyio.to_thread.run_sync(_noise, source, size)
            stored = await services.artifacts.put(f"benchmark/{episode}/replay.z", source)
            async with services.database.writing() as session:
                session.add(
                    Artifact(
                        id=new_id("art"),
                        episode_request_id=episode,
                        kind="replay",
                        key=stored.key,
                        media_type="application/octet-stream",
                        encoding="identity",
                        size=size,
                        sha256=digest,
                    )
                )
            source.unlink(missing_ok=True)
    return kept


def _noise(path: Path, size: int) -> str:
    """Write incompressible bytes to a file, and return their digest."""
    sha = hashlib.sha256()
    with path.open("wb") as file:
        for start in range(0, size, MIB):
            piece = os.urandom(min(MIB, size - start))
            sha.update(piece)
            file.write(piece)
    return sha.hexdigest()


class Programs:
    """Programs to time, each in a separate process."""

    def __init__(self, platform: Observatory, scratch: Path, kept: Sequence[str], size: int) -> None:
        self.scratch = scratch
        self.size = size
        self.large = kept[-1]
        self.kept = kept[:-1]
        self.server = platform.server
        self.ids = scratch / "ids"
        self.ids.write_text("\n".join(self.kept))
        self.env = {**os.environ, "COWORLD_SERVER": platform.server, "COWORLD_TOKEN": platform.admin_token}
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)
        self.curl_config = scratch / "curl"
        self.curl_config.touch(0o600)
        self.curl_config.write_text(f'header = "Authorization: Bearer {platform.admin_token}"\n')

    def client(self, *arguments: str) -> dict[str, Any]:
        """Run the client's program, and return its own measurements and the wall time."""
        target = self.scratch / "downloads"
        timing = run([python(), str(HERE / "_downloads.py"), *arguments, "--into", str(target)], env=self.env)
        shutil.rmtree(target, ignore_errors=True)
        return {**json.loads(timing.output.splitlines()[-1]), "wall": timing.wall}

    def curl(self) -> Timing:
        """Fetch the large replay with curl."""
        url = f"{self.server}/observatory/v2/episode-requests/{self.large}/artifacts/replay"
        target = self.scratch / "by-curl"
        timing = run(["curl", "-sfS", "--config", str(self.curl_config), "-o", str(target), url], env=self.env)
        check_size(target.stat().st_size, self.size)
        target.unlink()
        return timing

    def replay(self) -> dict[str, Any]:
        """Fetch the large replay with the client."""
        said = self.client("replay", "--ids", self.large)
        check_size(said["size"], self.size)
        return said


def check_size(size: int, wanted: int) -> None:
    if size != wanted:
        raise SystemExit(f"{size} bytes came, and there are {wanted}")


async def measure(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    figures: dict[str, Any] = {"benchmark": "client", "machine": machine()}
    async with running_observatory(scratch) as platform:
        kept = await fill(platform, options.episodes, options.files, options.mebibytes * MIB)
        programs = Programs(platform, scratch, kept, options.mebibytes * MIB)
        await anyio.to_thread.run_sync(compare, programs, options, figures)
    return figures


def compare(programs: Programs, options: argparse.Namespace, figures: dict[str, Any]) -> None:
    """Time the programs, print the tables and record the figures."""
    idle = programs.client("idle")
    listing = programs.client("list", "--limit", str(options.episodes))
    figures["listing"] = {
        "episodes": listing["count"],
        "seconds": listing["seconds"],
        "a_second": listing["count"] / listing["seconds"],
        "growth_mib": listing["peak_rss_mib"] - idle["peak_rss_mib"],
    }
    show(
        "listing episodes",
        ["episodes", "s", "episodes/s", "peak MiB over idle"],
        [
            [
                listing["count"],
                f"{listing['seconds']:.2f}",
                f"{figures['listing']['a_second']:.0f}",
                f"{figures['listing']['growth_mib']:+.1f}",
            ]
        ],
    )

    serial, parallel = interleaved(
        options.rounds,
        lambda: programs.client("files", "--ids", str(programs.ids), "--at-once", "1")["seconds"],
        lambda: programs.client("files", "--ids", str(programs.ids), "--at-once", "16")["seconds"],
    )
    figures["files"] = {
        "files": len(programs.kept),
        "serial_seconds": median(serial),
        "parallel_seconds": median(parallel),
        "speedup": median(serial) / median(parallel),
    }
    show(
        f"{len(programs.kept)} replays of {SMALL // 1024} KiB",
        ["at once", "s, median (range)", "speed-up"],
        [[1, spread(serial), "1.00"], [16, spread(parallel), f"{figures['files']['speedup']:.2f}"]],
    )

    curl, ours = interleaved(options.rounds, programs.curl, programs.replay)
    seconds = [one["seconds"] for one in ours]
    by_curl = [timing.wall for timing in curl]
    figures["large"] = {
        "mebibytes": options.mebibytes,
        "curl_mib_s": options.mebibytes / median(by_curl),
        "client_mib_s": options.mebibytes / median(seconds),
        "client_of_curl": median(by_curl) / median(seconds),
        "curl_cpu_seconds": median([timing.cpu for timing in curl]),
        "client_cpu_seconds": median([one["cpu"] for one in ours]),
        "load_after": machine()["load"],
        "growth_mib": max(one["peak_rss_mib"] for one in ours) - idle["peak_rss_mib"],
    }
    cpu = [f"{figures['large'][f'{program}_cpu_seconds']:.2f}" for program in ("curl", "client")]
    show(
        f"one replay of {options.mebibytes} MiB, load {figures['machine']['load']} to {machine()['load']}",
        ["program", "s, median (range)", "MiB/s", "of curl", "processor s", "peak MiB over idle"],
        [
            ["curl", spread(by_curl), f"{figures['large']['curl_mib_s']:.0f}", "1.00", cpu[0], ""],
            [
                "client",
                spread(seconds),
                f"{figures['large']['client_mib_s']:.0f}",
                f"{figures['large']['client_of_curl']:.2f}",
                cpu[1],
                f"{figures['large']['growth_mib']:+.1f}",
            ],
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--mebibytes", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, quick_commands("observatory", prepared=False):
        figures = anyio.run(measure, options, Path(directory))
    finish(figures, as_json=options.json)


if __name__ == "__main__":
    main()
