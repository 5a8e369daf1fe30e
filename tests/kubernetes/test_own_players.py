"""A file or a training run of one's own, played by pods, or by the game in its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.test_own_players import play_a_file
from runner.test_file_players import play_what_was_built
from support.arena import Arena
from support.images import BASE_IMAGE
from support.trained_players import built_nim, play_checkpoints

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]


async def test_a_file_plays_beside_the_package_s_own_image(arena: Arena, tmp_path: Path) -> None:
    await play_a_file(arena, tmp_path)


async def test_a_game_that_runs_its_players_itself(
    arena: Arena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASE_IMAGE", BASE_IMAGE)
    await play_what_was_built(arena.backend, tmp_path)


@pytest.mark.wheels
async def test_checkpoints_of_a_run(arena: Arena, tmp_path: Path) -> None:
    async with built_nim(tmp_path) as game:
        await play_checkpoints(arena.backend, game, tmp_path)
