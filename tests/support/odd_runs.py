"""Directories that look like those of runs, and are odd: edited, torn, made by another program or by a prankster."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["ODD_RUNS", "leave_odd_runs"]

_STARTED: dict[str, Any] = {
    "kind": "run_started",
    "seq": 1,
    "run_id": "abcdef0123",
    "time": "2026-11-28T10:00:00Z",
    "what": "episode",
    "coworld": "odd",
    "version": "1",
    "variant": "d",
    "backend": "process",
    "workspace": "/x",
    "players": [],
}
_RECORD: dict[str, Any] = {
    "schema_version": 1,
    "run_id": "abcdef0123",
    "coworld": "odd",
    "version": "1",
    "backend": "process",
    "variant": "d",
    "started_at": "2026-11-28T10:00:00Z",
    "ended_at": "2026-11-28T10:00:00Z",
    "seconds": 1.5,
    "status": "completed",
    "slots": [],
    "scores": [1.0],
}
_ROW: dict[str, Any] = {
    "index": 1,
    "key": "a",
    "run_id": "r1",
    "workspace": "a",
    "status": "completed",
    "ok": True,
    "seconds": 1.0,
}
_RULES: dict[str, Any] = {
    "kind": "rules",
    "time": "2026-11-28T10:00:00Z",
    "rules": {"coworld": "odd", "version": "1", "variant": "d"},
}
_DEEP = b"[" * 100_000 + b"]" * 100_000
_HUGE = 10**400
_FAR = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")


def _text(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _log(*events: Mapping[str, Any]) -> bytes:
    return b"".join(map(_text, events))


def _started(**values: Any) -> dict[str, Any]:
    return {"events.ndjson": _log({**_STARTED, **values})}


def _ended(**values: Any) -> dict[str, Any]:
    return {"events.ndjson": _log(_STARTED, {"kind": "run_finished", "status": "completed", **values})}


def _record(**values: Any) -> dict[str, Any]:
    return {"events.ndjson": _log(_STARTED), "episode.json": _text({**_RECORD, **values})}


def _rows(*rows: object) -> dict[str, Any]:
    return {"events.ndjson": _log({**_STARTED, "what": "batch"}), "episodes.jsonl": b"".join(map(_text, rows))}


def _tournament(*rest: Mapping[str, Any], **rules: Any) -> dict[str, Any]:
    head = {**_RULES, "rules": {**_RULES["rules"], **rules}}
    lines = b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in rest)
    return {"tournament.toml": b"", "events.ndjson": _text(head) + lines}


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


_Content = bytes | Callable[[Path], None]

ODD_RUNS: dict[str, Mapping[str, _Content]] = {
    "half-a-character-coworld": _started(coworld="a\ud800"),
    "half-a-character-id": _started(run_id="abcd\udfff"),
    "half-a-character-player": _started(players=["a\ud800", "b"]),
    "half-a-character-kind": {**_started(), "plan.json": _text({"kind": "\ud800"})},
    "half-a-character-status": _ended(status="\ud800"),
    "half-a-character-record": _record(coworld="a\ud800"),
    "half-a-character-version": _record(schema_version=9, coworld="a\ud800", status="\ud800"),
    "half-a-character-row": _rows({**_ROW, "key": "a\ud800"}),
    "half-a-character-label": {**_record(), "labels.json": _text({"labels": {"a": "\ud800"}})},
    "half-a-character-rules": _tournament(coworld="a\ud800"),
    "first-year-log": _started(time=_FAR[0]),
    "last-year-log": _started(time=_FAR[1]),
    "first-year-record": _record(started_at=_FAR[0]),
    "last-year-record": _record(started_at=_FAR[1]),
    "last-year-seconds": _record(started_at="9998-12-31T23:59:59Z", seconds=1e18),
    "no-time-zone": _record(started_at="0001-01-01T00:00:00"),
    "huge-seconds-log": _ended(seconds=_HUGE),
    "huge-seconds-record": _record(seconds=_HUGE),
    "huge-seconds-later": _record(schema_version=9, seconds=_HUGE),
    "huge-seconds-row": _rows({**_ROW, "seconds": _HUGE}),
    "endless-seconds-log": _ended(seconds=float("inf")),
    "endless-seconds-record": _record(seconds=float("nan")),
    "endless-seconds-row": _rows({**_ROW, "seconds": float("inf")}),
    "huge-version": _record(schema_version=10**4000),
    "huge-score": _record(scores=[_HUGE]),
    "huge-scores-row": _rows({**_ROW, "scores": [_HUGE, float("nan")]}),
    "huge-index": _rows({**_ROW, "index": 10**30}),
    "huge-slot": _rows({**_ROW, "fault_slot": 10**30}),
    "huge-seed": _rows({**_ROW, "seed": 10**30}),
    "huge-digits": {"events.ndjson": b'{"kind":"run_started","run_id":"abcdef","seq":' + b"9" * 9999 + b"}\n"},
    "missing-keys-log": {"events.ndjson": _text({"kind": "run_started", "run_id": "abcdef0123"})},
    "missing-keys-record": {"episode.json": _text({"run_id": "abcdef0123"})},
    "missing-keys-row": _rows({"index": 1}),
    "missing-keys-rules": {"tournament.toml": b"", "events.ndjson": _text({"rules": {}})},
    "missing-row": _tournament({"kind": "episode_ended"}),
    "row-of-another-kind": _tournament({"kind": "episode_ended", "row": [1]}),
    "wrong-kinds-log": _started(what={}, players=[{}, 1, None], time=5, version=[]),
    "wrong-kinds-end": _ended(status={}, ok="yes", seconds="long"),
    "wrong-kinds-record": _record(schema_version=9, status=[], seconds={}, started_at=7),
    "wrong-kinds-rows": _rows([], 1, None, "row"),
    "wrong-kinds-labels": {**_record(), "labels.json": _text([])},
    "deep-log": {"events.ndjson": _DEEP + b"\n"},
    "deep-record": {"events.ndjson": _log(_STARTED), "episode.json": _DEEP},
    "deep-rows": {**_rows(), "episodes.jsonl": _DEEP + b"\n"},
    "deep-row-of-a-tournament": {
        "tournament.toml": b"",
        "events.ndjson": _text(_RULES) + b'{"kind":"episode_ended","row":' + _DEEP + b"}\n",
    },
    "deep-plan": {**_started(), "plan.json": _DEEP},
    "deep-labels": {**_started(), "labels.json": _DEEP},
    "pipe-log": {"events.ndjson": _pipe},
    "pipe-log-with-rows": {**_rows(_ROW), "events.ndjson": _pipe},
    "pipe-record": {**_started(), "episode.json": _pipe},
    "pipe-rows": {**_started(), "episodes.jsonl": _pipe},
    "pipe-plan": {**_started(), "plan.json": _pipe},
    "pipe-labels": {**_started(), "labels.json": _pipe},
    "pipe-report": {**_tournament(), "report.json": _pipe},
    "pipe-tournament": {**_started(), "tournament.toml": _pipe},
    "sparse-log": {"events.ndjson": _sparse},
    "sparse-record": {**_started(), "episode.json": _sparse},
    "sparse-rows": {**_started(), "episodes.jsonl": _sparse},
    "sparse-plan": {**_started(), "plan.json": _sparse},
    "sparse-labels": {**_started(), "labels.json": _sparse},
    "endless-log": {"events.ndjson": _endless},
    "endless-record": {**_started(), "episode.json": _endless},
    "empty": {"events.ndjson": b"", "episode.json": b"", "episodes.jsonl": b"", "labels.json": b""},
    "no-text": {"events.ndjson": b"\xff\xfe\n", "episode.json": b"\xff", "episodes.jsonl": b"\xff\n"},
}


def leave_odd_runs(results: Path) -> None:
    """Make each of them, in a directory of its name."""
    for name, files in ODD_RUNS.items():
        (results / name).mkdir(parents=True)
        for file, content in files.items():
            path = results / name / file
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                content(path)
