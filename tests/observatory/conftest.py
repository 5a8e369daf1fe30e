"""Databases for the Observatory's tests, SQLite and a real PostgreSQL, and an S3 server for artifacts."""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator

import anyio
import pytest
from support.postgres import execute, running_postgres

from observatory.settings import database_url
from observatory.store.database import open_database

_NUMBERS = itertools.count()
_TEMPLATE = "observatory_template"


@pytest.fixture(scope="session")
def postgres() -> Generator[str]:
    """URL of a PostgreSQL server, `{name}` for the database, with a template database that has all tables."""
    if given := os.environ.get("OBSERVATORY_TEST_POSTGRES"):
        anyio.run(_make_template, given)
        yield given
        return
    with running_postgres() as url:
        anyio.run(_make_template, url)
        yield url


@pytest.fixture
def empty_postgres(postgres: str) -> Generator[str]:
    """URL of a database of its own without tables."""
    yield from _fresh(postgres, None)


@pytest.fixture(scope="session", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def database_server(request: pytest.FixtureRequest) -> str | None:
    """Each kind of database in turn; of the session, so that a server that starts is no leak of a test."""
    server: str | None = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    return server


@pytest.fixture
def database(database_server: str | None) -> Generator[str | None]:
    """Each of the databases in turn: None for SQLite in the data directory, else a URL."""
    if database_server is None:
        yield None
    else:
        yield from _fresh(database_server, _TEMPLATE)


@pytest.fixture(scope="session")
def bucket() -> Generator[str]:
    """URL of a bucket on an S3 server of our own."""
    import boto3
    from fsspec.asyn import get_loop
    from moto.server import ThreadedMotoServer

    # Fsspec's own thread, which lasts as long as the process
    get_loop()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    before = {name: os.environ.get(name) for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL")}
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }
    try:
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="artifacts")
        yield "s3://artifacts/here"
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        server.stop()


def _fresh(server: str, template: str | None) -> Generator[str]:
    name = f"t{os.getpid()}_{next(_NUMBERS)}"
    like = f" TEMPLATE {template}" if template else ""
    anyio.run(execute, server, f"CREATE DATABASE {name}{like}")
    try:
        yield server.format(name=name)
    finally:
        anyio.run(execute, server, f"DROP DATABASE {name} WITH (FORCE)")


async def _make_template(server: str) -> None:
    await execute(server, f"DROP DATABASE IF EXISTS {_TEMPLATE}")
    await execute(server, f"CREATE DATABASE {_TEMPLATE}")
    async with open_database(database_url(server.format(name=_TEMPLATE), None)) as database:  # type: ignore[arg-type]
        await database.upgrade()
