"""The database: its steps, its transactions, the order of its changes; and where artifacts are kept."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import re
from pathlib import Path
from typing import Any, cast

import aiosqlite
import anyio
import anyio.lowlevel
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from botocore.exceptions import EndpointConnectionError
from support.observatory import inside
from support.postgres import execute

from coworld_core.errors import EnvironmentFault, UsageError
from observatory.data_directory import prepare_directory, write_secret
from observatory.settings import Settings, database_url
from observatory.store.artifacts import artifact_store
from observatory.store.database import Database, next_revision, open_database
from observatory.store.models import Base, Counter, User


async def _check_tables(url: str) -> None:
    async with open_database(url) as database:
        assert await database.revision() is None
        # Several processes may start at once
        async with anyio.create_task_group() as starting:
            for _ in range(3):
                starting.start_soon(database.upgrade)
        assert await database.revision() is not None

        def differences(connection: sa.Connection) -> list[object]:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            return list(compare_metadata(context, Base.metadata))

        async with database.engine.connect() as connection:
            assert await connection.run_sync(differences) == []
        async with database.writing() as session:
            assert await next_revision(session) == 1


async def test_tables_match_the_models(tmp_path: Path) -> None:
    await _check_tables(database_url(None, tmp_path))


@pytest.mark.postgresql
async def test_tables_match_the_models_on_postgresql(empty_postgres: str, tmp_path: Path) -> None:
    await _check_tables(database_url(empty_postgres, tmp_path))


async def test_tables_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    async with open_database(database_url(None, tmp_path)) as database:
        await database.upgrade()
        async with database.engine.begin() as connection:
            await connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
        with pytest.raises(EnvironmentFault, match="9999") as error:
            await database.upgrade()
        assert error.value.code == "unknown_revision"


async def _open(database: str | None, tmp_path: Path) -> str:
    url = database_url(database, tmp_path)
    async with open_database(url) as opened:
        await opened.upgrade()
    return url


async def _fail_half_way(opened: Database) -> None:
    async with opened.writing() as session:
        session.add(User(name="ann"))
        await next_revision(session)
        raise ZeroDivisionError


async def test_error_rolls_back_the_transaction(tmp_path: Path, database: str | None) -> None:
    async with open_database(await _open(database, tmp_path)) as opened:
        with pytest.raises(ZeroDivisionError):
            await _fail_half_way(opened)
        async with opened.writing() as session:
            assert (await session.scalars(sa.select(User))).all() == []
            assert await next_revision(session) == 1


async def test_changes_are_visible_in_order(tmp_path: Path, database: str | None) -> None:
    """Whoever reads the highest number has seen all below it: nothing appears behind a cursor."""
    async with open_database(await _open(database, tmp_path)) as opened:
        seen: list[int] = []
        done = anyio.Event()

        async def look() -> int:
            async with opened.reading() as session:
                names = (await session.scalars(sa.select(User.name))).all()
            highest = max((int(name.split()[1]) for name in names), default=0)
            assert len(names) == highest
            return highest

        async def write(number: int) -> None:
            async with opened.writing() as session:
                revision = await next_revision(session)
                # The number is taken, and what has it is not there yet; for some longer than for others.
                for _ in range(number % 3):
                    await look()
                session.add(User(name=f"user {revision}"))

        async def read() -> None:
            while not done.is_set():
                seen.append(await look())

        async with anyio.create_task_group() as all_of_them:
            all_of_them.start_soon(read)
            async with anyio.create_task_group() as writers:
                for number in range(24):
                    writers.start_soon(write, number)
            done.set()
        assert seen == sorted(seen)
        async with opened.reading() as session:
            assert await session.scalar(sa.select(Counter.value).where(Counter.name == "changes")) == 24


@pytest.mark.parametrize("path", ["/observatory/whoami", "/observatory/v2/leagues", "/v2/a/b/manifests/c", "/"])
async def test_lost_database_is_told_once_and_comes_back(
    tmp_path: Path, database_server: str | None, database: str | None, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with inside(tmp_path, database=database) as platform:
        headers = {"Authorization": f"Bearer {await platform.add_user('ann')}", "Accept": "text/html"}
        before = await platform.http.get(path, headers=headers)
        engine, file = platform.services.database.engine, anyio.Path(tmp_path / "observatory" / "observatory.sqlite3")
        if database_server is None:
            await engine.dispose()
            await file.rename(f"{file}.away")
            await file.mkdir()
        else:
            name = engine.url.database
            await execute(database_server, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
            await execute(database_server, end)
        for _ in range(3):
            lost = await platform.http.get(path, headers=headers)
            assert (lost.status_code, lost.headers["Retry-After"]) == (503, "5"), lost.text
            assert "The database does not answer." in lost.text
        (told,) = [record for record in caplog.records if record.levelname != "INFO"]
        assert (told.name, told.exc_info, "\n" in told.getMessage()) == ("observatory", None, False)
        if database_server is None:
            await file.rmdir()
            await anyio.Path(f"{file}.away").rename(file)
        else:
            await execute(database_server, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert (await platform.http.get(path, headers=headers)).status_code == before.status_code < 500


async def test_concurrent_writers_do_not_conflict(tmp_path: Path, database: str | None) -> None:
    """Two processes' worth of engines, and changes in opposite orders: both wait their turn."""
    url = await _open(database, tmp_path)
    async with open_database(url) as one, open_database(url) as other:
        async with one.writing() as session:
            session.add_all([User(name="ann"), User(name="bob")])

        async def write(database: Database, *names: str) -> None:
            for number in range(20):
                async with database.writing() as session:
                    await session.scalars(sa.select(User))
                    for name in names:
                        change = {"disabled_reason": f"the {number}th"}
                        await session.execute(sa.update(User).where(User.name == name).values(change))
                        # The other may come between while this one asks again.
                        await session.scalars(sa.select(User))
                    await next_revision(session)

        async with anyio.create_task_group() as both:
            both.start_soon(write, one, "ann", "bob")
            both.start_soon(write, other, "bob", "ann")
        async with one.writing() as session:
            assert await next_revision(session) == 41


