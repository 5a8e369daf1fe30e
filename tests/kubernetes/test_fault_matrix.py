"""Who is blamed for what on a cluster: the whole matrix, several rows at a time."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest
from faults.test_matrix import GAMES, MIB, PLAYERS, Case, judge
from support.arena import Arena

from coworld_runner import episode as episode_module
from coworld_runner.episode import EpisodeOptions

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(1200)]

AT_ONCE = 4
DEADLINE = 60.0
"""Seconds for rows that wait for the deadline: a pod is behind a container in coming and going."""
READY = 20.0
"""Seconds for rows that wait for a game that is never ready: a pod's network is behind its start."""
LONGER = {"well+exits-0-midway": {"play_seconds": 20.0}}
"""An end is seen seconds after it came, and this one must be seen well before the game's."""
ONE_BY_ONE = "well+exits-3+exits-3"
"""Ends of the same moment are seen one by one, and the first to be seen ends the episode."""


def on_cluster(case: Case) -> Case:
    """The row as a cluster has it."""
    limits = {"timeout": DEADLINE, "ready_timeout": READY}
    options = {name: limits.get(name, value) for name, value in case.options.items()}
    return replace(case, options=options, config={**case.config, **LONGER.get(case.id, {})})


@pytest.mark.slow
async def test_blame(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episode_module, "ARTIFACT_LIMIT", 2 * MIB)
    wrong: dict[str, str] = {}
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def one(number: int, case: Case) -> None:
        async with limit:
            options = replace(EpisodeOptions(timeout=600), **case.options)
            workspace = arena.directory / str(number)
            try:
                found = await arena.play(
                    arena.plan(case.game, *case.players, **case.config), options, workspace=workspace
                )
                judge(case, found)
            except (AssertionError, Exception) as error:
                wrong[f"{number} {case.id}"] = f"{type(error).__name__}: {error}"

    async with anyio.create_task_group() as group:
        for number, case in enumerate(case for case in (*GAMES, *PLAYERS) if case.id != ONE_BY_ONE):
            group.start_soon(one, number, on_cluster(case))
    assert wrong == {}, "\n".join(f"{name}: {words}" for name, words in wrong.items())
