"""A runner to be killed: plays one episode through the library. Arguments are one JSON object."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
from support.arena import make_backend
from support.misfit_kit import misfit_plan

from coworld_runner.episode import EpisodeOptions, run_episode


async def main(orders: dict[str, Any]) -> None:
    plan = misfit_plan("well", *orders["players"], image=orders["image"], mark=orders["mark"], **orders["config"])
    async with make_backend(orders["backend"]) as backend:
        record = await run_episode(
            plan,
            backend=backend,
            workspace=Path(orders["workspace"]),
            options=EpisodeOptions(timeout=900),
            run_id=orders["run_id"],
        )
    print(record)


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]))
