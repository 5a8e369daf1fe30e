"""Reads what a workspace says of its run, written by any version, and the rows that were added to it."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from coworld_core.documents.records import READING
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import ROWS_NAME, EpisodeRecord, EpisodeRow, SlotRow, read_record
from coworld_core.errors import CoworldError, RecordError
from coworld_core.records.labels import LABELS_NAME, RunLabels, read_labels

from ..runs._locks import is_free

__all__ = ["ReadRows", "ReadRun", "Stamps", "read_head", "read_run", "rows_after", "stamps_of"]

_LAYOUT = EpisodeLayout(Path())
_EVENTS = _LAYOUT.events.name
_RECORD = _LAYOUT.record.name
_TOURNAMENT = "tournament.toml"
_PLAN = "plan.json"
_REPORT = "report.json"
_NAMES = (_RECORD, LABELS_NAME, _EVENTS, ROWS_NAME, _PLAN, _TOURNAMENT)
_WITH_RECORD = (_RECORD, LABELS_NAME)
_END = 1 << 16
"""Bytes at the end of a log in which its last event is looked for."""
_LONGEST = 1 << 22
"""Bytes of the longest line that is read."""
_MOST_ROWS = 10_000
"""Number of rows that are read at a time."""
_LATER = "A later version of coworld wrote its {name} (schema version {version}), which is read in part."

Stamps = Mapping[str, tuple[int, int]]
"""Size and time of change (ns) of each of a workspace's files that the index knows."""


@dataclass(frozen=True, kw_only=True)
class ReadRun:
    """A run, as its workspace tells of it."""

    kind: str
    run_id: str = ""
    coworld: str = ""
    version: str = ""
    variant: str = ""
    backend: str = ""
    status: str = "interrupted"
    ok: bool = False
    started_at: dt.datetime | None = None
    seconds: float | None = None
    players: tuple[str, ...] = ()
    labels: RunLabels = field(default_factory=RunLabels)
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    episode: EpisodeRow | None = None
    """The episode, if the run is one alone and is over."""
    rows: str = ""
    """Name of the file that gets a line for each episode; empty if there is none."""
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class ReadRows:
    """Rows that follow a position of a file, and the position after them."""

    rows: tuple[EpisodeRow, ...]
    position: int
    problem: str = ""


def stamps_of(place: Path) -> Stamps:
    """The stamps of the files from which the index knows a run; empty if it is gone."""
    found: dict[str, tuple[int, int]] = {}
    base = os.fspath(place) + os.sep
    for name in _NAMES:
        # The record of an episode is written last, so the rest is as it was
        if _RECORD in found and name not in _WITH_RECORD:
            continue
        try:
            status = os.stat(base + name)  # noqa: PTH116 - for thousands of workspaces
        except OSError:
            continue
        found[name] = (status.st_size, status.st_mtime_ns)
    return found


def read_run(place: Path) -> ReadRun | None:
    """Read a run; None if no run of coworld has written to the directory, or it has only begun to.

    What cannot be read is said in `problem`; nothing is raised for it.
    """
    found = _read(place)
    if found is None:
        return None
    try:
        labels = read_labels(place)
    except CoworldError as error:
        return replace(found, problem=_both(found.problem, f"{LABELS_NAME}: {error.message}"))
    return replace(found, labels=labels)


def _read(place: Path) -> ReadRun | None:
    record, events = place / _RECORD, place / _EVENTS
    if (place / _TOURNAMENT).is_file():
        return _tournament(place, events)
    if record.is_file():
        return _of_record(record)
    begun, ended = _events(events)
    rows = ROWS_NAME if (place / ROWS_NAME).is_file() else ""
    if begun is None and not rows:
        return None
    what = str((begun or {}).get("what") or "batch")
    kind = _plan_kind(place) or what
    players = (begun or {}).get("players")
    found = ReadRun(
        kind=kind,
        rows=rows,
        **_texts(begun or {}, "run_id", "coworld", "version", "variant", "backend"),
        started_at=_time((begun or {}).get("time")),
        players=tuple(map(str, cast("list[object]", players))) if isinstance(players, list) else (),
    )
    if ended is not None:
        seconds = ended.get("seconds")
        return replace(
            found,
            status=str(ended.get("status") or "failed"),
            ok=ended.get("ok") is True,
            seconds=float(seconds) if isinstance(seconds, int | float) else None,
        )
    return replace(found, status="lost" if is_free(events) else "running")


def _tournament(place: Path, events: Path) -> ReadRun | None:
    """A tournament: its log has a line for each episode, and the rules at its beginning."""
    lines = _first_lines(events, 1)
    rules = lines[0].get("rules") if lines else None
    if not isinstance(rules, dict):
        return None
    rules = cast("dict[str, object]", rules)
    over = is_free(events) and bool((_file_object(place / _REPORT) or {}).get("stopped"))
    return ReadRun(
        kind="tournament",
        rows=_EVENTS,
        **_texts(rules, "coworld", "version", "variant"),
        status="completed" if over else "interrupted" if is_free(events) else "running",
        ok=over,
        started_at=_time(lines[0].get("time") or lines[0].get("at")),
    )


