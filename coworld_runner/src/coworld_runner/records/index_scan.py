"""Brings an index up to date with the folders: what is new, what has changed, and what is gone."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from coworld_core.episode.record import EpisodeRow

from .index_store import IndexStore
from .known_places import workspaces_at
from .run_reader import ReadRows, ReadRun, Stamps, read_head, read_run, rows_after, stamps_of

__all__ = ["Refreshed", "refresh"]

_AT_ONCE = 500
"""Number of runs that are written at once."""
_RUN = (
    *("path", "kind", "run_id", "coworld", "version", "variant", "backend", "status", "ok", "started_at", "seconds"),
    *("players", "outcome", "problem", "stamps", "position", "head"),
)
_WRITE_RUN = (
    f"INSERT INTO run({', '.join(_RUN)}) VALUES ({', '.join('?' * len(_RUN))}) "
    f"ON CONFLICT(path) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _RUN[1:])} RETURNING id"
)
_WRITE_EPISODE = f"INSERT INTO episode VALUES ({', '.join('?' * 16)})"
_WRITE_SEAT = "INSERT INTO seat VALUES (?, ?, ?, ?, ?, ?, ?)"


@dataclass
class Refreshed:
    """What a refresh has found."""

    new: int = 0
    changed: int = 0
    gone: int = 0
    episodes: int = 0
    """Episodes that were read."""


@dataclass(frozen=True)
class _Known:
    id: int
    status: str
    stamps: str
    position: int
    head: str


@dataclass(frozen=True)
class _Change:
    """A run that is new or has changed."""

    path: str
    run: ReadRun
    stamps: str


def refresh(store: IndexStore, places: Iterable[Path], on_progress: Callable[[int], object] | None = None) -> Refreshed:
    """Bring an index up to date: a run whose files have the same sizes and times as before is not read again.

    Args:
        store: The index, open.
        places: Where to look for runs that it does not know.
        on_progress: Called with the number of runs that were looked at so far, now and then.

    Raises:
        EnvironmentFault: The index cannot be written to.
    """
    return _Scan(store, on_progress).run(places)


class _Scan:
    def __init__(self, store: IndexStore, on_progress: Callable[[int], object] | None) -> None:
        self._store = store
        self._on_progress = on_progress
        self._done = Refreshed()
        self._pending: list[_Change] = []
        """Runs that are written together, since each write takes its time."""
        self._looked = 0

    def run(self, places: Iterable[Path]) -> Refreshed:
        fields = "path, id, status, stamps, position, head"
        rows = self._store.connection.execute(f"SELECT {fields} FROM run")
        known = {path: _Known(*rest) for path, *rest in rows}
        gone: list[int] = []
        for path, was in known.items():
            self._look()
            stamps = stamps_of(Path(path))
            if not stamps or (
                (changed := was.status == "running" or _text(stamps) != was.stamps)
                and not self._read(path, _text(stamps), was)
            ):
                gone.append(was.id)
            elif changed:
                self._done.changed += 1
        for place in workspaces_at(places, known.keys()):
            path = os.fspath(place)
            if path not in known and path.isprintable():
                self._look()
                self._done.new += self._read(path, _text(stamps_of(place)), None)
        self._flush()
        if gone:
            with self._store.writing() as connection:
                connection.executemany("DELETE FROM run WHERE id = ?", ((number,) for number in gone))
        self._done.gone = len(gone)
        return self._done

    def _look(self) -> None:
        self._looked += 1
        if self._on_progress is not None and not self._looked % _AT_ONCE:
            self._on_progress(self._looked)

    def _read(self, path: str, stamps: str, was: _Known | None) -> bool:
        """Read a run and write it; returns whether there is one."""
        run = read_run(Path(path))
        if run is None:
            return False
        change = _Change(path, run, stamps)
        if run.rows:
            self._write_rows(change, was)
        else:
            self._pending.append(change)
            if len(self._pending) >= _AT_ONCE:
                self._flush()
        return True

    def _flush(self) -> None:
        """Write the runs that are no runs of many."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        with self._store.writing() as connection:
            for change in pending:
                episode = change.run.episode
                rows = () if episode is None else (episode,)
                number = _write(connection, change, rows, afresh=True)
                _write_labels(connection, number, change.run)
                self._done.episodes += len(rows)

    def _write_rows(self, change: _Change, was: _Known | None) -> None:
        """Write a run of many, and the rows that its file has gained."""
        path = Path(change.path, change.run.rows)
        known = was.position if was is not None else None
        number: int | None = None
        try:
            same = was is not None and path.stat().st_size >= was.position and read_head(path, was.position) == was.head
            afresh = not same
            for part in rows_after(path, known if known is not None and same else 0):
                with self._store.writing() as connection:
                    if not _stands_at(connection, change.path, known):
                        # Another program has gone on with this run meanwhile
                        return
                    head = read_head(path, part.position)
                    number = _write(connection, change, part.rows, afresh=afresh, part=part, head=head)
                afresh, known = False, part.position
                self._done.episodes += len(part.rows)
                self._look()
        except OSError as error:
            change = _Change(change.path, _troubled(change.run, f"{path.name}: {error.strerror}."), change.stamps)
            with self._store.writing() as connection:
                number = _write(connection, change, (), afresh=True)
        if number is not None:
            with self._store.writing() as connection:
                _write_labels(connection, number, change.run)


