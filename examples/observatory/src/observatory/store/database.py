"""The database: sessions for reading and for writing, upgrades, and the number of the next change."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

import aiosqlite
import sqlalchemy as sa
from sqlalchemy import event, make_url
from sqlalchemy.dialects.sqlite.aiosqlite import SQLiteDialect_aiosqlite
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from coworld_core.errors import EnvironmentFault

from .models import Base, Counter

__all__ = ["AddedRows", "Database", "counting_rows", "is_lost", "newest_revision", "next_revision", "open_database"]

_BUSY_SECONDS = 30
"""How long an SQLite transaction waits for another writer."""

_FETCHED = 1000
"""Rows of SQLite that are fetched at a time."""

_MIGRATIONS = Path(__file__).with_name("migrations")

_WRITING_LOCK = 0x6F62_7365
"""PostgreSQL's advisory lock of the transaction that writes, or upgrades the tables."""


class AddedRows:
    """Counts rows that are added to the database."""

    def __init__(self) -> None:
        self.many = 0

    def note(self, session: Session, _: object) -> None:
        """Count the new rows of a session that is flushed."""
        self.many += len(session.new)


_ADDED: ContextVar[AddedRows | None] = ContextVar("added rows", default=None)


@contextmanager
def counting_rows() -> Generator[AddedRows]:
    """Count the rows that are added by transactions of the block, once they are committed."""
    added = AddedRows()
    token = _ADDED.set(added)
    try:
        yield added
    finally:
        _ADDED.reset(token)


