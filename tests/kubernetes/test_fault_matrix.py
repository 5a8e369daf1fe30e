"""Who is blamed for what on a cluster: the rows whose end is seen in another way there, several at a time."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest
from faults.test_matrix import GAMES, PLAYERS, Case, judge, play
from support.arena import Arena

from coworld_runner.episode.episode_options import EpisodeOptions

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(1200)]

AT_ONCE = 4
READY = 20.0
"""Seconds for a game that is never ready: a pod's network is behind its start."""


def on_cluster(case: Case) -> Case:
    """The row as a cluster has it: its deadline is waited for, since others are played by the same clock."""
    options = {name: READY if name == "ready_timeout_seconds" else value for name, value in case.options.items()}
    return replace(case, options=options, idle="")


async def test_blame(arena: Arena) -> None:
    wrong: dict[str, str] = {}
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def one(number: int, case: Case) -> None:
        async with limit:
            try:
                found = await play(arena, case, EpisodeOptions(timeout_seconds=600), arena.directory / str(number))
                judge(case, found)
            except (AssertionError, Exception) as error:
                wrong[f"{number} {case.id}"] = f"{type(error).__name__}: {error}"

    async with anyio.create_task_group() as group:
        for number, case in enumerate(case for case in (*GAMES, *PLAYERS) if case.engine):
            group.start_soon(one, number, on_cluster(case))
    assert wrong == {}, "\n".join(f"{name}: {words}" for name, words in wrong.items())
