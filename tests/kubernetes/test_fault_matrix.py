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


def on_cluster(case: Case) -> Case:
    """The row as a cluster has it."""
    options = dict(case.options)
    if "timeout" in options:
        options["timeout"] = DEADLINE
    return replace(case, options=options)


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
        for number, case in enumerate((*GAMES, *PLAYERS)):
            group.start_soon(one, number, on_cluster(case))
    assert wrong == {}, "\n".join(f"{name}: {words}" for name, words in wrong.items())
