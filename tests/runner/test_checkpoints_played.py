"""A training run as a player, really played: its newest checkpoint and named ones, each with its weights."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.trained_players import EXAMPLES, built_nim, play_checkpoints

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def test_checkpoints_play_as_processes(tmp_path: Path) -> None:
    await play_checkpoints("process", EXAMPLES / "nim", tmp_path)


@pytest.mark.docker
@pytest.mark.wheels
async def test_checkpoints_play_in_containers(tmp_path: Path) -> None:
    async with built_nim(tmp_path) as game:
        await play_checkpoints("docker", game, tmp_path)
