"""Arenas for misbehaviour."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from support.arena import Arena, open_arena


@pytest.fixture
def backend_name() -> str:
    """Which backend `arena` is on, for tests that say so by parameter."""
    return "process"


@pytest.fixture
async def arena(backend_name: str, tmp_path: Path) -> AsyncGenerator[Arena]:
    """An arena; the test fails when something of its runs is left."""
    async for opened in open_arena(backend_name, tmp_path):
        yield opened
