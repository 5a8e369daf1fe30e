"""What seats saw in a replay, in words: a process plays the game of the kit again, as far as a tick."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread

from ..backends.process.child_environment import child_environment
from ..episode.backend_choice import runs_as_processes
from ..kit.rollout.match_process import MatchProcess
from ..kit.rollout.seat_views import ReplayMoment
from ..package.kit_programs import rules_served
from ..package.resolver import Package
from ..runs.scratch import open_scratch

__all__ = ["SeatText", "open_seat_texts"]

SeatText = Callable[[int, int], Awaitable[str]]
"""Takes a tick and a seat, and returns the text; raises `CoworldError` if the rules do not play the replay again."""


@asynccontextmanager
async def open_seat_texts(package: Package, replay: Path) -> AsyncGenerator[SeatText | None]:
    """Ask the rules of a package what seats saw, while the context is open.

    Args:
        package: The game.
        replay: Its replay, not compressed.

    Yields:
        What answers; None for games of other kinds, and for packages whose rules do not run here by themselves.
    """
    served = rules_served(package.manifest)
    game = package.manifest.game.runnable
    if served is None or package.fetched or runs_as_processes(package) or game.image not in package.contexts:
        yield None
        return
    async with open_scratch() as scratch:
        place = scratch.directory("rules")
        for own in ("home", "tmp"):
            (place / own).mkdir()
        environment = {**child_environment(place), **game.env}
        process = MatchProcess(served[1], directory=package.contexts[game.image], env=environment)
        try:
            if await anyio.to_thread.run_sync(process.problem, abandon_on_cancel=True):
                yield None
                return
            content = await anyio.to_thread.run_sync(replay.read_bytes)

            async def text(tick: int, slot: int) -> str:
                moment = ReplayMoment(replay=content, tick=tick, slot=slot)
                return (await anyio.to_thread.run_sync(process.view, moment, abandon_on_cancel=True)).text or ""

            yield text
        finally:
            process.close()
