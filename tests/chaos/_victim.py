"""A runner to be killed: plays one episode through the library. Arguments are one JSON object.

With ``kill_at`` it kills itself as soon as that phase begins.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
from support.arena import make_backend
from support.misfit_kit import misfit_plan

from coworld_runner.episode.running import EpisodeOptions, run_episode


async def main(orders: dict[str, Any]) -> None:
    def listen(event: Any) -> None:
        if event.kind == "phase_started" and event.phase == orders.get("kill_at"):
            os.kill(os.getpid(), signal.SIGKILL)

    plan = misfit_plan("well", *orders["players"], image=orders["image"], mark=orders["mark"], **orders["config"])
    async with make_backend(orders["backend"]) as backend:
        record = await run_episode(
            plan,
            backend=backend,
            workspace=Path(orders["workspace"]),
            options=EpisodeOptions(timeout=900),
            run_id=orders["run_id"],
            listeners=(listen,),
        )
    print(record)


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]))
