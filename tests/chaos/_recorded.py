"""A runner to be killed: records an episode of nim. Arguments are one JSON object."""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
from support.nim_episode import NIM

from coworld_runner import EpisodeOptions, run_episode


async def main(orders: dict[str, Any]) -> None:
    await run_episode(
        NIM,
        players=["random", "random"],
        seed=1,
        config={"sticks": 1000},
        backend="process",
        workspace=orders["workspace"],
        run_id=orders["run_id"],
        options=EpisodeOptions(record=orders["record"]),
    )


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]))
