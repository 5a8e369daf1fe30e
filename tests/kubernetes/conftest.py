"""A namespace of a module's own with an arena on it, or with what an operator puts there and the Jobs of workers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from pathlib import Path

import pytest
from support.arena import Arena, open_arena
from support.cluster_workers import WorkerJobs, apply_manifests, node_address, open_worker_jobs
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


@pytest.fixture(scope="module")
def store() -> Generator[Mapping[str, str]]:
    """Variables that reach a server with a bucket `arena`, from here and from pods."""
    import boto3
    import httpx2
    from moto.server import ThreadedMotoServer

    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}

    server = ThreadedMotoServer(ip_address=node_address(), port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    # All servers of a process have the same buckets
    httpx2.post(f"{url}/moto-api/reset").raise_for_status()
    boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys).create_bucket(Bucket="arena")
    yield {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
    }
    server.stop()
