"""Questions in SQL: over the index, and over Parquet files. A question can only read, and only what it was given."""

from __future__ import annotations

import datetime as dt
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coworld_core.errors import UsageError
from coworld_core.lazy import load_library
from coworld_core.text.phrases import listed
from coworld_core.text.tables import Cell, TableRow, Tabular, html_table

__all__ = ["TABLES", "QueryResult", "query_runs"]

_OF_RUN = ("run", "path", "kind", "coworld", "version", "backend", "started_at")
"""Columns of an episode that are its run's."""

TABLES: Mapping[str, Mapping[str, str]] = {
    "runs": {
        "run": "string",
        "kind": "string",
        "run_id": "string",
        "coworld": "string",
        "version": "string",
        "variant": "string",
        "backend": "string",
        "status": "string",
        "ok": "bool_",
        "started_at": "time",
        "seconds": "float64",
        "episodes": "int64",
        "faulted": "int64",
        "problem": "string",
    },
    "episodes": {
        "run": "string",
        "key": "string",
        "number": "int64",
        "run_id": "string",
        "path": "string",
        "kind": "string",
        "coworld": "string",
        "version": "string",
        "variant": "string",
        "backend": "string",
        "seed": "int64",
        "status": "string",
        "ok": "bool_",
        "started_at": "time",
        "seconds": "float64",
        "error_type": "string",
        "party": "string",
        "fault_slot": "int64",
        "message": "string",
    },
    "seats": {
        "run": "string",
        "key": "string",
        "slot": "int64",
        "name": "string",
        "player_id": "string",
        "image": "string",
        "digest": "string",
        "score": "float64",
    },
    "labels": {"run": "string", "key": "string", "name": "string", "value": "string"},
}
"""The tables of the index, each with its columns and their types. `run` and `key` name an episode in all of them."""

_COPIED: Mapping[str, Mapping[str, str]] = {
    "run": {"id": "int64", "path": "string"}
    | {name: kind for name, kind in TABLES["runs"].items() if name not in ("run", "episodes", "faulted")},
    "episode": {"id": "int64", "run": "int64", "directory": "string"}
    | {name: kind for name, kind in TABLES["episodes"].items() if name not in _OF_RUN},
    # What joins need, where nothing else is asked for
    "episode_key": {"id": "int64", "run": "int64", "key": "string"},
    "seat": {"episode": "int64"} | {name: kind for name, kind in TABLES["seats"].items() if name not in ("run", "key")},
    "label": {"run": "int64", "episode": "int64", "name": "string", "value": "string"},
}
_COPIES = {
    "runs": ("run", "episode"),
    "episodes": ("run", "episode"),
    "seats": ("run", "episode_key", "seat"),
    "labels": ("run", "episode_key", "label"),
}
_VIEWS = {
    "runs": """SELECT path AS run, * EXCLUDE (id, path, problem), coalesce(counted, 0) AS episodes,
        coalesce(bad, 0) AS faulted, problem
        FROM _run LEFT JOIN (SELECT run AS of, count(*) AS counted, count(*) FILTER (NOT ok) AS bad FROM _episode
        GROUP BY run) ON of = _run.id""",
    "episodes": """SELECT r.path AS run, key, number, e.run_id,
        CASE WHEN key = '' THEN r.path ELSE r.path || '/' || directory END AS path, kind, coworld, version, e.variant,
        backend, seed, e.status, e.ok, started_at, e.seconds, error_type, party, fault_slot, message
        FROM _episode AS e JOIN _run AS r ON r.id = e.run""",
    "seats": """SELECT r.path AS run, key, slot, name, player_id, image, digest, score
        FROM _seat AS s JOIN _episode AS e ON e.id = s.episode JOIN _run AS r ON r.id = e.run""",
    "labels": """SELECT r.path AS run, coalesce(e.key, '') AS key, of_run.name,
        CASE WHEN own.name IS NULL THEN of_run.value ELSE own.value END AS value
        FROM _label AS of_run JOIN _run AS r ON r.id = of_run.run LEFT JOIN _episode AS e ON e.run = r.id
        LEFT JOIN _label AS own ON own.run = r.id AND own.episode = e.id AND own.name = of_run.name
        WHERE of_run.episode = 0 AND (own.name IS NULL OR own.value IS NOT NULL)
        UNION ALL SELECT r.path, e.key, own.name, own.value
        FROM _label AS own JOIN _episode AS e ON e.id = own.episode JOIN _run AS r ON r.id = e.run
        WHERE own.value IS NOT NULL AND NOT EXISTS (SELECT 1 FROM _label AS above
        WHERE above.run = own.run AND above.episode = 0 AND above.name = own.name)""",
}

_HINT = "pip install 'coworld-runner[query]'"
_READS = ("SELECT", "EXPLAIN")
_BATCH = 65536


