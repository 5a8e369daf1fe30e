"""What roles are given and give, as values: read as written, with what others add, and refused with a reason."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from coworld_core.episode.outcome import Fault
from coworld_core.episode.record import ArtifactRecord, ImageRecord, UnitRecord
from coworld_core.errors import RecordError
from coworld_core.roles.bundle import BundleManifest
from coworld_core.roles.grade import Grade, read_grade
from coworld_core.roles.plan import InputCounts, OptimizerPlan, read_optimizer_plan
from coworld_core.roles.player_diagnosis import DiagnosisFindings, DiagnosisManifest
from coworld_core.roles.report import ReportManifest
from coworld_core.roles.report_request import (
    ArtifactRef,
    EpisodeErrorInfo,
    InlineJson,
    ReportArtifacts,
    ReportEpisode,
    ReporterReady,
    ReportFailed,
    ReportFinished,
    ReportProgress,
    ReportRequest,
    ReportStarted,
    read_report_request,
    read_reporter_message,
)
from coworld_core.roles.role_record import DiagnosedPlayer, RoleRecord, read_role_record

quick = settings(max_examples=40)

words = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
numbers = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 2**53)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | numbers | words,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(words, below, max_size=3),
    max_leaves=6,
)
refs = st.builds(ArtifactRef, uri=words, media_type=words, encoding=st.sampled_from(["identity", "zlib"]))
many_refs = st.dictionaries(st.sampled_from(["0", "1", "stdout", "combined"]), refs, max_size=3)
artifacts = st.builds(
    ReportArtifacts,
    results=st.none() | refs,
    replay=st.none() | refs,
    game_logs=many_refs,
    player_logs=many_refs,
    player_artifact=many_refs,
)
errors = st.builds(
    EpisodeErrorInfo,
    error_type=st.none() | words,
    error=st.none() | words,
    failed_policy_index=st.none() | counts,
    failed_agent_index=st.none() | counts,
)
manifests = st.builds(
    BundleManifest,
    ereq_id=words,
    status=st.sampled_from(["success", "failed"]),
    include=st.lists(words, max_size=3).map(tuple),
    files=st.dictionaries(words, words | st.dictionaries(words, words, max_size=2), max_size=3),
)
episodes = st.builds(
    ReportEpisode,
    episode_request_id=words,
    status=st.sampled_from(["success", "failed"]),
    manifest=manifests,
    artifacts=artifacts,
    inline_json=st.builds(InlineJson, error_info=st.none() | errors),
)
requests = st.builds(
    ReportRequest, request_id=words, report_uri=words, episodes=st.lists(episodes, max_size=2).map(tuple)
)
SAID = {
    "ready": st.builds(ReporterReady),
    "started": st.builds(ReportStarted, request_id=words, episode_count=counts),
    "progress": st.builds(ReportProgress, request_id=words, stage=words, completed=counts, total=counts),
    "finished": st.builds(
        ReportFinished, request_id=words, report_uri=words, episode_count=counts, players=st.none() | values
    ),
    "failed": st.builds(ReportFailed, request_id=words, stage=words, error=words),
}
plans = st.builds(
    OptimizerPlan,
    optimizer_id=words,
    coworld_name=words,
    policy_workspace_uri=st.none() | words,
    input_counts=st.builds(InputCounts, reports=counts, grader_outputs=counts, diagnoser_outputs=counts),
    recommendations=st.lists(words, max_size=3).map(tuple),
)
own = st.dictionaries(words.filter(str.isidentifier).map("own_{}".format), values, max_size=3)
grades = st.builds(
    lambda score, name, more: Grade(score=score, grader_id=name, **more), numbers, st.none() | words, own
)
findings = st.builds(
    lambda score, advice, more: DiagnosisFindings(score=score, recommendations=advice, **more),
    st.none() | numbers,
    st.lists(words, max_size=3).map(tuple),
    own,
)

moments = st.datetimes(timezones=st.just(dt.UTC))
records = st.builds(
    RoleRecord,
    run_id=words,
    role=st.sampled_from(["reporter", "grader", "diagnoser", "optimizer"]),
    id=words,
    key=words,
    episodes=st.lists(words, max_size=2).map(tuple),
    player=st.none() | st.builds(DiagnosedPlayer, slot=counts, name=words, source=words),
    backend=words,
    started_at=moments,
    seconds=st.floats(0, 1e9),
    status=st.sampled_from(["completed", "failed"]),
    answer=st.none() | st.dictionaries(words, values, max_size=3),
    outputs=st.dictionaries(words, st.builds(ArtifactRecord, path=words, size=counts, sha256=words), max_size=2),
    fault=st.none()
    | st.builds(
        Fault,
        party=st.just("program"),
        error_type=st.just("program_error"),
        message=words,
        time=moments,
        slot=st.none(),
    ),
    unit=st.none() | st.builds(UnitRecord, image=st.builds(ImageRecord, image=words), exit=st.none()),
    warnings=st.lists(words, max_size=2).map(tuple),
)


@quick
@given(records)
def test_the_record_of_a_role_is_read_as_it_was_written(record: RoleRecord) -> None:
    assert read_role_record(record.model_dump_json().encode()) == record


@quick
@given(grades)
def test_a_grade_is_read_as_it_was_written(grade: Grade) -> None:
    assert read_grade(grade.to_json()) == grade


@quick
@given(plans)
def test_a_plan_is_read_as_it_was_written(plan: OptimizerPlan) -> None:
    assert read_optimizer_plan(plan.to_json()) == plan


@quick
@given(requests)
def test_a_request_is_read_as_it_was_written(request: ReportRequest) -> None:
    assert read_report_request(request.to_json()) == request


@quick
@given(findings)
def test_findings_are_read_as_they_were_written(found: DiagnosisFindings) -> None:
    assert DiagnosisFindings.model_validate_json(found.to_json()) == found


@pytest.mark.parametrize("kind", SAID)
@quick
@given(data=st.data())
def test_a_message_is_read_as_it_was_written(kind: str, data: st.DataObject) -> None:
    message = data.draw(SAID[kind])
    assert read_reporter_message(message.to_json()) == message


READERS: dict[str, Callable[[bytes], BaseModel]] = {
    "grade": read_grade,
    "plan": read_optimizer_plan,
    "request": read_report_request,
    "message": read_reporter_message,
}
GOOD: dict[str, dict[str, Any]] = {
    "grade": {"score": 3},
    "plan": {"optimizer_id": "a", "coworld_name": "b"},
    "request": {
        "type": "report_request",
        "request_id": "r",
        "report_uri": "file:///r.zip",
        "episodes": [
            {
                "episode_request_id": "ereq_1",
                "status": "success",
                "manifest": {"ereq_id": "ereq_1", "status": "success", "include": [], "files": {}},
                "artifacts": {"results": {"uri": "file:///r.json", "media_type": "application/json"}},
            }
        ],
    },
    "message": {"type": "report_started", "request_id": "r", "episode_count": 1},
}


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("more", [{}, {"later": {"a": [1]}}, {"x": None}])
def test_what_others_add_is_kept(kind: str, more: dict[str, Any]) -> None:
    value = READERS[kind](json.dumps(GOOD[kind] | more).encode())
    assert json.loads(value.model_dump_json()).items() >= more.items()


@pytest.mark.parametrize("kind", READERS)
@quick
@given(data=st.binary(max_size=40) | values.map(lambda value: json.dumps(value).encode()))
def test_anything_else_is_refused_with_a_reason(kind: str, data: bytes) -> None:
    refused: RecordError | None = None
    try:
        READERS[kind](data)
    except RecordError as error:
        refused = error
    if refused is not None:
        assert refused.report.errors
        assert refused.message.isprintable()


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("NaN", "NaN is not a JSON number"),
        ("Infinity", "Infinity is not a JSON number"),
        ("-Infinity", "-Infinity is not a JSON number"),
        ("1e999", "1e999"),
        ("true", "score must be a number, not true or false"),
        ('"1"', "score must be a number, not text"),
        ("null", "score must be a number, not null"),
        ("[1]", "score must be a number, not a list"),
    ],
)
def test_a_grade_that_is_no_finite_number_is_refused(written: str, says: str) -> None:
    with pytest.raises(RecordError) as raised:
        read_grade(f'{{"score": {written}}}'.encode())
    assert says in str(raised.value.report)


def test_a_grade_needs_a_score() -> None:
    with pytest.raises(RecordError, match='lacks "score"'):
        read_grade(b'{"grade": 1}')
    with pytest.raises(RecordError, match="An object is expected"):
        read_grade(b"3")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), True, "1", None])
def test_no_wrong_grade_is_made(bad: Any) -> None:
    with pytest.raises(ValidationError):
        Grade(score=bad)
    if isinstance(bad, float):
        with pytest.raises(ValidationError):
            Grade(score=1.0, own={"a": [bad]})  # pyright: ignore[reportCallIssue]


def test_a_grade_may_have_fields_of_its_own() -> None:
    grade = Grade(score=0.5, grader_id="margin", margin_tiles=3)  # pyright: ignore[reportCallIssue]
    assert grade.to_json() == b'{"grader_id":"margin","margin_tiles":3,"score":0.5}'


def test_a_plan_is_written_as_the_contract_says() -> None:
    plan = OptimizerPlan(optimizer_id="o", coworld_name="c", recommendations=("look",))
    assert plan.to_json().decode() == (
        '{\n  "optimizer_id": "o",\n  "coworld_name": "c",\n  "policy_workspace_uri": null,\n  "input_counts": {\n'
        '    "reports": 0,\n    "grader_outputs": 0,\n    "diagnoser_outputs": 0\n  },\n  "recommendations": [\n'
        '    "look"\n  ]\n}\n'
    )


def test_a_request_is_written_without_its_nulls() -> None:
    written = json.loads(read_report_request(json.dumps(GOOD["request"]).encode()).to_json())
    assert written["episodes"][0]["artifacts"] == {
        "results": {"uri": "file:///r.json", "media_type": "application/json", "encoding": "identity"},
        "game_logs": {},
        "player_logs": {},
        "player_artifact": {},
    }
    assert written["episodes"][0]["inline_json"] == {}


def test_a_request_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "request").write_text(json.dumps(GOOD["request"]))
    assert read_report_request(tmp_path / "request").request_id == "r"


@pytest.mark.parametrize(
    ("said", "says"),
    [
        (b"{}", "It has no type"),
        (b'{"type": 3}', "Its type is 3"),
        (b'{"type": "report_start"}', 'Did you mean "report_started"?'),
        (b'{"type": "report_request"}', "which a reporter does not say"),
        (b'{"type": "report_failed", "request_id": "r", "stage": "s"}', 'lacks "error"'),
        (b'{"type": "report_started", "request_id": "r", "episode_count": -1}', "must be at least 0"),
        (b"[]", "An object is expected"),
        (b"hello", "A value is expected"),
        (b" " * (1 << 21), "at most"),
    ],
)
def test_a_wrong_message_says_what_is_wrong(said: bytes, says: str) -> None:
    with pytest.raises(RecordError) as raised:
        read_reporter_message(said)
    assert says in f"{raised.value} {raised.value.report}"


def test_writers_are_strict() -> None:
    for wrong in (
        lambda: ReportManifest(reporter_id=""),
        lambda: ReportManifest(reporter_id="a", redner="a.md"),  # type: ignore[call-arg]
        lambda: InputCounts(reports=-1),
        lambda: DiagnosisManifest(render=3),  # type: ignore[arg-type]
        lambda: ArtifactRef(uri="a", media_type="b", encoding="gzip"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValidationError):
            wrong()
