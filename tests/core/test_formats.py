"""Formats that last: what any version wrote is read, and nothing of it is lost; what this one writes is strict."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from support.formats import (
    ADDED,
    LATER,
    files,
    objects,
    only_what_was_there,
    unknown,
    with_added_fields,
    with_later_values,
)

from coworld_core.documents.records import READING
from coworld_core.episode.events import (
    FaultSeen,
    Notice,
    PhaseStarted,
    RunFinished,
    UnknownEvent,
    parse_event,
    read_events,
)
from coworld_core.episode.outcome import Exit, Fault
from coworld_core.episode.record import EpisodeRecord, EpisodeRow, ImageRecord, read_record, read_rows, read_summary
from coworld_core.errors import CoworldError, EpisodeError, RecordError, UsageError
from coworld_core.evaluation.evaluation_files import read_plan, report_rows
from coworld_core.tournament.standings import Tournament, TournamentReport
from coworld_core.tournament.tournament_log import Configured, read_log

Reader = Callable[[Any], BaseModel]

RECORDS = [
    *(pytest.param(read_record, path, id="/".join(path.parts[-3:])) for path in files("episode.json")),
    *(pytest.param(read_summary, path, id="/".join(path.parts[-3:])) for path in files("summary.json")),
]
LOGS = [
    pytest.param(path, id="/".join(path.parts[-3:-1]))
    for path in files("events.ndjson")
    if path.parent.name != "tournament"
]
ROOT = Path(__file__).parent / "formats"
FAULTY, LOG = files("player-fault/episode.json")[0], files("player-fault/events.ndjson")[0]

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)


def dumped(value: BaseModel) -> Any:
    """A value as JSON."""
    return json.loads(value.model_dump_json())


def faulty() -> dict[str, Any]:
    """A record with a fault of a player in it."""
    value: dict[str, Any] = json.loads(FAULTY.read_bytes())
    return value


# --- what earlier versions wrote ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("read", "path"), RECORDS)
def test_a_record_reads_and_is_written_as_it_was(read: Reader, path: Path) -> None:
    written = path.read_text()
    again = only_what_was_there(json.loads(read(path).model_dump_json()), json.loads(written))
    assert json.dumps(again, indent=2, ensure_ascii=False) + "\n" == written
    assert unknown(read(path)) == []
    assert read(path) == read(path.read_bytes()) == read(json.loads(written)) == read(str(path.parent))


@pytest.mark.parametrize("path", LOGS)
def test_a_log_reads_and_is_written_as_it_was(path: Path) -> None:
    events = read_events(path)
    assert unknown(events) == []
    assert not any(isinstance(event, UnknownEvent) for event in events)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    lines = path.read_text().split("\n")
    for line, event in zip(lines, [*events, None], strict=True):
        before = json.loads(line) if event else ""
        again = only_what_was_there(json.loads(event.model_dump_json()), before) if event else ""
        assert again == before
    assert read_events(path.parent) == read_events(path.read_bytes()) == events


def test_old_values_keep_their_meaning() -> None:
    record = read_record(FAULTY)
    assert (record.status, record.ok, record.schema_version) == ("failed", False, 1)
    assert str(record.fault) == "player 0: Player 0 (Sweep Painter) exited with status 3. [player_error]"
    seen = [event.fault for event in read_events(LOG) if isinstance(event, FaultSeen)]
    assert seen == list(record.faults)


EVALUATIONS = [pytest.param(path.parent, id="/".join(path.parts[-3:-1])) for path in sorted(ROOT.rglob("plan.json"))]


@pytest.mark.parametrize("directory", EVALUATIONS)
def test_an_evaluation_of_any_version_has_its_report(directory: Path) -> None:
    """Its plan, rows and report are read as whole as they were written, and the same report follows from them."""
    plan, rows = read_plan(directory), list(read_rows(directory))
    assert unknown(plan) == unknown(tuple(rows)) == []
    report, written = report_rows(plan, rows), directory / "report.json"
    assert unknown(type(report).model_validate_json(written.read_bytes(), context=READING)) == []
    assert report.model_dump_json(indent=2) + "\n" == written.read_text()


@pytest.mark.parametrize("log", sorted(ROOT.rglob("tournament/events.ndjson")), ids=lambda path: path.parts[-3])
def test_a_tournament_of_any_version_has_its_standings(log: Path) -> None:
    events = list(read_log(log))
    assert unknown(tuple(events)) == []
    first = next(event for event in events if isinstance(event, Configured))
    tournament = Tournament(first.rules, None)
    for event in events:
        tournament.apply(event)
    report = tournament.report()
    written = TournamentReport.model_validate_json((log.parent / "report.json").read_bytes(), context=READING)
    assert report.standings == written.standings
    assert report.pairs == written.pairs


# --- what later versions may write ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("read", "path"), RECORDS)
def test_fields_that_are_not_known_are_kept_at_every_depth(read: Reader, path: Path) -> None:
    later = with_added_fields(json.loads(path.read_bytes()))
    assert sum(ADDED in entries for entries, _ in objects(later)) > 2
    value = read(later)
    assert unknown(value).count(ADDED) > 2
    assert only_what_was_there(dumped(value), later) == later
    assert json.loads(value.model_copy().model_dump_json()) == dumped(value)
    assert value != read(path)


@given(data=st.data())
def test_unknown_fields_of_any_value_are_kept(data: st.DataObject) -> None:
    later = faulty()
    entries, mapping = data.draw(st.sampled_from(list(objects(later))))
    added = data.draw(st.dictionaries(st.text(), st.text() if mapping else JSON))
    entries |= {name: value for name, value in added.items() if name not in entries}
    assert only_what_was_there(dumped(read_record(json.dumps(later).encode())), later) == later


@pytest.mark.parametrize(("read", "path"), RECORDS)
def test_values_that_are_not_known_are_read_as_they_are(read: Reader, path: Path) -> None:
    later = with_later_values(json.loads(path.read_bytes()))
    value = read(later)
    assert only_what_was_there(dumped(value), later) == later
    assert LATER in repr(value)


def test_such_values_can_be_shown_and_asked() -> None:
    record = read_record(with_later_values(faulty()))
    assert not record.ok
    assert record.schema_version == 2
    assert str(record.fault) == f"{LATER}: Player 0 (Sweep Painter) exited with status 3. [{LATER}]"
    assert record.fault is not None
    assert str(record.fault.exit) == f"ended: {LATER}"
    with pytest.raises(EpisodeError) as caught:
        record.raise_for_fault()
    assert caught.value.code == LATER


def test_an_event_of_an_unknown_kind_is_kept() -> None:
    line = b'{"seq":7,"time":"2031-01-01T00:00:00Z","run_id":"r","kind":"game_paused","why":{"by":["viewer",null]}}'
    event = parse_event(line)
    assert isinstance(event, UnknownEvent)
    assert (event.kind, event.seq, event.run_id) == ("game_paused", 7, "r")
    assert event.model_extra == {"why": {"by": ["viewer", None]}}
    assert json.loads(event.model_dump_json()) == json.loads(line)


def test_a_log_of_a_later_version_is_read_whole() -> None:
    lines = [json.loads(line) for line in LOG.read_bytes().splitlines()]
    later = [with_later_values(with_added_fields(line)) for line in lines]
    for place, line in enumerate(later):
        line["kind"] = LATER if place % 5 == 0 else line["kind"]
    events = read_events("".join(json.dumps(line) + "\n" for line in later).encode())
    assert [only_what_was_there(dumped(event), line) for event, line in zip(events, later, strict=True)] == later
    assert [isinstance(event, UnknownEvent) for event in events] == [place % 5 == 0 for place in range(len(later))]


# --- a log that is still written, or was cut ------------------------------------------------------------------------


@given(st.integers(min_value=0, max_value=len(LOG.read_bytes())))
def test_a_log_that_was_cut_is_read_up_to_there(length: int) -> None:
    data, whole = LOG.read_bytes()[:length], read_events(LOG)
    events = read_events(data)
    assert events == whole[: len(events)]
    assert len(events) - data.count(b"\n") in (0, 1)


@given(st.lists(st.text()))
def test_a_line_ends_where_json_lets_it(messages: list[str]) -> None:
    data = b"".join(Notice(message=message).model_dump_json().encode() + b"\n" for message in messages)
    assert [event.message for event in read_events(data) if isinstance(event, Notice)] == messages


# --- what is none ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "The document is empty"),
        (b"not json", "A value is expected"),
        (b"\xff", "not UTF-8"),
        (b"[]", "An object is expected, not a list"),
        (b'{"coworld": "x", "coworld": "y"}', 'The key "coworld" occurs twice'),
        (b"{}", 'The episode record lacks "run_id". (and 8 more)'),
        ({"faults": [1]}, 'The episode record lacks "run_id".'),
    ],
)
def test_malformed_record_is_a_record_error(data: Any, says: str) -> None:
    with pytest.raises(RecordError) as caught:
        read_record(data)
    assert says in str(caught.value)
    assert caught.value.code == "record_invalid"
    assert caught.value.hint == "Check that it has not been edited, and that it is a valid episode record."
    assert caught.value.report.source == "episode record"


def test_record_error_names_file_and_place(tmp_path: Path) -> None:
    value = faulty()
    del value["slots"][1]["image"]["image"]
    value["faults"][0]["seconds"] = "soon"
    path = tmp_path / "episode.json"
    path.write_text(json.dumps(value, indent=2))
    with pytest.raises(RecordError) as caught:
        read_record(tmp_path)
    assert {issue.pointer for issue in caught.value.report.errors} == {"/slots/1/image", "/faults/0/seconds"}
    assert all(issue.line for issue in caught.value.report.errors)
    assert str(path) in str(caught.value)


def test_a_later_shape_that_is_not_understood_asks_for_a_later_version() -> None:
    value = faulty() | {"schema_version": 2}
    del value["status"]
    with pytest.raises(RecordError) as caught:
        read_record(value)
    assert caught.value.hint == "A later version of coworld wrote it, with schema version 2: update this one."


@pytest.mark.parametrize("version", [0, -1, "1", 1.5, None])
def test_a_version_is_a_number(version: object) -> None:
    with pytest.raises(RecordError, match="schema_version"):
        read_record(faulty() | {"schema_version": version})


@pytest.mark.parametrize("line", [b"", b"{}", b"3", b'{"kind": 3}', b'{"kind": null}', b'{"kind": "notice"}'])
def test_malformed_event_is_a_record_error(line: bytes) -> None:
    with pytest.raises(RecordError):
        parse_event(line)
    with pytest.raises(RecordError) as caught:
        read_events(b'{"kind": "new"}\n' + line + b"\n")
    assert str(caught.value).startswith("events:2")


@pytest.mark.parametrize("data", [b"not json", b"{}", b'{"kind": "new"}\n[]', b'{"kind": "notice"}'])
def test_a_last_line_is_left_out_only_when_it_is_half_a_line(data: bytes) -> None:
    with pytest.raises(RecordError):
        read_events(data)


@pytest.mark.parametrize("read", [read_record, read_summary, read_events])
def test_a_file_that_is_not_there(tmp_path: Path, read: Callable[[Path], object]) -> None:
    for path in (tmp_path, tmp_path / "nothing.json"):
        with pytest.raises(UsageError) as caught:
            read(path)
        assert caught.value.code == "record_not_found"
        assert caught.value.hint


def test_invalid_path_is_refused() -> None:
    for path in ("a\0b", "x" * 5000):
        with pytest.raises(UsageError) as caught:
            read_record(path)
        assert caught.value.code == "record_unreadable"


@given(JSON)
def test_only_typed_errors_are_raised(value: object) -> None:
    for read in (read_record, read_summary, parse_event):
        with pytest.raises(CoworldError):
            read(json.dumps(value).encode())


# --- what this version writes ---------------------------------------------------------------------------------------

FAULT = {"party": "game", "error_type": "crash", "message": "m", "time": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (Exit, {"reason": "exited"}),
        (Fault, FAULT),
        (ImageRecord, {"image": "i"}),
        (PhaseStarted, {"phase": "play"}),
        (Notice, {"message": "m"}),
        (UnknownEvent, {"kind": "k"}),
    ],
)
def test_making_one_is_strict_about_fields(model: type[BaseModel], fields: dict[str, Any]) -> None:
    assert model(**fields)
    for make in (lambda: model(**fields, added=1), lambda: model.model_validate({**fields, "added": 1})):
        with pytest.raises(ValidationError, match="extra_forbidden"):
            make()


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (Exit, {"reason": LATER}),
        (Fault, {**FAULT, "error_type": LATER}),
        (Fault, {**FAULT, "party": LATER}),
        (Notice, {"message": "m", "level": LATER}),
        (Notice, {"message": "m", "kind": LATER}),
        (RunFinished, {"status": LATER, "ok": True, "seconds": 1}),
        (EpisodeRow, {"index": 1, "run_id": "r", "workspace": "w", "status": LATER, "ok": True, "seconds": 1}),
    ],
)
def test_making_one_is_strict_about_values(model: type[BaseModel], fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="literal_error"):
        model(**fields)


def test_a_whole_one_is_made_strictly_too() -> None:
    for later in (with_added_fields(faulty()), with_later_values(faulty())):
        with pytest.raises(ValidationError):
            EpisodeRecord.model_validate(later)


def test_the_schema_is_that_of_what_is_written() -> None:
    schema = EpisodeRecord.model_json_schema()
    assert all(part["additionalProperties"] is False for part in (schema, *schema["$defs"].values()))
    assert schema["properties"]["schema_version"]["const"] == 1
    assert "crash" in schema["$defs"]["Fault"]["properties"]["error_type"]["enum"]


@pytest.mark.parametrize("path", files("episode.json"))
def test_a_record_with_a_path_that_is_not_utf8_is_written_and_read(path: Path, tmp_path: Path) -> None:
    record = read_record(path)
    changed, shown = (record.model_copy(update={"manifest": f"/caf{end}/m.json"}) for end in ("\udce9", "\ufffd"))
    for indent in (None, 2):
        text = changed.model_dump_json(indent=indent)
        assert text == shown.model_dump_json(indent=indent)
    (tmp_path / "episode.json").write_text(text, encoding="utf-8")
    assert read_record(tmp_path).manifest == "/caf\ufffd/m.json"