@dataclass(frozen=True, kw_only=True)
class QueryResult(Tabular):
    """The answer to a question; a table in a notebook."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def to_records(self) -> list[TableRow]:
        """The rows by column; what is neither a text, a number nor true or false is text."""
        return [dict(zip(self.columns, map(_cell, row), strict=True)) for row in self.rows]

    def _repr_html_(self) -> str:
        return html_table(f"{len(self.rows)} rows", self.to_records())


def query_runs(index: sqlite3.Connection, sql: str, *, parquet: Sequence[Path] = ()) -> QueryResult:
    """Ask a question in SQL, as DuckDB reads it.

    The tables are those of the index (`TABLES`), and one for each Parquet file, by the file's name: `turns` for
    `turns.parquet`. One that has the name of a table of the index is in the schema `parquet`, as all of them are:
    `parquet.episodes`.

    Args:
        index: The database of the index.
        sql: One statement that reads. It can open no other files and no connections.
        parquet: Parquet files, and directories that have some.

    Raises:
        UsageError: It writes, or is no single statement (`query_refused`); it is wrong (`bad_query`); or there is no
            such Parquet file (`no_such_place`), or two of the same name (`same_name`).
        EnvironmentFault: DuckDB or pyarrow is not installed (`not_installed`).
    """
    duck = load_library("duckdb", _HINT)
    arrow = load_library("pyarrow", _HINT)
    files = _parquet_files(parquet)
    with duck.connect(":memory:") as connection:
        try:
            _require_one_reading(connection, sql)
            connection.execute("CREATE SCHEMA parquet")
            for name, path in files.items():
                quoted = name.replace('"', '""')
                source = str(path).replace("'", "''")
                for schema in ("parquet", *(("main",) if name not in TABLES else ())):
                    connection.execute(f"CREATE VIEW {schema}.\"{quoted}\" AS SELECT * FROM read_parquet('{source}')")
            _define(connection, arrow, index, sql)
            if files:
                allowed = ", ".join("'" + str(path).replace("'", "''") + "'" for path in files.values())
                connection.execute(f"SET allowed_paths = [{allowed}]")
            # From here on nothing is opened that was not named above, and nobody can change that
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            # As Arrow, since DuckDB's own times want another library
            found = connection.sql(sql).to_arrow_table()
            rows = tuple(zip(*(column.to_pylist() for column in found.columns), strict=True))
        except duck.Error as error:
            raise _wrong(error, [] if files else _asked(sql)) from error
    return QueryResult(columns=tuple(found.column_names), rows=rows)


def _require_one_reading(connection: Any, sql: str) -> None:
    statements = connection.extract_statements(sql)
    kinds = [str(statement.type).rpartition(".")[2].upper() for statement in statements]
    if len(kinds) != 1:
        raise UsageError(
            f"A query is one statement, and these are {len(kinds)}.", code="query_refused", hint="Ask one by one."
        )
    if kinds[0] not in _READS:
        raise UsageError(
            f"A query reads only, and this is {kinds[0]}.",
            code="query_refused",
            hint="Write SELECT …; the folders of runs are changed by labelling and removing runs.",
        )


def _define(connection: Any, arrow: Any, index: sqlite3.Connection, sql: str) -> None:
    """Define the tables of the index that a question may name: its own rows are copied, and joined by DuckDB."""
    asked = _asked(sql)
    copied = {name for table in asked for name in _COPIES[table]}
    if "episode" in copied:
        copied.discard("episode_key")
    for name in _COPIED:
        if name in copied:
            connection.register(f"_{name}", _copy(arrow, index, name))
    if "episode_key" in copied:
        connection.execute("CREATE VIEW _episode AS SELECT * FROM _episode_key")
    for table in asked:
        connection.execute(f"CREATE VIEW {table} AS {_VIEWS[table]}")


def _asked(sql: str) -> list[str]:
    """The tables of the index that a question may name: a word need not be a table, but a table is a word."""
    words = set(re.findall(r"\w+", sql.lower()))
    return [table for table in TABLES if table in words]


def _copy(arrow: Any, index: sqlite3.Connection, name: str) -> Any:
    columns = _COPIED[name]
    types = [arrow.timestamp("us", tz="UTC") if kind == "time" else getattr(arrow, kind)() for kind in columns.values()]
    schema = arrow.schema(list(zip(columns, types, strict=True)))
    cursor = index.execute(f"SELECT {', '.join(columns)} FROM {name.removesuffix('_key')}")
    batches: list[Any] = []
    for rows in _parts(cursor):
        cells: list[Any] = list(zip(*rows, strict=True))
        for number, kind in enumerate(columns.values()):
            if kind == "time":
                known = {text: dt.datetime.fromisoformat(text) for text in set(cells[number]) if text is not None}
                cells[number] = [known.get(text) for text in cells[number]]
            elif kind == "bool_":
                cells[number] = [bool(flag) for flag in cells[number]]
        arrays = [arrow.array(column, kind) for column, kind in zip(cells, types, strict=True)]
        batches.append(arrow.record_batch(arrays, schema=schema))
    return arrow.Table.from_batches(batches, schema)


def _parts(cursor: sqlite3.Cursor) -> Iterator[list[tuple[Any, ...]]]:
    while rows := cursor.fetchmany(_BATCH):
        yield rows


def _parquet_files(paths: Sequence[Path]) -> dict[str, Path]:
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
            if file.stem in found:
                raise UsageError(
                    f"Two files would be the table {file.stem!r}: {found[file.stem]} and {file}.",
                    code="same_name",
                    hint="Ask about them one by one, or rename one.",
                )
            found[file.stem] = file.resolve()
    return found


def _wrong(error: Exception, asked: Sequence[str]) -> UsageError:
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip()]
    kind = type(error).__name__
    code = "query_refused" if kind == "PermissionException" else "bad_query"
    hint = f"The tables are {listed(TABLES)}, and those of Parquet files. SELECT * FROM runs LIMIT 1 shows columns."
    if kind == "BinderException" and asked:
        # DuckDB names a few columns that look alike; whoever asks for one that there is not wants to see all
        lines = [line for line in lines if not line.startswith("Candidate bindings:")]
        hint = " ".join(f"The columns of {table} are {', '.join(TABLES[table])}." for table in asked)
    return UsageError("\n".join(lines[:6]), code=code, hint=hint)


def _cell(value: Any) -> Cell:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return value.isoformat() if isinstance(value, dt.datetime | dt.date) else str(value)
