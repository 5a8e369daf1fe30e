"""A file of one's own, played by pods."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.test_own_players import play_a_file
from support.arena import Arena

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]


async def test_a_file_plays_beside_the_package_s_own_image(arena: Arena, tmp_path: Path) -> None:
    await play_a_file(arena, tmp_path)