class Database:
    """An open database.

    Args:
        engine: Its engine.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.engine.dialect.name

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[AsyncSession]:
        """A session that only reads; it takes a connection with its first query."""
        async with AsyncSession(self.engine, expire_on_commit=False, autoflush=False) as session:
            yield session

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[AsyncSession]:
        """A transaction: committed at the end, rolled back on any error.

        One transaction writes at a time, so none fails half-way because of another: SQLite has one write lock, and on
        PostgreSQL, two that lock the same rows in different orders would wait for each other. Nearly all need the row
        of the next change anyway, until their end.
        """
        engine, added = self.engine.execution_options(writing=True), AddedRows()
        async with AsyncSession(engine, expire_on_commit=False) as session, session.begin():
            event.listen(session.sync_session, "after_flush", added.note)
            yield session
        if (counted := _ADDED.get()) is not None:
            counted.many += added.many

    async def upgrade(self) -> None:
        """Create the tables, or bring them up to date; several processes may do so at once.

        Raises:
            EnvironmentFault: A newer version made them (code `unknown_revision`).
        """
        async with self.engine.execution_options(writing=True).begin() as connection:
            await connection.run_sync(_upgrade)

    async def empty(self) -> None:
        """Drop all tables."""
        async with self.engine.execution_options(writing=True).begin() as connection:
            await connection.run_sync(Base.metadata.drop_all)
            await connection.execute(sa.text("DROP TABLE IF EXISTS alembic_version"))

    async def revision(self) -> str | None:
        """The revision of its tables, or None before the first upgrade."""
        async with self.engine.connect() as connection:
            return await connection.run_sync(_revision)


@asynccontextmanager
async def open_database(url: str) -> AsyncGenerator[Database]:
    """Open a database.

    Args:
        url: A URL for SQLAlchemy's async engine (see `settings.database_url`).

    Raises:
        EnvironmentFault: The database cannot be reached (code `database_unreachable`).
    """
    engine = make_engine(url)
    try:
        try:
            async with engine.connect() as connection:
                await connection.execute(sa.text("SELECT 1"))
        except (DBAPIError, OSError, sqlite3.Error) as error:
            shown = engine.url.render_as_string(hide_password=True)
            cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
            raise EnvironmentFault(
                f"The database {shown} cannot be used: {cause}.",
                code="database_unreachable",
                hint="Check that it runs, that it exists, and that this user may use it.",
            ) from error
        yield Database(engine)
    finally:
        await engine.dispose()


def make_engine(url: str) -> AsyncEngine:
    """An engine with the same behaviour on both databases."""
    sqlite = url.startswith("sqlite")
    if sqlite:
        creator = partial(_connect_sqlite, make_url(url))
        engine = create_async_engine(url, async_creator=creator, pool_size=8, max_overflow=24)
        event.listen(engine.sync_engine, "connect", _sqlite_connected)
        event.listen(engine.sync_engine, "begin", _sqlite_begin)
    else:
        engine = create_async_engine(url, pool_size=8, max_overflow=24, pool_pre_ping=True)
        event.listen(engine.sync_engine, "begin", _postgres_begin)
        event.listen(engine.sync_engine, "do_connect", _postgres_connect)
    return engine


async def _connect_sqlite(url: sa.URL) -> aiosqlite.Connection:
    [path], options = SQLiteDialect_aiosqlite().create_connect_args(url)
    open_file = partial(sqlite3.connect, path, timeout=_BUSY_SECONDS, factory=_SqliteConnection, **options)
    return await _SqliteThread(open_file)


class _SqliteThread(aiosqlite.Connection):
    """A connection that stops its thread only once.

    SQLAlchemy closes the connection of a cancelled task, and stops it if closing is cancelled as well. aiosqlite then
    stops it a second time and waits for a reply from a thread that has ended. The waiting task never ends, which can
    keep the event loop from closing (https://github.com/wapiti-scanner/wapiti/issues/802).

    Args:
        open_file: Opens the database, in the thread.
    """

    def __init__(self, open_file: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(open_file, iter_chunk_size=64)
        self._thread.daemon = True
        self._stopping = False
        self._stopped: asyncio.Future[Any] | None = None

    def cursor(self) -> _Cursor:  # type: ignore[override]
        """A cursor."""
        return _Cursor(self)

    async def run(self, step: Callable[[sqlite3.Connection], object]) -> None:
        """Run a step in the thread."""
        await self._execute(step, self._conn)

    def stop(self) -> asyncio.Future[Any] | None:
        """Stop the thread; returns a future for its end, if an event loop is running."""
        if not self._stopping:
            self._stopping = True
            self._stopped = super().stop()
        # Shielded, so that one caller that is cancelled does not cancel the others.
        return None if self._stopped is None else asyncio.shield(self._stopped)


class _Cursor:
    """A cursor that executes a statement and fetches its first rows in one go, which are all rows of most.

    A trip to the connection's thread and back takes longer than most queries, and aiosqlite makes four for each.
    """

    arraysize = 1

    def __init__(self, connection: _SqliteThread) -> None:
        self._connection = connection
        self._rows: list[Any] = []
        self._more: sqlite3.Cursor | None = None
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None

    async def __aenter__(self) -> _Cursor:
        return self

    async def execute(self, sql: str, parameters: Any = ()) -> None:
        await self._connection.run(partial(self._run, sqlite3.Cursor.execute, sql, parameters))

    async def executemany(self, sql: str, parameters: Any) -> None:
        await self._connection.run(partial(self._run, sqlite3.Cursor.executemany, sql, parameters))

    async def fetchall(self) -> list[Any]:
        return await self.fetchmany(-1)

    async def fetchmany(self, size: int) -> list[Any]:
        while self._more is not None and (size < 0 or len(self._rows) < size):
            await self._connection.run(self._fetch)
        size = len(self._rows) if size < 0 else size
        rows, self._rows = self._rows[:size], self._rows[size:]
        return rows

    async def close(self) -> None:
        if (more := self._more) is not None:
            self._more = None
            await self._connection.run(lambda _: more.close())

    def _run(self, execute: Callable[..., Any], sql: str, parameters: Any, connection: sqlite3.Connection) -> None:
        cursor = connection.cursor()
        try:
            execute(cursor, sql, parameters)
            self.description, self.rowcount, self.lastrowid = cursor.description, cursor.rowcount, cursor.lastrowid
            if cursor.description:
                self._more = cursor
                self._fetch(connection)
        finally:
            if self._more is None:
                cursor.close()

    def _fetch(self, _: sqlite3.Connection) -> None:
        assert self._more is not None
        rows = self._more.fetchmany(_FETCHED)
        self._rows += rows
        if len(rows) < _FETCHED:
            self._more.close()
            self._more = None


class _SqliteConnection(sqlite3.Connection):
    """A connection that releases its locks when it is closed.

    A task that is cancelled during a query leaves a cursor behind, which is referenced by the error. Until that error
    is gone, SQLite does not really close the connection, and its open transaction would block all other writers.
    """

    def close(self) -> None:
        """Roll back an open transaction, and close."""
        with contextlib.suppress(sqlite3.Error):
            if self.in_transaction:
                self.rollback()
        super().close()


def _sqlite_connected(connection: Any, _record: object) -> None:
    # The driver would begin transactions too late and end them too early; _sqlite_begin begins them.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={_BUSY_SECONDS * 1000}"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _sqlite_begin(connection: sa.Connection) -> None:
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def is_lost(error: Exception) -> bool:
    """Whether the database cannot be reached, or is too busy, rather than that it was asked something wrong."""
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
    return isinstance(error, PoolTimeout)


def _postgres_connect(dialect: Any, _record: object, arguments: Any, options: Any) -> Any:
    try:
        return dialect.connect(*arguments, **options)
    except (OSError, TimeoutError, dialect.loaded_dbapi.Error) as error:
        # Errors of connecting are of any kind, also ones that say nothing of a connection
        raise OperationalError("connect", None, error) from error


def _postgres_begin(connection: sa.Connection) -> None:
    if connection.get_execution_options().get("writing", False):
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_WRITING_LOCK)))


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.scalar(sa.text("SELECT version_num FROM alembic_version"))


def newest_revision() -> str:
    """The revision of the tables that this program needs."""
    return max(path.name[:4] for path in (_MIGRATIONS / "versions").glob("[0-9]*.py"))


def _upgrade(connection: sa.Connection) -> None:
    found = _revision(connection)
    if found == newest_revision():
        return
    # Importing alembic takes as long as the rest of an operator's command.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    if found is None:
        # Without looking what exists: a table of that name would be somebody else's.
        Base.metadata.create_all(connection, checkfirst=False)
        connection.execute(sa.insert(Counter).values(name="changes", value=0))
        command.stamp(config, "head")
        return
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise EnvironmentFault(
            f"The tables were made by another version of the Observatory: {error}",
            code="unknown_revision",
            hint="Use that version, or another database.",
        ) from error


async def next_revision(session: AsyncSession, *, name: str = "changes", count: int = 1) -> int:
    """Take the next number of a sequence that readers can follow, or the next few; returns the last.

    The row stays locked until the transaction ends, so numbers become visible in order: a reader that has seen one
    number has seen all earlier ones.

    Args:
        session: A writing session.
        name: The sequence.
        count: How many.
    """
    taken = await session.scalar(
        sa.update(Counter).where(Counter.name == name).values(value=Counter.value + count).returning(Counter.value)
    )
    if taken is None:
        raise OperationalError(f"counter {name!r} is missing", None, LookupError(name))
    return taken