def _of_record(path: Path) -> ReadRun | None:
    try:
        record = read_record(path)
    except RecordError as error:
        return _in_part(path, error)
    except CoworldError as error:
        return ReadRun(kind="episode", problem=error.message)
    version = int(record.schema_version)
    return ReadRun(
        kind="episode",
        **_texts(record.model_dump(include=set(_RECORD_TEXTS)), *_RECORD_TEXTS),
        status=record.status,
        ok=record.ok,
        started_at=record.started_at,
        seconds=record.seconds,
        players=tuple(seat.name for seat in record.slots),
        tags=record.episode_tags,
        episode=_row(record),
        problem=_LATER.format(name=path.name, version=version) if version > 1 else "",
    )


_RECORD_TEXTS = ("run_id", "coworld", "version", "variant", "backend")


def _in_part(path: Path, error: RecordError) -> ReadRun | None:
    """What can be read of a record that is none of this version."""
    try:
        value: object = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return ReadRun(kind="episode", problem=f"{path.name}: {error.message}")
    found = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    if not isinstance(found.get("coworld"), str):
        return None if not found.get("run_id") else ReadRun(kind="episode", problem=f"{path.name}: {error.message}")
    version = found.get("schema_version")
    seconds = found.get("seconds")
    later = isinstance(version, int) and version > 1
    return ReadRun(
        kind="episode",
        **_texts(found, *_RECORD_TEXTS),
        status=str(found.get("status") or "failed"),
        started_at=_time(found.get("started_at")),
        seconds=float(seconds) if isinstance(seconds, int | float) else None,
        problem=_LATER.format(name=path.name, version=version) if later else f"{path.name}: {error.message}",
    )


def _row(record: EpisodeRecord) -> EpisodeRow:
    """An episode that was played alone, as a row."""
    fault = record.fault
    return EpisodeRow.model_construct(
        index=1,
        key="",
        run_id=record.run_id,
        workspace="",
        variant=record.variant,
        seed=record.seed,
        episode_tags=record.episode_tags,
        status=record.status,
        ok=record.ok,
        slots=tuple(
            SlotRow.model_construct(
                name=seat.name, player_id=seat.player_id, image=seat.image.image, digest=seat.image.digest
            )
            for seat in record.slots
        ),
        scores=record.scores,
        seconds=record.seconds,
        error_type=fault.error_type if fault is not None else None,
        party=fault.party if fault is not None else None,
        fault_slot=fault.slot if fault is not None else None,
        message=fault.message if fault is not None else None,
    )


# --- rows ---------------------------------------------------------------------------------------------------------


def read_head(path: Path, length: int) -> str:
    """A digest of the beginning of a file, by which one that was replaced is noticed.

    Args:
        path: The file.
        length: Number of its bytes that are known.
    """
    with path.open("rb") as file:
        return hashlib.blake2b(file.read(min(length, 4096)), digest_size=8).hexdigest()


def rows_after(path: Path, position: int) -> Iterator[ReadRows]:
    """Read the rows after a position, some at a time; an incomplete last line is left for later.

    A line that is no row is left out, and `problem` names it.
    """
    log = path.name == _EVENTS
    rows: list[EpisodeRow] = []
    problem = ""
    with path.open("rb") as file:
        file.seek(position)
        for line in file:
            if not line.endswith(b"\n"):
                break
            position += len(line)
            if log and not line.startswith(b'{"kind":"episode_ended"'):
                continue
            try:
                rows.append(_row_of(line, log=log))
            except (ValidationError, ValueError) as error:
                problem = problem or f"{path.name} has a line that is no row, before byte {position}: {_first(error)}."
            if len(rows) >= _MOST_ROWS:
                yield ReadRows(rows=tuple(rows), position=position, problem=problem)
                rows = []
    yield ReadRows(rows=tuple(rows), position=position, problem=problem)


def _row_of(line: bytes, *, log: bool) -> EpisodeRow:
    if not log:
        return EpisodeRow.model_validate_json(line, context=READING)
    event: Any = json.loads(line)
    row = EpisodeRow.model_validate(event["row"], context=READING)
    return row.model_copy(update={"workspace": f"episodes/{row.workspace}"}) if row.workspace else row


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}"
    return str(error)


# --- events -------------------------------------------------------------------------------------------------------


def _events(path: Path) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The first event of a run, and the last one if the run is over; None for what is missing."""
    begun = next(iter(_first_lines(path, 1)), None)
    if begun is None or begun.get("kind") != "run_started" or not begun.get("run_id"):
        return None, None
    last: dict[str, Any] | None = None
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _END))
            lines = file.read().splitlines()
    except OSError:
        return begun, None
    for line in reversed(lines):
        last = _object(line)
        if last is not None:
            break
    return begun, last if last is not None and last.get("kind") == "run_finished" else None


def _first_lines(path: Path, count: int) -> list[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            found = (_object(file.readline(_LONGEST)) for _ in range(count))
            return [value for value in found if value is not None]
    except OSError:
        return []


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _file_object(path: Path) -> dict[str, Any] | None:
    try:
        return _object(path.read_bytes())
    except OSError:
        return None


def _plan_kind(place: Path) -> str:
    kind = (_file_object(place / _PLAN) or {}).get("kind")
    return kind if isinstance(kind, str) else ""


def _texts(found: Mapping[str, object], *names: str) -> dict[str, Any]:
    return {name: value for name in names if isinstance(value := found.get(name), str)}


def _time(value: object) -> dt.datetime | None:
    try:
        moment = dt.datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment.astimezone(dt.UTC) if moment is not None else None


def _both(*problems: str) -> str:
    return " ".join(filter(None, problems))
