"""Episodes whose frames are recorded in a cluster, where the recorder is a pod between players and game."""

from __future__ import annotations

import pytest
from support.arena import Arena
from support.recorded_frames import check_blame_of_a_crash, check_frames

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]


async def test_frames_are_recorded_by_a_pod(arena: Arena) -> None:
    await check_frames(arena)
    await check_blame_of_a_crash(arena)
