"""The index in a file: an SQLite database that programs may use at the same time, and that is never the truth."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from coworld_core.errors import EnvironmentFault
from coworld_core.hints import Hint

__all__ = ["VERSION", "IndexStore", "is_damage"]

VERSION = 3
"""Version of the tables. An index of another version is made anew."""

_TIMEOUT = 60.0
"""Seconds to wait for another program that writes."""

_TABLES = """
CREATE TABLE run(
  id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, run_id TEXT NOT NULL,
  coworld TEXT NOT NULL, version TEXT NOT NULL, variant TEXT NOT NULL, backend TEXT NOT NULL,
  status TEXT NOT NULL, ok INTEGER NOT NULL, started_at TEXT, seconds REAL, players TEXT NOT NULL,
  outcome TEXT NOT NULL, problem TEXT NOT NULL, stamps TEXT NOT NULL, position INTEGER NOT NULL, head TEXT NOT NULL
);
CREATE TABLE episode(
  id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
  number INTEGER, key TEXT NOT NULL, run_id TEXT NOT NULL, directory TEXT, variant TEXT NOT NULL, seed INTEGER,
  status TEXT NOT NULL, ok INTEGER NOT NULL, seconds REAL, error_type TEXT, party TEXT, fault_slot INTEGER,
  message TEXT, tags TEXT
);
CREATE TABLE seat(
  episode INTEGER NOT NULL REFERENCES episode ON DELETE CASCADE, slot INTEGER NOT NULL,
  name TEXT NOT NULL, player_id TEXT, image TEXT NOT NULL, digest TEXT NOT NULL, score REAL,
  PRIMARY KEY (episode, slot)
) WITHOUT ROWID;
CREATE TABLE label(
  run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE, episode INTEGER NOT NULL, name TEXT NOT NULL, value TEXT,
  PRIMARY KEY (run, episode, name)
) WITHOUT ROWID;
CREATE INDEX run_begun ON run(started_at);
CREATE INDEX episode_run ON episode(run);
CREATE INDEX episode_error ON episode(error_type) WHERE error_type IS NOT NULL;
CREATE INDEX seat_name ON seat(name);
CREATE INDEX label_name ON label(name, value);
"""


class IndexStore:
    """The database of an index; use as a context manager.

    An index that is damaged, or of another version, is deleted and made anew: `notices` says so. Where it cannot be
    written, it is kept in memory for as long as it is open.

    Args:
        path: The file; missing directories are made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notices: list[str] = []

    def __enter__(self) -> IndexStore:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.connection = self._opened()
        except (OSError, sqlite3.OperationalError) as error:
            self.notices.append(f"The index {self.path} cannot be used ({error}), so this search begins from nothing.")
            self.connection = _connected(":memory:")
            self._make()
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def _opened(self) -> sqlite3.Connection:
        for again in (True, False):
            connection = self.connection = _connected(str(self.path))
            try:
                version = self._version()
                if version in (0, VERSION):
                    self._make()
                    return connection
                why = f"is of version {version}, and this program's are of version {VERSION}"
            except BaseException as error:
                connection.close()
                if not (again and isinstance(error, sqlite3.DatabaseError) and is_damage(error)):
                    raise
                why = f"is damaged ({error})"
            connection.close()
            self.rebuild(why)
        raise sqlite3.OperationalError("another program makes one of another version")

    def rebuild(self, why: str) -> None:
        """Delete the file, which is closed, and say why; the folders have all that was in it."""
        self.notices.append(f"The index {self.path} {why}; it is made anew from the folders.")
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                self.path.with_name(self.path.name + suffix).unlink()

    def reopen(self, error: sqlite3.DatabaseError) -> bool:
        """Make the index anew after an error, if that shows that it is damaged; returns whether it was."""
        if not is_damage(error):
            return False
        self.connection.close()
        self.rebuild(f"is damaged ({error})")
        self.connection = self._opened()
        return True

    def _version(self) -> int:
        return int(self.connection.execute("PRAGMA user_version").fetchone()[0])

    def _make(self) -> None:
        """Make the tables, if there are none yet."""
        if self._version():
            return
        with self.writing() as connection:
            # Another program may have made it meanwhile
            if not self._version():
                for statement in _TABLES.split(";\n"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """One change of the index, all or nothing of it; another program that writes is waited for.

        Raises:
            EnvironmentFault: Another program writes for too long (`index_busy`), or the disk is full (`disk_full`).
        """
        connection = self.connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            name = getattr(error, "sqlite_errorname", "")
            if name.startswith("SQLITE_BUSY"):
                raise EnvironmentFault(
                    f"Another program has been writing to the index {self.path} for {_TIMEOUT:g} s.",
                    code="index_busy",
                    hint="Wait for it to end, or name another file as the index.",
                ) from error
            if name == "SQLITE_FULL":
                raise EnvironmentFault(
                    f"There is no room to write to {self.path}.",
                    code="disk_full",
                    hint=Hint("other_disk_index", "Free some room, or name a file on another disk as the index."),
                ) from error
            raise


def _connected(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_TIMEOUT, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # A power failure may cost the last changes, which the folders still have
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.DatabaseError as error:
        # What is damaged is found again, and handled, when it is used
        if not is_damage(error):
            connection.close()
            raise
    return connection


def is_damage(error: Exception) -> bool:
    """Whether an error of SQLite shows that the file is damaged, or is none of its."""
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))
