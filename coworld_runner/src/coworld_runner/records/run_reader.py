"""Reads what a workspace says of its run, written by any version, and the rows that were added to it."""

from __future__ import annotations

import datetime as dt
import errno
import hashlib
import json
import math
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
from coworld_core.files.locks import is_free
from coworld_core.files.regular import open_regular, read_regular, regular_lines
from coworld_core.records.labels import LABELS_NAME, RunLabels, read_labels
from coworld_core.text.terminal import writable

__all__ = ["ReadRows", "ReadRun", "Stamps", "read_head", "read_run", "rows_after", "stamps_of"]

_LAYOUT = EpisodeLayout(Path())
_EVENTS = _LAYOUT.events.name
_RECORD = _LAYOUT.record.name
_TOURNAMENT = "tournament.toml"
_PLAN = "plan.json"
_REPORT = "report.json"
_NAMES = (_RECORD, LABELS_NAME, _EVENTS, ROWS_NAME, _PLAN, _TOURNAMENT, _REPORT)
_WITH_RECORD = (_RECORD, LABELS_NAME)
_END = 1 << 16
"""Bytes at the end of a log in which its last event is looked for."""
_LONGEST = 1 << 22
"""Bytes of the longest line that is read."""
_MOST_ROWS = 10_000
"""Number of rows that are read at a time."""
_GREATEST = (1 << 63) - 1
"""The greatest number of an episode."""
_YEARS = range(2, 9999)
"""Years whose moments exist in every time zone."""
_LONGEST_PROBLEM = 500
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
    outcome: str = ""
    """What a measurement, an improvement or a tournament has found, in a sentence; empty if nothing is reported."""
    rows: str = ""
    """Name of the file that gets a line for each episode; empty if there is none."""
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class ReadRows:
    """Rows that follow a position of a file, and the position after them."""

    rows: tuple[EpisodeRow, ...]
    position: int
    problem: str = ""


def stamps_of(directory: Path) -> Stamps:
    """The stamps of the files from which the index knows a run; empty if it is gone."""
    found: dict[str, tuple[int, int]] = {}
    base = os.fspath(directory) + os.sep
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


def read_run(directory: Path) -> ReadRun | None:
    """Read a run; None if no run of coworld has written to the directory, or it has only begun to.

    What cannot be read is said in `problem`; nothing is raised, whatever is in the directory.
    """
    problems: list[str] = []
    try:
        found = _read(directory, problems)
        labels = _labels(directory, problems) if found is not None else RunLabels()
    except Exception as error:  # noqa: BLE001 - one run must not cost the others theirs
        found, labels = ReadRun(kind="episode"), RunLabels()
        problems.append(f"It cannot be read: {type(error).__name__}: {error}")
    if found is None and not problems:
        return None
    told = writable(" ".join(filter(None, (found.problem if found is not None else "", *problems))))
    problem = told if len(told) <= _LONGEST_PROBLEM else f"{told[:_LONGEST_PROBLEM]}…"
    return replace(found or ReadRun(kind="episode"), labels=labels, problem=problem)


def _labels(directory: Path, problems: list[str]) -> RunLabels:
    try:
        return read_labels(directory)
    except CoworldError as error:
        problems.append(f"{LABELS_NAME}: {error.message}")
        return RunLabels()


def _read(directory: Path, problems: list[str]) -> ReadRun | None:
    record, events = directory / _RECORD, directory / _EVENTS
    if (directory / _TOURNAMENT).is_file():
        return _tournament(directory, events, problems)
    if record.is_file():
        return _of_record(record, problems)
    begun, ended = _events(events, problems)
    rows = ROWS_NAME if (directory / ROWS_NAME).is_file() else ""
    if begun is None and not rows:
        return None
    told = _FileValues(_EVENTS, begun or {}, problems)
    plan = _FileValues(_PLAN, _file_object(directory / _PLAN, problems), problems)
    kind = plan.text("kind") or told.text("what") or "batch"
    over = ended is not None or is_free(events)
    found = ReadRun(
        kind=kind,
        # One that is resumed has the report of its beginning, and is looked at often
        outcome=_outcome(directory, kind) if over else "",
        rows=rows,
        **told.texts("run_id", "coworld", "version", "variant", "backend"),
        started_at=told.time("time"),
        players=told.names("players"),
    )
    if ended is not None:
        end = _FileValues(_EVENTS, ended, problems)
        status = end.text("status") or "failed"
        return replace(found, status=status, ok=ended.get("ok") is True, seconds=end.seconds("seconds"))
    return replace(found, status="lost" if over else "running")


