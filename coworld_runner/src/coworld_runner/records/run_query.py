"""Questions in SQL: over the index, and over Parquet files. A question can only read, and only what it was given."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from coworld_core.errors import UsageError
from coworld_core.lazy import load_library
from coworld_core.text.phrases import listed
from coworld_core.text.tables import Cell, TableRow, Tabular, html_table

from .index_store import is_damage

__all__ = ["QueryResult", "query_runs"]

_VIEWS: Mapping[str, str] = {
    "runs": """SELECT path AS run, kind, run_id, coworld, version, variant, backend, status, ok, started_at, seconds,
        (SELECT count(*) FROM episode WHERE episode.run = run.id) AS episodes,
        (SELECT count(*) FROM episode WHERE episode.run = run.id AND NOT episode.ok) AS faulted, outcome, problem
        FROM run""",
    "episodes": """SELECT r.path AS run, key, number, e.run_id,
        CASE WHEN key = '' THEN r.path ELSE r.path || '/' || directory END AS path, kind, coworld, version, e.variant,
        backend, seed, e.status, e.ok, started_at, e.seconds, error_type, party, fault_slot, message
        FROM episode AS e JOIN run AS r ON r.id = e.run""",
    "seats": """SELECT r.path AS run, key, slot, name, player_id, image, digest, score
        FROM seat AS s JOIN episode AS e ON e.id = s.episode JOIN run AS r ON r.id = e.run""",
    # An episode has its run's labels, where it has none of its own of that name
    "labels": """SELECT r.path AS run, coalesce(e.key, '') AS key, of_run.name,
        CASE WHEN own.name IS NULL THEN of_run.value ELSE own.value END AS value
        FROM label AS of_run JOIN run AS r ON r.id = of_run.run LEFT JOIN episode AS e ON e.run = r.id
        LEFT JOIN label AS own ON own.run = r.id AND own.episode = e.id AND own.name = of_run.name
        WHERE of_run.episode = 0 AND (own.name IS NULL OR own.value IS NOT NULL)
        UNION ALL SELECT r.path, e.key, own.name, own.value
        FROM label AS own JOIN episode AS e ON e.id = own.episode JOIN run AS r ON r.id = e.run
        WHERE own.value IS NOT NULL AND NOT EXISTS (SELECT 1 FROM label AS above
        WHERE above.run = own.run AND above.episode = 0 AND above.name = own.name)""",
}
"""The tables that a question may name, each made of those of the index. `run` and `key` name an episode in all."""

_READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)
# Functions whose answer follows from what they are given, the clock or chance. Others load code, write to a log, or
# take pointers, and more of them come with each version of SQLite.
_FUNCTIONS = frozenset(
    """
    abs acos acosh asin asinh atan atan2 atanh avg ceil ceiling char coalesce concat concat_ws cos cosh count cume_dist
    current_date current_time current_timestamp date datetime degrees dense_rank exp first_value floor format glob
    group_concat hex if ifnull iif instr julianday lag last_value lead length like likelihood likely ln log log10 log2
    lower ltrim max median min mod nth_value ntile nullif octet_length percent_rank percentile percentile_cont
    percentile_disc pi pow power printf quote radians random randomblob rank replace round row_number rtrim sign sin
    sinh soundex sqlite_version sqrt strftime string_agg substr substring sum tan tanh time timediff total trim trunc
    typeof unhex unicode unixepoch unlikely upper zeroblob
    -> ->> json json_array json_array_length json_error_position json_extract json_group_array
    json_group_object json_insert json_object json_patch json_pretty json_quote json_remove json_replace json_set
    json_type json_valid
    """.split()  # noqa: SIM905
)
_MOST = 1 << 28
"""Bytes of memory that an answer, or one value, may take."""
_STEPS = 100_000
"""Steps of SQLite's machine, about a millisecond, after which a signal is noticed."""
_BATCH = 65536
_PLAIN = ("string", "int32", "int64", "double", "bool")
"""Types of Arrow whose values SQLite takes as they are."""
_ONE_READING = "Write one SELECT; the folders of runs are changed by labelling and removing runs."


