"""Searches an index: runs and episodes by what is known of them."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from coworld_core.records.run_entries import EpisodeEntry, RunEntry, SeatEntry
from coworld_core.records.run_filter import RunFilter
from coworld_core.text.terminal import writable

__all__ = ["episode_numbers", "find_episodes", "find_runs"]

_CHUNK = 500
_VALUE = "(SELECT value FROM label WHERE label.run = run.id AND label.episode = {} AND label.name = ?)"
_OWN = "EXISTS (SELECT 1 FROM label WHERE label.run = run.id AND label.episode = episode.id AND label.name = ?)"


def find_runs(
    connection: sqlite3.Connection, asked: RunFilter, *, below: Sequence[Path] = (), limit: int | None = None
) -> list[RunEntry]:
    """Return the runs that a search asks for, the newest first.

    Args:
        connection: The index.
        asked: What is asked for.
        below: Only runs at or below one of these directories; empty: all.
        limit: How many at most.
    """
    where, values = _of_run(asked, below)
    if asked.of_episodes or asked.labels:
        inner, more = _of_episode(asked)
        own, labels = _run_labels(asked)
        # A run whose episodes have not ended has its labels, too
        alone = f" OR ({own})" if not asked.of_episodes else ""
        where += [f"(EXISTS (SELECT 1 FROM episode WHERE episode.run = run.id AND {inner}){alone})"]
        values += more + (labels if alone else [])
    query = (
        "SELECT id, path, kind, run_id, coworld, version, variant, backend, status, ok, started_at, seconds, players, "
        "problem, outcome, (SELECT count(*) FROM episode WHERE episode.run = run.id), "
        "(SELECT count(*) FROM episode WHERE episode.run = run.id AND NOT episode.ok) "
        f"FROM run{_where(where)} ORDER BY started_at IS NULL, started_at DESC, path LIMIT ?"
    )
    rows = connection.execute(query, [*_bound(values), -1 if limit is None else limit]).fetchall()
    labels_of = _labels_of_runs(connection, [row[0] for row in rows])
    seats = _seats_of_runs(connection, [row[0] for row in rows if row[2] == "episode"])
    return [
        RunEntry(
            path=Path(row[1]),
            kind=row[2],
            run_id=row[3],
            coworld=row[4],
            version=row[5],
            variant=row[6],
            backend=row[7],
            status=row[8],
            ok=bool(row[9]),
            started_at=_moment(row[10]),
            seconds=row[11],
            players=tuple(json.loads(row[12])),
            problem=row[13],
            outcome=row[14],
            episodes=row[15],
            faulted=row[16],
            scores=tuple(seats.get(row[0], ())),
            labels=labels_of.get(row[0], {}),
        )
        for row in rows
    ]


def find_episodes(
    connection: sqlite3.Connection,
    asked: RunFilter,
    *,
    below: Sequence[Path] = (),
    limit: int | None = None,
    key: str | None = None,
    numbers: Sequence[int] = (),
) -> list[EpisodeEntry]:
    """Return the episodes that a search asks for, those of the newest run first.

    Args:
        connection: The index.
        asked: What is asked for.
        below: Only those of runs at or below one of these directories; empty: all.
        limit: How many at most.
        key: Only those with this key.
        numbers: Only those with these numbers in the index.
    """
    chosen, values = _chosen_episodes(asked, below, key=key, numbers=numbers)
    query = (
        "SELECT episode.id, run.id, run.path, episode.key, episode.directory, episode.run_id, run.coworld, "
        "run.version, episode.variant, episode.seed, episode.status, episode.ok, run.started_at, episode.seconds, "
        "episode.error_type, episode.party, episode.fault_slot, episode.message, episode.number, run.kind, run.backend "
        f"{chosen} LIMIT ?"
    )
    rows = connection.execute(query, [*values, -1 if limit is None else limit]).fetchall()
    seats: dict[int, list[SeatEntry]] = defaultdict(list)
    for episode, *rest in _chunked(
        connection,
        "SELECT episode, slot, name, player_id, image, digest, score FROM seat WHERE episode IN ({}) ORDER BY slot",
        [row[0] for row in rows],
    ):
        names = ("slot", "name", "player_id", "image", "digest", "score")
        seats[episode].append(SeatEntry(**dict(zip(names, rest, strict=True))))
    common = _labels_of_runs(connection, list(dict.fromkeys(row[1] for row in rows)))
    own: dict[int, dict[str, str | None]] = defaultdict(dict)
    query = "SELECT episode, name, value FROM label WHERE run IN ({}) AND episode > 0"
    for episode, name, value in _chunked(connection, query, list(dict.fromkeys(row[1] for row in rows))):
        own[episode][name] = value
    return [
        EpisodeEntry(
            id=f"{row[2]}/{row[18]}" if row[3] else row[2],
            run=Path(row[2]),
            key=row[3],
            path=_directory(row[2], row[3], row[4]),
            run_id=row[5],
            coworld=row[6],
            version=row[7],
            variant=row[8],
            seed=row[9],
            status=row[10],
            ok=bool(row[11]),
            started_at=_moment(row[12]),
            seconds=row[13],
            error_type=row[14],
            party=row[15],
            fault_slot=row[16],
            message=row[17],
            number=row[18],
            kind=row[19],
            backend=row[20],
            seats=tuple(seats.get(row[0], ())),
            labels={
                name: value
                for name, value in sorted({**common.get(row[1], {}), **own.get(row[0], {})}.items())
                if value is not None
            },
        )
        for row in rows
    ]


def episode_numbers(connection: sqlite3.Connection, asked: RunFilter, *, below: Sequence[Path] = ()) -> list[int]:
    """Return the numbers in the index of the episodes that a search asks for, in its order."""
    chosen, values = _chosen_episodes(asked, below)
    return [row[0] for row in connection.execute(f"SELECT episode.id {chosen}", values)]


def _chosen_episodes(
    asked: RunFilter, below: Sequence[Path], *, key: str | None = None, numbers: Sequence[int] = ()
) -> tuple[str, list[Any]]:
    """The end of a query for episodes, from `FROM` to their order, and its values."""
    where, values = _of_run(asked, below)
    inner, more = _of_episode(asked)
    if key is not None:
        inner, more = f"{inner} AND episode.key = ?", [*more, key]
    if numbers:
        inner, more = f"{inner} AND episode.id IN ({', '.join('?' * len(numbers))})", [*more, *numbers]
    query = (
        f"FROM run JOIN episode ON episode.run = run.id{_where([*where, inner])} "
        "ORDER BY run.started_at IS NULL, run.started_at DESC, run.path, episode.number"
    )
    return query, _bound([*values, *more])


def _bound(values: Sequence[Any]) -> list[Any]:
    """Values for a query: a text that is not Unicode matches nothing that the index has."""
    return [writable(value) if isinstance(value, str) else value for value in values]


def _directory(run: str, key: str, directory: str | None) -> Path | None:
    if directory is not None:
        return Path(run, directory)
    return None if key else Path(run)


def _of_run(asked: RunFilter, below: Sequence[Path]) -> tuple[list[str], list[Any]]:
    where: list[str] = []
    values: list[Any] = []
    for column, pattern in (("coworld", asked.game), ("kind", asked.kind)):
        if pattern:
            where.append(f"run.{column} GLOB ?")
            values.append(pattern)
    if asked.variant:
        where.append("(run.variant GLOB ? OR EXISTS (SELECT 1 FROM episode WHERE run = run.id AND variant GLOB ?))")
        values += [asked.variant, asked.variant]
    if asked.status:
        where.append("run.status = ?")
        values.append(asked.status)
    for comparison, moment in ((">=", asked.since), ("<", asked.until)):
        if moment is not None:
            where.append(f"run.started_at {comparison} ?")
            values.append(moment.astimezone(dt.UTC).isoformat())
    if below:
        where.append(f"({' OR '.join(['run.path = ? OR substr(run.path, 1, ?) = ?'] * len(below))})")
        for place in below:
            text = str(place)
            start = text if text.endswith("/") else f"{text}/"
            values += [text, len(start), start]
    return where, values


def _run_labels(asked: RunFilter) -> tuple[str, list[Any]]:
    values: list[Any] = []
    for name, pattern in asked.labels.items():
        values += [name, pattern]
    return " AND ".join(f"{_VALUE.format('0')} GLOB ?" for _ in asked.labels) or "1", values


def _of_episode(asked: RunFilter) -> tuple[str, list[Any]]:
    """What an episode must satisfy, as a condition on `run` and `episode`."""
    where: list[str] = ["1"]
    values: list[Any] = []
    for name, pattern in asked.labels.items():
        # A label that was taken from an episode has no value, and hides the run's
        where.append(f"CASE WHEN {_OWN} THEN {_VALUE.format('episode.id')} ELSE {_VALUE.format('0')} END GLOB ?")
        values += [name, name, name, pattern]
    if asked.fault == "*":
        where.append("episode.error_type IS NOT NULL")
    elif asked.fault:
        where.append("(episode.error_type GLOB ? OR episode.party GLOB ?)")
        values += [asked.fault, asked.fault]
    seat: list[str] = []
    if asked.player:
        seat.append("(name GLOB ? OR player_id GLOB ? OR image GLOB ?)")
        values_of_seat: list[Any] = [asked.player] * 3
    else:
        values_of_seat = []
    if asked.digest:
        seat.append("(substr(digest, 1, ?) = ? OR substr(digest, 8, ?) = ? OR image LIKE ? ESCAPE '\\')")
        bare = asked.digest.removeprefix("sha256:")
        escaped = bare.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        values_of_seat += [len(asked.digest), asked.digest, len(bare), bare, f"%@%{escaped}%"]
    for comparison, score in ((">=", asked.min_score), ("<=", asked.max_score)):
        if score is not None:
            seat.append(f"score {comparison} ?")
            values_of_seat.append(score)
    if seat:
        condition = " AND ".join(seat)
        where.append(f"EXISTS (SELECT 1 FROM seat WHERE seat.episode = episode.id AND {condition})")
        values += values_of_seat
    return " AND ".join(where), values


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _chunked(connection: sqlite3.Connection, query: str, numbers: Sequence[int]) -> Iterable[tuple[Any, ...]]:
    for start in range(0, len(numbers), _CHUNK):
        part = numbers[start : start + _CHUNK]
        yield from connection.execute(query.format(", ".join("?" * len(part))), part)


def _labels_of_runs(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = defaultdict(dict)
    query = "SELECT run, name, value FROM label WHERE run IN ({}) AND episode = 0 AND value IS NOT NULL ORDER BY name"
    for run, name, value in _chunked(connection, query, numbers):
        found[run][name] = value
    return found


def _seats_of_runs(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = defaultdict(list)
    query = (
        "SELECT episode.run, seat.score FROM episode JOIN seat ON seat.episode = episode.id "
        "WHERE episode.run IN ({}) AND seat.score IS NOT NULL ORDER BY seat.slot"
    )
    for run, score in _chunked(connection, query, numbers):
        found[run].append(score)
    return found


def _moment(text: str | None) -> dt.datetime | None:
    return dt.datetime.fromisoformat(text) if text is not None else None