def _tournament(directory: Path, events: Path, problems: list[str]) -> ReadRun | None:
    """A tournament: its log has a line for each episode, and the rules at its beginning."""
    begun = _first_line(events, problems) or {}
    rules = begun.get("rules")
    if not isinstance(rules, dict):
        return None
    over = is_free(events) and bool(_file_object(directory / _REPORT, problems).get("stopped"))
    return ReadRun(
        kind="tournament",
        outcome=_outcome(directory, "tournament"),
        rows=_EVENTS,
        **_FileValues(_EVENTS, cast("dict[str, object]", rules), problems).texts("coworld", "version", "variant"),
        status="completed" if over else "interrupted" if is_free(events) else "running",
        ok=over,
        started_at=_FileValues(_EVENTS, begun, problems).time("time" if "time" in begun else "at"),
    )


def _outcome(directory: Path, kind: str) -> str:
    """What the report of a run of many says in a sentence; empty without one, or if another version wrote it."""
    if not (directory / _REPORT).is_file():
        return ""
    from coworld_core.documents.records import open_record, read_as
    from coworld_core.evaluation.evaluation_files import KINDS
    from coworld_core.roles.improvement_report import ImprovementReport
    from coworld_core.tournament.standings import TournamentReport

    measured = {name: found.report for name, found in KINDS.items()}
    model = {**measured, "improvement": ImprovementReport, "tournament": TournamentReport}.get(kind)
    try:
        document = open_record(directory, what="report", name=_REPORT)
        return writable(read_as(model, document, what="report").headline) if model is not None else ""
    except CoworldError:
        return ""


def _of_record(path: Path, problems: list[str]) -> ReadRun | None:
    try:
        record = read_record(path)
    except RecordError as error:
        return _in_part(path, error, problems)
    except CoworldError as error:
        return ReadRun(kind="episode", problem=error.message)
    version = int(record.schema_version)
    told = _FileValues(path.name, record.model_dump(include={*_RECORD_TEXTS, "started_at", "seconds"}), problems)
    return ReadRun(
        kind="episode",
        **told.texts(*_RECORD_TEXTS),
        status=record.status,
        ok=record.ok,
        started_at=told.time("started_at"),
        seconds=told.seconds("seconds"),
        players=tuple(seat.name for seat in record.slots),
        tags=record.episode_tags,
        episode=_row(record),
        problem=_LATER.format(name=path.name, version=version) if version > 1 else "",
    )


_RECORD_TEXTS = ("run_id", "coworld", "version", "variant", "backend")


def _in_part(path: Path, error: RecordError, problems: list[str]) -> ReadRun | None:
    """What can be read of a record that is none of this version."""
    troubled = ReadRun(kind="episode", problem=f"{path.name}: {error.message}")
    try:
        found = _object(read_regular(path))
    except OSError:
        return troubled
    if found is None:
        return troubled
    if not isinstance(found.get("coworld"), str):
        return troubled if found.get("run_id") else None
    version = found.get("schema_version")
    later = isinstance(version, int) and version > 1
    told = _FileValues(path.name, found, problems if later else [])
    return ReadRun(
        kind="episode",
        **told.texts(*_RECORD_TEXTS),
        status=told.text("status") or "failed",
        started_at=told.time("started_at"),
        seconds=told.seconds("seconds"),
        problem=_LATER.format(name=path.name, version=version) if later else troubled.problem,
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
        player_faults=record.player_faults(),
    )


# --- rows ---------------------------------------------------------------------------------------------------------


def read_head(path: Path, length: int) -> str:
    """A digest of the beginning of a file, by which one that was replaced is noticed.

    Args:
        path: The file.
        length: Number of its bytes that are known.
    """
    with open_regular(path) as file:
        return hashlib.blake2b(file.read(min(length, 4096)), digest_size=8).hexdigest()