def _troubled(run: ReadRun, problem: str) -> ReadRun:
    from dataclasses import replace

    return replace(run, problem=f"{run.problem} {problem}".strip())


def _stands_at(connection: sqlite3.Connection, path: str, position: int | None) -> bool:
    """Whether the index knows a run up to this position; None: not at all."""
    found = connection.execute("SELECT position FROM run WHERE path = ?", (path,)).fetchone()
    return (found[0] if found is not None else None) == position


def _write(
    connection: sqlite3.Connection,
    change: _Change,
    rows: Sequence[EpisodeRow],
    *,
    afresh: bool,
    part: ReadRows | None = None,
    head: str = "",
) -> int:
    """Write a run and episodes of it; returns its number."""
    run = change.run
    values = (
        change.path,
        *(run.kind, run.run_id, run.coworld, run.version, run.variant, run.backend, run.status, run.ok),
        run.started_at.isoformat() if run.started_at is not None else None,
        run.seconds,
        json.dumps(run.players, ensure_ascii=False),
        run.outcome,
        run.problem or (part.problem if part is not None else ""),
        change.stamps,
        part.position if part is not None else 0,
        head,
    )
    number: int = connection.execute(_WRITE_RUN, values).fetchone()[0]
    if afresh:
        connection.execute("DELETE FROM label WHERE run = ?", (number,))
        connection.execute("DELETE FROM episode WHERE run = ?", (number,))
    first: int = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM episode").fetchone()[0]
    above = run.labels.labels.keys()
    connection.executemany(
        _WRITE_EPISODE,
        (
            (
                *(id, number, row.index, row.key, row.run_id, row.workspace or None, row.variant, _int64(row.seed)),
                *(row.status, row.ok, _finite(row.seconds), row.error_type, row.party, _int64(row.fault_slot)),
                row.message,
                # What the run's labels say goes before, and always will
                json.dumps(tags, ensure_ascii=False) if (tags := _without(row.episode_tags, above)) else None,
            )
            for id, row in zip(count(first), rows, strict=False)
        ),
    )
    connection.executemany(
        _WRITE_SEAT,
        (
            (id, slot, seat.name, seat.player_id, seat.image, seat.digest, _at(row.scores, slot))
            for id, row in zip(count(first), rows, strict=False)
            for slot, seat in enumerate(row.slots)
        ),
    )
    return number


def _write_labels(connection: sqlite3.Connection, number: int, run: ReadRun) -> None:
    """Write the labels that hold: the run's, and those of episodes where they differ."""
    labels, common = run.labels, run.labels.of(run.tags)
    connection.execute("DELETE FROM label WHERE run = ?", (number,))
    found: list[tuple[int, int, str, str | None]] = [(number, 0, name, value) for name, value in common.items()]
    own = "SELECT id, key, tags FROM episode WHERE run = ? AND"
    rows = connection.execute(f"{own} tags IS NOT NULL", (number,)).fetchall() if run.episode is None else []
    for key in labels.episodes:
        rows += connection.execute(f"{own} tags IS NULL AND key = ?", (number, key)).fetchall()
    for id, key, tags in rows:
        held = labels.of(json.loads(tags or "{}"), episode=key)
        for name in held.keys() | common.keys():
            if held.get(name) != common.get(name):
                found.append((number, id, name, held.get(name)))
    connection.executemany("INSERT INTO label VALUES (?, ?, ?, ?)", found)


def _without(tags: dict[str, str], names: Iterable[str]) -> dict[str, str]:
    return {name: value for name, value in tags.items() if name not in set(names)} if tags else tags


def _at(scores: Sequence[float], slot: int) -> float | None:
    return _finite(scores[slot]) if slot < len(scores) else None


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _int64(number: int | None) -> int | None:
    return number if number is not None and -(2**63) <= number < 2**63 else None


def _text(stamps: Stamps) -> str:
    return json.dumps(stamps)
