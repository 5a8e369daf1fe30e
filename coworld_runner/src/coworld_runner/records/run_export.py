"""Writes runs as Parquet files: episodes, seats, turns, samples and events, a row group at a time."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, cast

from coworld_core.documents.records import read_lines
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.seat_behaviour import game_events
from coworld_core.errors import CoworldError, UsageError
from coworld_core.files.regular import read_regular
from coworld_core.hints import Hint
from coworld_core.lazy import load_library
from coworld_core.records.run_entries import EpisodeEntry
from coworld_core.records.run_filter import RunFilter
from coworld_core.records.samples import iter_samples, recording_end
from coworld_core.records.turn_rows import turn_rows
from coworld_core.rules.plain_values import to_json
from coworld_core.rules.replay import MAX_REPLAY
from coworld_core.text.phrases import listed

from ..runs.workspace import unwritable
from .run_search import episode_numbers, find_episodes, find_runs

__all__ = ["EXPORTED", "ExportedTables", "ParquetTable", "export_runs"]

_HINT = "pip install 'coworld-core[parquet]'"
_KEYS = {"run": "string", "key": "string"}
EXPORTED: Mapping[str, Mapping[str, str]] = {
    "episodes": {
        **_KEYS,
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
        "labels": "string",
    },
    "seats": {
        **_KEYS,
        "slot": "int64",
        "name": "string",
        "player_id": "string",
        "image": "string",
        "digest": "string",
        "score": "float64",
    },
    "turns": {
        **_KEYS,
        "tick": "int64",
        "seat": "int32",
        "name": "string",
        "action": "string",
        "by": "string",
        "score": "float64",
        "reward": "float64",
        "done": "bool_",
    },
    "samples": {
        **_KEYS,
        "tick": "int64",
        "time": "time",
        "seat": "int32",
        "name": "string",
        "observation": "string",
        "legal": "string",
        "action": "string",
        "acted": "bool_",
        "by": "string",
        "score": "float64",
        "reward": "float64",
        "done": "bool_",
    },
    "events": {
        **_KEYS,
        "source": "string",
        "seq": "int64",
        "time": "string",
        "tick": "int64",
        "kind": "string",
        "seat": "int32",
        "data": "string",
    },
}
"""The tables, each with its columns and their types. `run` and `key` name an episode in all of them."""

_GROUP = 65536
"""Rows of a row group, which is what is kept in memory."""
_GROUP_CHARACTERS = 32 << 20
"""Characters of a row group, of rows that may be long."""
_EPISODES = 1000
"""Number of episodes that are looked up at a time."""
_WHY = {
    "rows": "of {count} only the row is kept",
    "replay": "{count} left no replay",
    "format": "{count} left a replay of another format",
    "damaged": "{count} left a replay that is damaged, whose turns end there",
}
_SAMPLES_WHY = {
    "unfinished": "of {count} they end before the game did",
    "damaged": "of {count} the file is damaged, and they end there",
}


@dataclass(frozen=True, kw_only=True)
class ExportedTables:
    """What was written."""

    directory: Path
    rows: Mapping[str, int]
    """Number of rows of each table."""
    notices: tuple[str, ...] = field(default=())
    """What is missing, in sentences."""

    def path(self, table: str) -> Path:
        """The file of a table.

        Raises:
            UsageError: Code `no_such_table`: it was not written.
        """
        if table not in self.rows:
            raise UsageError(f"There is no table {table!r}: {listed(self.rows)}.", code="no_such_table")
        return self.directory / f"{table}.parquet"

    def to_pandas(self, table: str = "episodes") -> Any:
        """A table as a `pandas.DataFrame`.

        Raises:
            EnvironmentFault: pandas is not installed (`not_installed`).
        """
        return load_library("pandas", "pip install pandas").read_parquet(self.path(table))

    def to_polars(self, table: str = "episodes") -> Any:
        """A table as a `polars.DataFrame`.

        Raises:
            EnvironmentFault: polars is not installed (`not_installed`).
        """
        return load_library("polars", "pip install polars").read_parquet(self.path(table))


class ParquetTable:
    """A Parquet file that is written a row group at a time; use as a context manager.

    The file has its name once the context is left without an error; before, nothing is in its place.

    Args:
        path: The file.
        columns: The types of the columns, by name.
    """

    def __init__(self, path: Path, columns: Mapping[str, str]) -> None:
        self._path, self._part = path, path.with_name(f".{path.name}.part")
        self._arrow = load_library("pyarrow", _HINT)
        kinds = [
            (name, self._arrow.timestamp("us", tz="UTC") if kind == "time" else getattr(self._arrow, kind)())
            for name, kind in columns.items()
        ]
        self._schema = self._arrow.schema(kinds)
        self._rows: list[tuple[Any, ...]] = []
        self._characters = 0
        self.count = 0

    def __enter__(self) -> Self:
        try:
            parquet = load_library("pyarrow.parquet", _HINT)
            self._writer = parquet.ParquetWriter(self._part, self._schema, compression="zstd")
        except OSError:
            self._part.unlink(missing_ok=True)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._flush()
            self._writer.close()
            if kind is None:
                self._part.replace(self._path)
        finally:
            self._part.unlink(missing_ok=True)

    def add(self, row: tuple[Any, ...], *, characters: int = 0) -> None:
        """Add a row, its values in the order of the columns.

        Args:
            row: The values.
            characters: How many characters it has, roughly, if that may be many.
        """
        self._rows.append(row)
        self._characters += characters
        self.count += 1
        if len(self._rows) >= _GROUP or self._characters >= _GROUP_CHARACTERS:
            self._flush()

    def _flush(self) -> None:
        if not self._rows:
            return
        cells = zip(*self._rows, strict=True)
        arrays = [self._arrow.array(column, kind) for column, kind in zip(cells, self._schema.types, strict=True)]
        self._rows, self._characters = [], 0
        self._writer.write_batch(self._arrow.record_batch(arrays, schema=self._schema))


def export_runs(
    index: sqlite3.Connection,
    directory: Path,
    asked: RunFilter | None = None,
    *,
    below: Sequence[Path] = (),
    tables: Collection[str] = tuple(EXPORTED),
    overwrite: bool = False,
    on_progress: Callable[[int, int], object] | None = None,
) -> ExportedTables:
    """Write the episodes that a search asks for to `episodes.parquet`, `seats.parquet` and so on, in a directory.

    Memory does not grow with their number: at most a row group of each table, and the replay of one episode, are in it.

    Args:
        index: The database of the index.
        directory: The directory; it is made if it is missing.
        asked: What is asked for; None: all.
        below: Only runs at or below one of these directories; empty: all.
        tables: The tables to write.
        overwrite: Whether files of these names are replaced.
        on_progress: Called with the number of episodes that are written, and of all.

    Raises:
        UsageError: There is no such table (`no_such_table`), or a file is there (`file_exists`).
        EnvironmentFault: pyarrow is not installed (`not_installed`), or the disk is full.
        WorkspaceError: The directory cannot be written to.
    """
    if unknown := [table for table in tables if table not in EXPORTED]:
        raise UsageError(f"There is no table {unknown[0]!r}: {listed(EXPORTED)}.", code="no_such_table")
    files = {table: directory / f"{table}.parquet" for table in EXPORTED if table in tables}
    if there := [path for path in files.values() if path.exists() and not overwrite]:
        raise UsageError(
            f"{there[0]} is there.",
            code="file_exists",
            hint=Hint("overwrite_export", "Name another directory, or pass overwrite=True to replace what is there."),
        )
    load_library("pyarrow", _HINT)
    missing = _Missing()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            open_tables = {
                table: stack.enter_context(ParquetTable(path, EXPORTED[table])) for table, path in files.items()
            }
            numbers = episode_numbers(index, asked or RunFilter(), below=below)
            for start in range(0, len(numbers), _EPISODES):
                if on_progress is not None:
                    on_progress(start, len(numbers))
                for episode in find_episodes(index, RunFilter(), numbers=numbers[start : start + _EPISODES]):
                    _write(episode, open_tables, missing)
            for run in find_runs(index, asked or RunFilter(), below=below):
                # An episode whose runner was killed has no record, and so is none of the episodes above
                unfinished = run.kind == "episode" and not run.episodes
                if unfinished or run.kind not in ("episode", "tournament"):
                    _write_rest(str(run.path), "", EpisodeLayout(run.path), open_tables, missing)
    except OSError as error:
        raise unwritable(directory, error) from error
    return ExportedTables(
        directory=directory, rows={table: one.count for table, one in open_tables.items()}, notices=missing.notices()
    )


@dataclass(frozen=True)
class _Missing:
    """What there is not, with the number of episodes."""

    turns: Counter[str] = field(default_factory=Counter[str])
    samples: Counter[str] = field(default_factory=Counter[str])

    def notices(self) -> tuple[str, ...]:
        turns = listed(_WHY[why].format(count=count) for why, count in self.turns.items())
        samples = listed(_SAMPLES_WHY[why].format(count=count) for why, count in self.samples.items())
        return (
            *((f"There are no turns of some episodes: {turns}.",) if turns else ()),
            *((f"Samples are not complete: {samples}.",) if samples else ()),
        )


def _write(episode: EpisodeEntry, tables: Mapping[str, ParquetTable], missing: _Missing) -> None:
    run, key = str(episode.run), episode.key
    if "episodes" in tables:
        path = str(episode.path) if episode.path is not None else None
        values = {"run": run, "path": path, "labels": json.dumps(dict(episode.labels), ensure_ascii=False)}
        tables["episodes"].add(
            tuple(values[name] if name in values else getattr(episode, name) for name in EXPORTED["episodes"])
        )
    if "seats" in tables:
        for seat in episode.seats:
            tables["seats"].add((run, key, seat.slot, seat.name, seat.player_id, seat.image, seat.digest, seat.score))
    layout = EpisodeLayout(episode.path) if episode.path is not None else None
    if "turns" in tables:
        why = "rows" if layout is None else _write_turns(run, key, layout, tables["turns"])
        missing.turns.update([why] if why else [])
    if layout is not None:
        _write_rest(run, key, layout, tables, missing)


def _write_rest(
    run: str, key: str, layout: EpisodeLayout, tables: Mapping[str, ParquetTable], missing: _Missing
) -> None:
    """Write what is in files of its own: samples and events."""
    if "samples" in tables and layout.samples.is_file():
        why = _write_samples(run, key, layout, tables["samples"])
        missing.samples.update([why] if why else [])
    if "events" in tables:
        _write_events(run, key, layout, tables["events"])


def _write_turns(run: str, key: str, layout: EpisodeLayout, table: ParquetTable) -> str:
    """Write the turns of an episode; returns why there are none, or not all."""
    before = table.count
    try:
        for row in turn_rows(read_regular(layout.replay, most=MAX_REPLAY), source=str(layout.replay)):
            table.add((run, key, *row))
    except OSError as error:
        return "replay" if isinstance(error, FileNotFoundError) else "damaged"
    except CoworldError:
        return "damaged" if table.count > before else "format"
    return ""


def _write_samples(run: str, key: str, layout: EpisodeLayout, table: ParquetTable) -> str:
    """Write the samples of an episode; returns why they are not all that there were."""
    try:
        for one in iter_samples(layout.samples):
            observation, action = to_json(one.observation), to_json(one.action)
            legal = None if one.legal is None else to_json(one.legal)
            time = None if one.time is None else round(one.time * 1e6)
            table.add(
                (
                    *(run, key, one.tick, time, one.seat, one.name, observation, legal, action),
                    *(one.acted, one.by, one.score, one.reward, one.done),
                ),
                characters=len(observation) + len(legal or "") + len(action),
            )
    except UsageError:
        return "damaged"
    end = recording_end(layout.samples)
    return "" if end is not None and end.complete else "unfinished"


def _write_events(run: str, key: str, layout: EpisodeLayout, table: ParquetTable) -> None:
    """Write the events of the run, and those of its game; what is no event ends them."""
    for source, event in _events(layout):
        seat = event.pop("slot", None) if source == "run" else event.pop("agent", None)
        table.add(
            (
                *(run, key, source, _whole(event.pop("seq", None)), _text(event.pop("time", None))),
                *(_whole(event.pop("tick", None)), _text(event.pop("kind", None)), _whole(seat, 31)),
                json.dumps(event, ensure_ascii=False),
            )
        )


def _events(layout: EpisodeLayout) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        for document in read_lines(layout.events, what="events", name=layout.events.name):
            if isinstance(event := document.value, dict):
                yield "run", dict(cast("dict[str, Any]", event))
    except CoworldError:
        pass
    try:
        for event in game_events(layout.game_events):
            yield "game", dict(event)
    except (OSError, ValueError, RecursionError):
        pass


def _whole(value: object, bits: int = 63) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and -(1 << bits) <= value < 1 << bits
    return value if fits and isinstance(value, int) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