def rows_after(path: Path, position: int) -> Iterator[ReadRows]:
    """Read the rows after a position, some at a time; an incomplete last line is left for later.

    A line that is no row is left out, and `problem` names it.
    """
    log = path.name == _EVENTS
    rows: list[EpisodeRow] = []
    problem = ""
    try:
        for line in regular_lines(path, position=position, longest=_LONGEST):
            if not line.endswith(b"\n"):
                break
            position += len(line)
            if log and not line.startswith(b'{"kind":"episode_ended"'):
                continue
            try:
                rows.append(_row_of(line, log=log))
            except ValueError as error:
                problem = problem or f"{path.name} has a line that is no row, before byte {position}: {_first(error)}."
            if len(rows) >= _MOST_ROWS:
                yield ReadRows(rows=tuple(rows), position=position, problem=problem)
                rows = []
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        problem = problem or f"{path.name} is read as far as byte {position}: {error.strerror}."
    yield ReadRows(rows=tuple(rows), position=position, problem=problem)


def _row_of(line: bytes, *, log: bool) -> EpisodeRow:
    """The row in a line.

    Raises:
        ValueError: There is none.
    """
    if log:
        row = EpisodeRow.model_validate((_object(line) or {}).get("row"), context=READING)
        row = row.model_copy(update={"workspace": f"episodes/{row.workspace}"}) if row.workspace else row
    else:
        row = EpisodeRow.model_validate_json(line, context=READING)
    if row.index > _GREATEST:
        raise ValueError("index: no run has as many episodes")
    return row


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}"
    return str(error)


# --- events -------------------------------------------------------------------------------------------------------


def _events(path: Path, problems: list[str]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The first event of a run, and the last one if the run is over; None for what is missing."""
    begun = _first_line(path, problems)
    if begun is None or begun.get("kind") != "run_started" or not begun.get("run_id"):
        return None, None
    last: dict[str, Any] | None = None
    try:
        with open_regular(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _END))
            lines = file.read().splitlines()
    except OSError:
        return begun, None
    for line in reversed(lines):
        last = _object(line)
        if last is not None:
            break
    return begun, last if last is not None and last.get("kind") == "run_finished" else None


def _first_line(path: Path, problems: list[str]) -> dict[str, Any] | None:
    try:
        return _object(next(regular_lines(path, longest=_LONGEST), b""))
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(f"{path.name}: {error.strerror}.")
        return None


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _file_object(path: Path, problems: list[str]) -> dict[str, Any]:
    try:
        return _object(read_regular(path)) or {}
    except FileNotFoundError:
        return {}
    except OSError as error:
        problems.append(f"{path.name}: {error.strerror}.")
        return {}


class _FileValues:
    """What a file tells of a run, as far as its values are of their kinds; any other is a problem."""

    def __init__(self, file: str, values: Mapping[str, object], problems: list[str]) -> None:
        self._file = file
        self._values = values
        self._problems = problems

    def text(self, name: str) -> str:
        value = self._values.get(name)
        text = writable(value) if isinstance(value, str) else ""
        if value is not None and text != value:
            self._refuse(name, "a text")
        return text

    def texts(self, *names: str) -> dict[str, Any]:
        return {name: self.text(name) for name in names}

    def names(self, name: str) -> tuple[str, ...]:
        value = self._values.get(name)
        names = cast("list[object]", value) if isinstance(value, list) else []
        found = tuple(writable(one) for one in names if isinstance(one, str))
        if value is not None and list(found) != value:
            self._refuse(name, "a list of texts")
        return found

    def time(self, name: str) -> dt.datetime | None:
        """A time as UTC; one that not every time zone has is none."""
        value = self._values.get(name)
        try:
            time = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
        except ValueError:
            time = None
        if isinstance(time, dt.datetime) and time.year in _YEARS:
            return time.astimezone(dt.UTC)
        if value is not None:
            self._refuse(name, "a time")
        return None

    def seconds(self, name: str) -> float | None:
        value = self._values.get(name)
        try:
            seconds = float(value) if isinstance(value, int | float) else math.nan
        except OverflowError:
            seconds = math.inf
        if math.isfinite(seconds):
            return seconds
        if value is not None:
            self._refuse(name, "a number of seconds")
        return None

    def _refuse(self, name: str, what: str) -> None:
        self._problems.append(f"{self._file}: {name} is not {what}.")
