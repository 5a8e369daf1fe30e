"""Episodes whose frames are recorded: the recorder is in between on every backend, and nobody is blamed for it."""

from __future__ import annotations

import pytest
from support.arena import Arena
from support.recorded_frames import check_blame_of_a_crash, check_frames

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def recorders_image(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where players are containers, the recorder is one, of an image that is here."""
    monkeypatch.setenv("COWORLD_COLLECTOR_IMAGE", arena.image)


BACKENDS = ["process", pytest.param("docker", marks=pytest.mark.docker)]


@pytest.mark.parametrize("backend_name", BACKENDS)
async def test_frames_are_recorded(arena: Arena) -> None:
    await check_frames(arena)


@pytest.mark.parametrize("backend_name", BACKENDS)
async def test_a_player_that_crashes_is_blamed_behind_the_recorder_too(arena: Arena) -> None:
    await check_blame_of_a_crash(arena)
