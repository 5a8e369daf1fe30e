"""Players that are connected and silent are named while the episode waits for their move."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from coworld_core.episode.events import BaseEvent, Notice
from coworld_runner import run_episode
from coworld_runner.episode.running import EpisodeOptions
from coworld_runner.serving.starting import new_game

pytestmark = pytest.mark.slow

SILENT = """import asyncio
async def play(seat):
    await asyncio.Event().wait()
"""


async def test_a_connected_player_that_sends_nothing_is_named(tmp_path: Path) -> None:
    game = new_game("small", directory=tmp_path / "small").directory
    bot = tmp_path / "silent.py"
    bot.write_text(SILENT)
    said: list[str] = []
    with anyio.CancelScope() as scope:

        def listen(event: BaseEvent) -> None:
            if isinstance(event, Notice) and "Waiting for" in event.message:
                said.append(event.message)
                scope.cancel()

        await run_episode(
            game,
            players=[str(bot), "random"],
            backend="process",
            workspace=tmp_path / "out",
            options=EpisodeOptions(watch=True, timeout_seconds=60),
            listeners=(listen,),
        )
    assert said == ["Waiting for player 0 (silent): nothing sent for 5 s."]