@pytest.mark.parametrize("url", ["mysql://x/y", "nothing", "http://x"])
def test_unsupported_database_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        Settings(data=tmp_path, database=url).database_url  # noqa: B018
    assert error.value.code == "bad_database"


async def test_unreachable_database_is_reported(tmp_path: Path) -> None:
    url = database_url(f"postgresql://me:hunter2@/nothing?host={tmp_path}", tmp_path)
    with pytest.raises(EnvironmentFault) as error:
        async with open_database(url):
            pass
    assert error.value.code == "database_unreachable"
    assert "hunter2" not in str(error.value)


def test_directories_and_files_are_private(tmp_path: Path) -> None:
    loose = tmp_path / "loose"
    loose.mkdir(mode=0o755)
    assert prepare_directory(loose).stat().st_mode & 0o777 == 0o700
    prepare_directory(tmp_path / "new")
    write_secret(tmp_path / "new" / "file", b"one")
    write_secret(tmp_path / "new" / "file", b"two")
    assert (tmp_path / "new" / "file").read_bytes() == b"two"
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "new").iterdir()] == [0o600]
    (tmp_path / "plain").write_text("")
    with pytest.raises(UsageError):
        prepare_directory(tmp_path / "plain")


async def _check_store(url: str) -> None:
    store = artifact_store(url)
    await store.check()
    content = os.urandom(700_000)
    stored = await store.put("episodes/a/replay", content)
    assert (stored.size, stored.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert await store.get("episodes/a/replay") == content
    assert await store.size("episodes/a/replay") == len(content)
    async with store.reading("episodes/a/replay", start=500_000, stop=500_010) as chunks:
        assert b"".join([chunk async for chunk in chunks]) == content[500_000:500_010]
    async with store.reading("episodes/a/replay") as chunks:
        assert b"".join([chunk async for chunk in chunks]) == content
    await store.put("episodes/a/replay", b"other")
    assert await store.get("episodes/a/replay") == b"other"
    await store.delete(["episodes/a/replay", "episodes/a/nothing"])
    with pytest.raises(FileNotFoundError):
        await store.get("episodes/a/replay")
    for key in ("", "../x", "a/../../x", "/x", "a//b", "a\0b", "."):
        with pytest.raises(ValueError, match="not a key"):
            await store.put(key, b"x")


async def test_artifacts_are_stored_in_a_directory(tmp_path: Path) -> None:
    await _check_store(f"file://{tmp_path}/artifacts")
    assert [path for path in (tmp_path / "artifacts").rglob("*") if path.is_file()] == []


async def test_artifact_is_stored_completely_or_not_at_all(tmp_path: Path) -> None:
    store = artifact_store(f"file://{tmp_path}/artifacts")
    await store.put("a/b", b"first")
    with pytest.raises(FileNotFoundError):
        await store.put("a/b", tmp_path / "absent")
    assert await store.get("a/b") == b"first"
    assert [path.name for path in (tmp_path / "artifacts" / "a").iterdir()] == ["b"]


@pytest.mark.slow
async def test_artifacts_are_stored_on_s3(bucket: str) -> None:
    await _check_store(bucket)


async def test_range_of_a_large_artifact_is_fetched_alone(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from s3fs.core import S3File

    fetched: list[int] = []
    fetch = S3File._fetch_range

    def noting(file: S3File, start: int, end: int) -> bytes:
        fetched.append(end - start)
        return fetch(file, start, end)

    monkeypatch.setattr(S3File, "_fetch_range", noting)
    store = artifact_store(bucket)
    content = os.urandom(24 * 1024 * 1024)
    await store.put("large/replay", content)
    async with store.reading("large/replay", start=9_000_000, stop=9_000_100) as chunks:
        assert b"".join([chunk async for chunk in chunks]) == content[9_000_000:9_000_100]
    assert sum(fetched) < 6 * 1024 * 1024
    fetched.clear()
    async with store.reading("large/replay") as chunks:
        assert hashlib.sha256(b"".join([chunk async for chunk in chunks])).digest() == hashlib.sha256(content).digest()
    assert sum(fetched) == len(content)
    assert len(fetched) < 10


async def test_unreachable_store_is_an_environment_fault(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the driver calls it: a worker then tries again, and blames nobody."""
    store = artifact_store(bucket)
    await store.put("episodes/a/replay", b"x")
    gone = EndpointConnectionError(endpoint_url="http://127.0.0.1:1")

    def refuse(*_: object, **__: object) -> None:
        raise gone

    for name in ("open", "cat_file", "size", "rm_file", "rm"):
        monkeypatch.setattr(store._fs, name, refuse)
    for use in (
        lambda: store.put("episodes/a/replay", b"y"),
        lambda: store.get("episodes/a/replay"),
        lambda: store.size("episodes/a/replay"),
        lambda: store.delete(["episodes/a/replay"]),
        lambda: store.forget("episodes/a"),
    ):
        with pytest.raises(OSError, match=re.escape("s3://artifacts/here")) as error:
            await use()
        assert error.value.__cause__ is gone


def test_invalid_artifact_url_is_refused() -> None:
    with pytest.raises(EnvironmentFault) as error:
        artifact_store("nothing://x")
    assert error.value.code == "bad_artifacts_url"


async def test_connection_closed_and_stopped_at_once_terminates(tmp_path: Path) -> None:
    """So it is where a session's task is cancelled; a task that waited for ever kept the server from stopping."""
    async with open_database(database_url(None, tmp_path)) as database:
        connection = await database.engine.raw_connection()
        driver = cast("aiosqlite.Connection", connection.driver_connection)
        connection.detach()
        with anyio.fail_after(60):
            async with anyio.create_task_group() as closing:
                closing.start_soon(driver.close)
                await anyio.lowlevel.checkpoint()
                driver.stop()
            # Nor does closing it again wait, nor stopping it
            await driver.close()
            await cast("asyncio.Future[None]", driver.stop())


@pytest.mark.parametrize("during", [True, False], ids=["during", "after"])
async def test_cancelled_writer_releases_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, during: bool
) -> None:
    """Whenever it happens: what it has read so far is held by its error, and must not hold the one writer's lock."""
    calls, at = 0, 0
    scope = anyio.CancelScope()
    execute = aiosqlite.Connection._execute

    async def counted(connection: aiosqlite.Connection, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at and during:
            scope.cancel()
        found = await execute(connection, *args, **kwargs)
        if calls == at:
            scope.cancel()
        return found

    async with open_database(database_url(None, tmp_path)) as database:
        await database.upgrade()
        monkeypatch.setattr(aiosqlite.Connection, "_execute", counted)

        async def take() -> None:
            async with database.writing() as session:
                await session.scalar(sa.select(Counter.value).limit(1))
                await next_revision(session)

        # At each of its calls of the driver in turn, until it has come to its end before so many.
        for number in itertools.count(1):
            calls, at, scope = 0, number, anyio.CancelScope()
            error: BaseException | None = None
            with scope:
                try:
                    await take()
                except anyio.get_cancelled_exc_class() as cancelled:
                    error = cancelled
                    raise
            if calls < at:
                break
            at = 0
            with anyio.fail_after(10):
                await take()
            del error
        assert calls > 4
