"""Schemas that would take too long, or forever, are refused within a budget; large and deep ones that end are read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coworld_core import check_manifest, check_results, load_manifest

Document = dict[str, Any]

MOOD = "/game/config_schema/properties/mood"
HERE = {"$ref": "#/properties/mood"}
LOOPS: list[tuple[dict[str, Any], str]] = [
    (HERE, MOOD),
    ({"not": HERE}, MOOD),
    ({"allOf": [HERE]}, MOOD),
    ({"anyOf": [{"type": "null"}, HERE]}, MOOD),
    ({"oneOf": [HERE, {"type": "null"}]}, MOOD),
    ({"if": HERE}, MOOD),
    ({"if": {"type": "string"}, "then": HERE, "else": {}}, MOOD),
    ({"if": {"type": "null"}, "then": {}, "else": HERE}, MOOD),
    ({"dependentSchemas": {"a": HERE}}, MOOD),
    ({"$dynamicAnchor": "mood", "not": {"$dynamicRef": "#mood"}}, MOOD),
    ({"not": {"$ref": "#"}, "$id": "https://example.org/mood"}, MOOD),
    ({"$ref": "#/$defs/again"}, "/game/config_schema/$defs/again"),
    ({"$ref": "#/$defs/one"}, "/game/config_schema/$defs/one"),
]
DEFINED: dict[str, dict[str, Any]] = {
    "again": {"again": {"not": {"$ref": "#/$defs/again"}}},
    "one": {"one": {"$ref": "#/$defs/two"}, "two": {"not": {"$ref": "#/$defs/one"}}},
}


@pytest.mark.parametrize(("loop", "pointer"), LOOPS, ids=lambda value: json.dumps(value)[:40])
def test_schemas_that_refer_to_themselves_in_place(document: Document, loop: dict[str, Any], pointer: str) -> None:
    schema = document["game"]["config_schema"]
    schema["properties"]["mood"] = loop
    schema["$defs"] |= DEFINED.get(pointer.rpartition("/")[2], {})
    report = check_manifest(document)
    assert [(issue.code, issue.pointer) for issue in report.errors] == [("schema_too_costly", pointer)]


@pytest.mark.parametrize("keyword", ["not", "allOf", "anyOf", "oneOf", "if", "$ref"])
def test_a_whole_schema_that_refers_to_itself_in_place(keyword: str) -> None:
    root = {"$ref": "#"}
    loop = root if keyword == "$ref" else {keyword: [root] if keyword.endswith("Of") else root}
    _, report = check_results(b'{"scores": [1, 2]}', {"required": ["scores"], **loop}, 2)
    assert [issue.code for issue in report.errors] == ["results_schema_invalid"]


def chain(length: int) -> dict[str, Any]:
    return {f"link{number}": {"allOf": [{"$ref": f"#/$defs/link{number + 1}"}] * 2} for number in range(length)}


def test_a_long_way_in_place(document: Document) -> None:
    """Forty schemas that each ask for the next twice."""
    schema = document["game"]["config_schema"]
    schema["$defs"] |= {**chain(40), "link40": {}}
    report = check_manifest(document)
    assert {issue.code for issue in report.errors} == {"schema_too_costly"}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


TREE: list[dict[str, Any]] = [
    {"items": {"$ref": "#/$defs/tree"}},
    {"anyOf": [{"type": "number"}, {"items": {"$ref": "#/$defs/tree"}}]},
    {"properties": {"x": {"$ref": "#/$defs/tree"}}, "items": {"$ref": "#/$defs/tree"}},
]


@pytest.mark.parametrize("tree", TREE)
def test_a_schema_may_refer_to_itself_for_what_is_inside(tree: dict[str, Any]) -> None:
    schema = {"required": ["scores"], "properties": {"tree": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": tree}}
    results = {"scores": [1, 2], "tree": nested(60)}
    assert check_results(json.dumps(results).encode(), schema, 2)[1].ok


HEAVY: list[dict[str, Any]] = [
    # Twice as much at each level of the value.
    {"$defs": {"tree": {"allOf": [{"items": {"$ref": "#/$defs/tree"}}] * 2}}, "$ref": "#/$defs/tree"},
    # So deep in place at each level of the value that the stack would not be enough.
    {"$defs": {**chain(12), "link12": {"items": {"$ref": "#/$defs/link0"}}}, "$ref": "#/$defs/link0"},
]


@pytest.fixture
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the steps, for what takes seconds to spend them; the keywords' test below spends them all."""
    monkeypatch.setattr("coworld_core.documents.json_schema._validator._MAX_STEPS", 100_000)


@pytest.mark.slow
@pytest.mark.usefixtures("small_budget")
@pytest.mark.parametrize("heavy", HEAVY, ids=["wide", "deep"])
def test_schemas_that_are_too_much_for_one_value(heavy: dict[str, Any]) -> None:
    schema = {"required": ["scores"], "$defs": heavy["$defs"], "properties": {"tree": {"$ref": heavy["$ref"]}}}
    results = {"scores": [1, 2], "tree": nested(60)}
    _, report = check_results(json.dumps(results).encode(), schema, 2)
    assert [issue.code for issue in report.errors] == ["schema_too_costly"]


COSTLY = {
    "unevaluated": ({"contains": True, "unevaluatedItems": False}, [0] * 50_000),
    "enum": ({"items": {"enum": list(range(5_000))}}, [4_999] * 5_000),
    "words": ({"anyOf": [{"type": "string"}] * 1_500}, ["x" * 100_000]),
    "pattern": ({"items": {"pattern": "^(a?b?){100}$"}}, ["a" * 300_000] * 100),
}
"""Keywords whose every step costs more than those of others; all but the first spend the budget in seconds."""


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("enum", "words", "pattern")]


@pytest.mark.parametrize("name", ["unevaluated", *SLOW])
def test_keywords_that_cost_more_than_others(name: str) -> None:
    keywords, value = COSTLY[name]
    schema = {"required": ["scores"], "properties": {"list": keywords}}
    text = json.dumps({"scores": [1, 2], "list": value}).encode()
    _, report = check_results(text, schema, 2, max_bytes=len(text))
    assert [issue.code for issue in report.errors] == ["schema_too_costly"]


def test_unlike_elements_are_many_at_little_cost() -> None:
    schema = {"required": ["scores"], "properties": {"list": {"uniqueItems": True}}}
    results = {"scores": [1, 2], "list": [{"at": number} for number in range(50_000)]}
    assert check_results(json.dumps(results).encode(), schema, 2)[1].ok


@pytest.mark.slow
@pytest.mark.usefixtures("small_budget")
def test_schemas_that_are_too_large(document: Document) -> None:
    document["game"]["config_schema"]["properties"]["mood"] = {"allOf": [True] * 3_000}
    report = check_manifest(document)
    assert [(issue.code, issue.pointer) for issue in report.errors] == [("schema_too_costly", "/game/config_schema")]


def test_more_unknown_keys_than_are_put_into_words(document: Document) -> None:
    document["game"] |= {f"key {number}": 1 for number in range(3_000)}
    report = check_manifest(document)
    assert report.ok
    assert load_manifest(document).manifest.game.name == "tug"
    document["game"]["name"] = 7
    assert {issue.code for issue in check_manifest(document).errors} == {"wrong_type"}


def test_a_schema_as_deep_as_a_document_may_be(document: Document) -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(28):
        deep = {"properties": {"x": deep}}
    document["game"]["config_schema"]["properties"]["mood"] = deep
    assert check_manifest(document).ok
