"""Players that are connected and silent are named while the episode waits for their move."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from coworld_core.episode.events import BaseEvent, Notice
from coworld_core.episode.outcome import Exit
from coworld_runner import run_episode
from coworld_runner.episode import missing_players
from coworld_runner.episode.single import EpisodeOptions
from coworld_runner.kit.server.scaffolds import new_game

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


async def test_a_player_that_never_acts_is_named(tmp_path: Path) -> None:
    bot = tmp_path / "silent.py"
    bot.write_text("async def play(seat):\n    async for _ in seat:\n        await seat.send('up')\n")
    said: list[str] = []
    await run_episode(
        "examples/paintarena",
        variant="quick",
        players=[str(bot), "sweep-painter"],
        backend="process",
        workspace=tmp_path / "out",
        listeners=(lambda event: said.append(event.message) if isinstance(event, Notice) else None,),
    )
    (line,) = [line for line in said if "never acted" in line]
    assert line.startswith("Player 0 (silent) never acted in ")
    assert "of its were refused" in line


async def test_player_that_has_ended_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_players, "_SILENT", 0.0)
    told: list[BaseEvent] = []
    units = [
        SimpleNamespace(name=f"player-{slot}", spec=SimpleNamespace(slot=slot), exit=ended)
        for slot, ended in enumerate((Exit(reason="exited", code=0), None))
    ]
    heard = anyio.Event()

    def publish(event: BaseEvent) -> None:
        told.append(event)
        heard.set()

    def who(_: str, slot: int) -> str:
        return f"Player {slot} (p)"

    def warm_up() -> float:
        return 0.0

    plan = SimpleNamespace(game_config={}, warm_up=warm_up)
    setup: Any = SimpleNamespace(plan=plan, options=SimpleNamespace(connect_timeout_seconds=60.0))
    ledger: Any = SimpleNamespace(seats={}, who=who, publish=publish)
    started = anyio.Event()
    started.set()
    watch: Any = None

    def missing() -> Any:
        return units

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(missing_players.watch_connections, setup, ledger, watch, started, missing)
        await heard.wait()
        tasks.cancel_scope.cancel()
    words = [event.message for event in told if isinstance(event, Notice)]
    assert words == ["Waiting for player 1 (p): it has not connected for 0 s."]
