"""A namespace of a module's own, and an arena on it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from support.arena import Arena, open_arena
from support.kube import namespace_for_tests, need_cluster


@pytest.fixture(scope="module")
def namespace() -> Generator[str]:
    need_cluster()
    with namespace_for_tests() as name:
        yield name


@pytest.fixture
async def arena(namespace: str, tmp_path: Path) -> AsyncGenerator[Arena]:
    assert namespace
    async for opened in open_arena("kubernetes", tmp_path):
        yield opened
