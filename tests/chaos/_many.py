"""A run of many episodes to be killed: goes on where the one before it was. Arguments are one JSON object."""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import sys
from pathlib import Path
from typing import Any

import anyio
from support.small_world import world

from coworld_runner.episode.many import run_many
from coworld_runner.package.plan import plan_episode


async def main(orders: dict[str, Any]) -> None:
    async with world() as small:
        plan = plan_episode(small.package)
        plan = dataclasses.replace(plan, game_config={**plan.game_config, "ticks": 2, "tick_seconds": 0.01})
        tally = await run_many(
            ((f"episode {index}", plan) for index in range(orders["count"])),
            backend=small.backend,
            workspace=Path(orders["workspace"]),
            parallel=8,
            resume=True,
        )
    assert tally.status == "completed", tally


if __name__ == "__main__":
    # What it waits for, should it hang
    faulthandler.dump_traceback_later(50)
    anyio.run(main, json.loads(sys.argv[1]))
