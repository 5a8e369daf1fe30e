"""Results of a game: read, checked, and the schemas that promise scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coworld_core import check_manifest, check_results, read_results
from coworld_core.errors import ManifestError
from coworld_core.manifest.game_results import score_bounds

SCHEMA = {"type": "object", "required": ["scores"], "properties": {"scores": {"type": "array"}}}


def test_read_results(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text('{"scores": [1, 2.5], "ticks": 10}')
    results = read_results(path, SCHEMA, 2)
    assert results.scores == (1.0, 2.5)
    assert all(isinstance(score, float) for score in results.scores)
    assert results.raw == {"scores": [1, 2.5], "ticks": 10}
    assert repr(results) == "<Results 1, 2.5>"
    assert read_results(str(path), SCHEMA, 2) == results


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"scores": [1', "results_malformed"),
        (b'{"scores": [1]}', "results_malformed"),
        (b'{"scores": [1, NaN]}', "results_malformed"),
        (b'{"scores": [1, 2], "name": "\xff\xfe"}', "results_malformed"),
        (b'{"points": [1, 2]}', "results_malformed"),
        (None, "results_missing"),
    ],
)
def test_errors_are_typed(tmp_path: Path, data: bytes | None, code: str) -> None:
    path = tmp_path / "results.json"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ManifestError) as raised:
        read_results(path, SCHEMA, 2)
    assert raised.value.code == code
    assert raised.value.report.source == str(path)


def test_the_error_says_where_and_why() -> None:
    _, report = check_results(b'{\n "scores": [1, 2, 3],\n "ticks": 1\n}', SCHEMA, 2)
    assert str(report.errors[0]) == "2:12: error[scores_length]: `scores` has 3 entries for 2 slots. (at /scores)"


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    with path.open("wb") as file:
        file.truncate(10 * 1024**3)
    _, report = check_results(path, SCHEMA, 2)
    assert [issue.code for issue in report.errors] == ["too_large"]


def test_zero_slots() -> None:
    assert read_results(b'{"scores": []}', SCHEMA, 0).scores == ()


LIST = {"type": "array"}
NUMBERS = {"type": "array", "items": {"type": "number"}}


def scores(rule: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"required": ["scores"], "properties": {"scores": rule}, **more}


GOOD: list[dict[str, Any]] = [
    scores({"type": "array", "items": {"type": "integer"}}),
    scores({"type": "array", "prefixItems": [{"type": "number"}]}),
    scores({"type": "array", "items": {"type": ["integer", "number"]}}),
    scores({"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "integer"}]}}),
    scores({"allOf": [LIST, {"items": {"type": "number"}}]}),
    {"$ref": "#/$defs/r", "$defs": {"r": scores(LIST)}},
    {
        "allOf": [{"required": ["scores"]}, {"properties": {"scores": {"$ref": "#/$defs/s"}}}],
        "$defs": {"s": {"type": "array", "items": {"$ref": "#/$defs/n"}}, "n": {"type": "number"}},
    },
    {"properties": {"scores": LIST}, "anyOf": [{"required": ["scores", "a"]}, {"required": ["scores"]}]},
]


@pytest.mark.parametrize("schema", GOOD)
def test_schemas_that_promise_scores(document: dict[str, Any], schema: dict[str, Any]) -> None:
    document["game"]["results_schema"] = schema
    assert check_manifest(document).issues == ()


TEXT = {"s": {"type": "string"}}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"properties": {"scores": NUMBERS}, "anyOf": [{"required": ["scores"]}, {}]}, "scores_not_required"),
    ({"properties": {"scores": NUMBERS}, "not": {"required": ["scores"]}}, "scores_not_required"),
    (scores({"$ref": "#/$defs/s"}, **{"$defs": TEXT}), "scores_not_numbers"),
    (scores({"type": "array", "items": {"$ref": "#/$defs/s"}}, **{"$defs": TEXT}), "scores_not_numbers"),
    (scores({"type": "array", "prefixItems": [{"type": "null"}]}), "scores_not_numbers"),
    (scores({"anyOf": [{"type": "object"}, {"type": "null"}]}), "scores_not_numbers"),
    (scores({"type": "array", "allOf": [{"type": "object"}]}), "scores_not_numbers"),
]


@pytest.mark.parametrize(("schema", "code"), BAD)
def test_schemas_that_do_not(document: dict[str, Any], schema: dict[str, Any], code: str) -> None:
    document["game"]["results_schema"] = schema
    assert {issue.code for issue in check_manifest(document, mode="strict").errors} == {code}


def test_a_schema_full_of_references_is_checked_quickly(document: dict[str, Any]) -> None:
    definitions: dict[str, Any] = {"d15": {}}
    for level in range(15):
        below = {"$ref": f"#/$defs/d{level + 1}"}
        definitions[f"d{level}"] = {"allOf": [below, below, below], "anyOf": [below, below]}
    document["game"]["results_schema"] = {"$ref": "#/$defs/d0", "$defs": definitions}
    assert {issue.code for issue in check_manifest(document, mode="strict").errors} == {"scores_not_required"}


@pytest.mark.parametrize("value", ["1,", "[],", "{},"])
def test_results_of_too_many_values_are_not_parsed(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(*_: object) -> None:
        raise AssertionError("it is parsed")

    monkeypatch.setattr("json.JSONDecoder.decode", parse)
    results, report = check_results(f'{{"scores": [1], "more": [{value * 400_001}1]}}'.encode(), SCHEMA, 1)
    assert results is None
    assert [issue.code for issue in report.errors] == ["too_large"]
    assert "more than 400000 values" in report.errors[0].message


def scores(items: object, **more: object) -> dict[str, Any]:
    return {"type": "object", "properties": {"scores": {"type": "array", "items": items, **more}}}


@pytest.mark.parametrize(
    ("schema", "bounds"),
    [
        ({}, (None, None)),
        (scores({"type": "number"}), (None, None)),
        (scores({"minimum": 0}), (0.0, None)),
        (scores({"minimum": -1, "exclusiveMaximum": 1.5}), (-1.0, 1.5)),
        (scores({"enum": [0, 0.5, 1], "minimum": 0.5}), (0.5, 1.0)),
        (scores({"const": True}), (None, None)),
        (scores({"minimum": float("-inf"), "maximum": 1e400}), (None, None)),
        # Each seat may have its own, and nothing is known of all while one is unbounded
        (scores({"minimum": 0}, prefixItems=[{"minimum": -3, "maximum": 2}]), (-3.0, None)),
        (scores(False, prefixItems=[{"maximum": 2}, {"maximum": 5}]), (None, 5.0)),
        (
            {**scores({"$ref": "#/$defs/points"}), "$defs": {"points": {"allOf": [{"minimum": 0}, {"maximum": 9}]}}},
            (0.0, 9.0),
        ),
        ({"$ref": "#/$defs/all", "$defs": {"all": scores({"maximum": 3})}}, (None, 3.0)),
    ],
)
def test_the_scores_that_a_schema_allows(schema: dict[str, Any], bounds: tuple[float | None, float | None]) -> None:
    assert score_bounds(schema, 2) == bounds
    below = {"properties": {"a/b": schema}}
    assert score_bounds(below, 2) == (None, None)
    if "$ref" not in str(schema):
        assert score_bounds(below, 2, pointer="/a~1b/scores") == bounds
