"""The API server killed and started again while episodes are played: they go on."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections import Counter

import anyio
import anyio.to_thread
import pytest
from support.arena import Arena
from support.kube import cluster_process, labelled

from coworld_core.episode.events import BaseEvent, PhaseStarted
from coworld_runner.episode.single import EpisodeOptions

pytestmark = [pytest.mark.kubernetes, pytest.mark.alone, pytest.mark.timeout(900)]

EPISODES = 10
PLAY_SECONDS = 45.0
"""Long enough for the first to play still when the last has begun, and the API server was away."""


@pytest.fixture
def start_again() -> list[str]:
    """The command that starts whatever of the cluster has ended."""
    command = shlex.split(os.environ.get("CLUSTER_UP", ""))
    if not command:
        pytest.skip("CLUSTER_UP is not set: the command that starts the parts of the cluster that have ended")
    return command


async def test_ten_episodes_outlive_a_restart_of_the_api_server(
    arena: Arena, namespace: str, start_again: list[str]
) -> None:
    playing = 0
    all_play = anyio.Event()
    ended: Counter[str] = Counter()
    away = anyio.Event()
    trouble: dict[int, str] = {}

    def watch(event: BaseEvent) -> None:
        nonlocal playing
        if isinstance(event, PhaseStarted) and event.phase == "play":
            playing += 1
            if playing == EPISODES:
                all_play.set()

    async def play(index: int) -> None:
        try:
            found = await arena.play(
                arena.plan(play_seconds=PLAY_SECONDS),
                EpisodeOptions(timeout_seconds=600),
                listeners=(watch,),
                workspace=arena.directory / f"episode-{index}",
            )
        except Exception as error:
            trouble[index] = f"{type(error).__name__}: {error}"
            return
        ended["after" if away.is_set() else "before"] += 1
        if not found.record.ok:
            trouble[index] = str(found.record.faults)

    async with anyio.create_task_group() as tasks:
        for index in range(EPISODES):
            tasks.start_soon(play, index)
        await all_play.wait()
        server = cluster_process("kube-apiserver")
        server.send_signal(signal.SIGKILL)
        away.set()
        await anyio.run_process(start_again, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert cluster_process("kube-apiserver").pid != server.pid
    assert trouble == {}
    assert ended == {"after": EPISODES}
    assert await anyio.to_thread.run_sync(labelled, namespace) == []