@dataclass(frozen=True, kw_only=True)
class QueryResult(Tabular):
    """The answer to a question; a table in a notebook."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def to_records(self) -> list[TableRow]:
        """The rows by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def _repr_html_(self) -> str:
        return html_table(f"{len(self.rows)} rows", self.to_records())


def query_runs(index: sqlite3.Connection, sql: str, *, parquet: Sequence[Path] = ()) -> QueryResult:
    """Ask a question in SQL, as SQLite reads it.

    The tables are `runs`, `episodes`, `seats` and `labels`, and one for each Parquet file, by the file's name: `turns`
    for `turns.parquet`. One that has the name of one of the four is in the schema `parquet`, as all of them are:
    `parquet.episodes`. Times are text in ISO 8601, true and false are 1 and 0, and lists and objects are JSON.

    Args:
        index: The database of the index.
        sql: One statement that reads. It is asked of a copy in memory, and can open no files. Ctrl-C ends it.
        parquet: Parquet files, and directories that have some. Those that the statement names are read into memory.

    Raises:
        UsageError: It does more than read, is not one statement, or its answer takes more than 256 MiB
            (`query_refused`); it is wrong (`bad_query`); there is no such Parquet file (`no_such_place`), it cannot be
            read (`bad_parquet`), or two have the same name (`same_name`).
        EnvironmentFault: There are Parquet files, and pyarrow is not installed (`not_installed`).
    """
    files = _parquet_files(parquet)
    forbidden: list[str] = []

    def authorize(action: int, _: str | None, function: str | None, *__: str | None) -> int:
        if action in _READING or (action == sqlite3.SQLITE_FUNCTION and function in _FUNCTIONS):
            return sqlite3.SQLITE_OK
        forbidden.append(f"{function}() may do" if action == sqlite3.SQLITE_FUNCTION else "this one would do")
        return sqlite3.SQLITE_DENY

    with closing(sqlite3.connect(":memory:")) as connection:
        index.backup(connection)
        # A handler in Python lets signals through
        connection.set_progress_handler(lambda: False, _STEPS)
        if sys.version_info >= (3, 12):
            # A name in double quotes that is no column would be a text
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_DQS_DML, False)
        try:
            for name, view in _VIEWS.items():
                connection.execute(f"CREATE VIEW {name} AS {view}")
            # These two tables are virtual, and one is made when it is first named, which the authorizer would refuse
            connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')")
            connection.execute("ATTACH ':memory:' AS parquet")
            for name, path in files.items():
                if name in sql.lower():
                    _read_parquet(connection, path)
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST)
            connection.set_authorizer(authorize)
            return _answer(connection.execute(sql))
        except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
            if getattr(error, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
                # SQLite drops what the signal has raised
                raise KeyboardInterrupt from None
            if is_damage(error):
                raise
            raise _wrong(error, forbidden, connection, sql, files) from error


def _answer(cursor: sqlite3.Cursor) -> QueryResult:
    if cursor.description is None:
        raise UsageError("A query is one statement, and this is none.", code="query_refused", hint=_ONE_READING)
    rows: list[tuple[Cell, ...]] = []
    taken = 0
    for row in cursor:
        taken += sys.getsizeof(row) + sum(map(sys.getsizeof, row))
        if taken > _MOST:
            raise _too_long("The answer")
        rows.append(tuple(value.hex() if isinstance(value, bytes) else value for value in row))
    return QueryResult(columns=tuple(column[0] for column in cursor.description), rows=tuple(rows))


def _parquet_files(paths: Sequence[Path]) -> dict[str, Path]:
    """The files by the names of their tables, in small letters: names in SQL are the same in capitals."""
    found: dict[str, Path] = {}
    for path in paths:
        inside = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not inside or not all(file.is_file() for file in inside):
            raise UsageError(
                f"There is no Parquet file {path}." if not path.is_dir() else f"{path} has no Parquet files.",
                code="no_such_place",
                hint="Export runs first, or name another file or directory.",
            )
        for file in inside:
            if (other := found.setdefault(file.stem.lower(), file)) is not file:
                raise UsageError(
                    f"Two files would be the table {file.stem!r}: {other} and {file}.",
                    code="same_name",
                    hint="Ask about them one by one, or rename one.",
                )
    return found


def _read_parquet(connection: sqlite3.Connection, path: Path) -> None:
    """Read a file into a table of the schema `parquet`, which is found without the schema, too, if it can be."""
    arrow = load_library("pyarrow", "pip install 'coworld-core[parquet]'")
    table = _quoted(path.stem)
    try:
        with load_library("pyarrow.parquet", "pip install 'coworld-core[parquet]'").ParquetFile(path) as file:
            names = file.schema_arrow.names
            connection.execute(f"CREATE TABLE parquet.{table} ({', '.join(map(_quoted, names))})")
            adding = f"INSERT INTO parquet.{table} VALUES ({', '.join('?' * len(names))})"
            for batch in file.iter_batches(_BATCH):
                columns = [
                    values if str(column.type) in _PLAIN else map(_plain, values)
                    for column in batch.columns
                    for values in [column.to_pylist()]
                ]
                connection.executemany(adding, zip(*columns, strict=True))
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be read as a Parquet file: {str(error).splitlines()[0]}",
            code="bad_parquet",
            hint="Export runs again, or name another file.",
        ) from error
    if path.stem.lower() not in _VIEWS:
        connection.execute(f"CREATE TEMP VIEW {table} AS SELECT * FROM parquet.{table}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _plain(value: Any) -> Any:
    """A value of Arrow as one of SQLite."""
    match value:
        case None | str() | float() | bytes():
            return value
        case int():
            return value if -(1 << 63) <= value < 1 << 63 else str(value)
        case list() | dict():
            return json.dumps(value, default=str, ensure_ascii=False)
        case Decimal():
            return float(value)
        case _:
            return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _wrong(
    error: Exception, forbidden: Sequence[str], connection: sqlite3.Connection, sql: str, files: Mapping[str, Path]
) -> UsageError:
    # The tables are views, which SQLite refuses to change before it asks for leave
    if forbidden or str(error).startswith("cannot modify"):
        what = forbidden[0] if forbidden else "this one would do"
        return UsageError(f"A query only reads, and {what} more.", code="query_refused", hint=_ONE_READING)
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_TOOBIG":
        return _too_long("A value")
    if not name:
        return UsageError(f"This query cannot be asked: {error}", code="query_refused", hint=_ONE_READING)
    tables = [*_VIEWS, *(f"parquet.{name}" if name in _VIEWS else name for name in files)]
    hint = f"Write SQL as SQLite reads it. The tables are {listed(tables)}. SELECT * FROM runs LIMIT 1 shows columns."
    if str(error).startswith("no such column"):
        asked = [name for name in tables if name.removeprefix("parquet.") in sql.lower()]
        hint = " ".join(f"The columns of {name} are {_columns(connection, name)}." for name in asked) or hint
    return UsageError(f"This query is wrong: {error}.", code="bad_query", hint=hint)


def _too_long(what: str) -> UsageError:
    return UsageError(
        f"{what} takes more than {_MOST >> 20} MiB of memory.",
        code="query_refused",
        hint="Ask for less, by LIMIT or GROUP BY; an export writes whole tables, however long.",
    )


def _columns(connection: sqlite3.Connection, table: str) -> str:
    schema, _, name = table.rpartition(".")
    place = f"{schema}.{_quoted(name)}" if schema else _quoted(name)
    return ", ".join(column[0] for column in connection.execute(f"SELECT * FROM {place} LIMIT 0").description)
