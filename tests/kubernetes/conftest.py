"""A namespace of a module's own with an arena on it, or with what an operator puts there and the Jobs of workers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from support.arena import Arena, open_arena
from support.cluster_workers import WorkerJobs, apply_manifests, open_worker_jobs
from support.kube import namespace_for_tests
from support.misfit_kit import ensure_image
from support.worker_image import ensure_worker_image


@pytest.fixture(scope="module")
def namespace() -> Generator[str]:
    with namespace_for_tests() as name:
        yield name


@pytest.fixture
async def arena(namespace: str, tmp_path: Path) -> AsyncGenerator[Arena]:
    assert namespace
    async for opened in open_arena("kubernetes", tmp_path):
        yield opened


@pytest.fixture(scope="module")
def operated(namespace: str) -> str:
    """The namespace with what the documentation's manifests put there."""
    apply_manifests(namespace)
    return namespace


@pytest.fixture
async def worker_jobs(operated: str) -> AsyncGenerator[WorkerJobs]:
    ensure_image()
    ensure_worker_image()
    async with open_worker_jobs(operated) as opened:
        yield opened
