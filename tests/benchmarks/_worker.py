"""Plays requested episodes on an Observatory, for the benchmarks. Arguments: data, episodes, how many at once, seconds.

The server and its worker share this process, as with `observatory serve`.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime
from pathlib import Path

import anyio
from _measure import HERE

sys.path.insert(0, str(HERE.parent))

from support.observatory_kit import Subject, open_platform, roster, seed, until_over

ROOT = HERE.parents[1]
PAINTARENA = Subject(
    ROOT / "examples/paintarena",
    "{{PAINTARENA_IMAGE}}",
    "paintarena",
    ("python", "-m", "paintarena.players.frontier"),
)


async def main(data: Path, episodes: int, parallel: int, play_seconds: float) -> None:
    async with open_platform(data, packages=[PAINTARENA.directory], parallel=parallel) as platform:
        ann = await platform.account("ann", team=True)
        world = await seed(platform.services, ann.id, subject=PAINTARENA)
        await platform.policy(ann, "frontier", subject=PAINTARENA)
        async with platform.client(ann) as client:
            body = {
                "coworld_id": world.id,
                "roster": roster("frontier", "frontier"),
                "num_episodes": episodes,
                "game_config_overrides": {"max_ticks": max(1, round(20 * play_seconds)), "tick_rate": 20},
            }
            begun = time.monotonic()
            made = await client.post("/v2/experience-requests", json=body)
            if made.status_code != 200:
                raise SystemExit(made.text)
            over = await until_over(client, made.json()["id"])
            seconds = time.monotonic() - begun
    if over["completed_count"] != episodes:
        raise SystemExit(f"not all went well: {json.dumps(over)[:2000]}")
    runs = [
        (datetime.fromisoformat(row["completed_at"]) - datetime.fromisoformat(row["started_at"])).total_seconds()
        for row in over["episodes"]
    ]
    print(json.dumps({"seconds": seconds, "runs": runs}))


if __name__ == "__main__":
    _, where, count, at_once, length = sys.argv
    anyio.run(main, Path(where), int(count), int(at_once), float(length))
