"""What holds for any document: whatever it is, it gets a report; and writing a manifest loses nothing."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.full import FULL
from support.manifests import lost

from coworld_core import (
    Report,
    build_request,
    check_manifest,
    check_request,
    check_results,
    dump_manifest,
    load_manifest,
)
from coworld_core.documents.findings import Finding
from coworld_core.documents.json_text import json_report, parse_json
from coworld_core.errors import ManifestError, UsageError
from coworld_core.ids import id_problem
from coworld_core.images import ImageRef, image_problem
from coworld_core.issue_codes import ISSUE_CODES
from coworld_core.manifest.manifest_file import Mode, manifest_sha256
from coworld_core.ports import extra_ports_problems, parse_extra_ports

MANIFESTS = int(os.environ.get("COWORLD_TEST_MANIFESTS", "500" if FULL or os.environ.get("CI") == "true" else "150"))
"""How many mutated manifests are written again; 20 000 and more by hand."""
VERSIONS = ("0.1.0", "0.1.7", "0.1.26", "0.1.64")
MODES: tuple[Mode, ...] = ("read", "strict")

thorough = settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
words = st.sampled_from(
    ["game", "type", "$ref", "#", "#/$defs/a", "player", "scores", "tokens", "minItems", "required", "properties"]
)
values = st.recursive(
    scalars | words,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(words | st.text(max_size=8), below, max_size=4),
    max_leaves=12,
)


def well_formed(report: Report) -> None:
    for issue in report.issues:
        assert issue.code in ISSUE_CODES
        assert issue.message
        assert issue.message.isprintable()
        assert len(issue.message) < 1000
        assert not issue.pointer or issue.pointer.startswith("/")
    json.dumps(report.model_dump(mode="json"), ensure_ascii=False).encode()


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    if isinstance(value, dict):
        for key, below in value.items():
            yield from places(below, (*path, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from places(below, (*path, index))


def mutated(data: st.DataObject, document: dict[str, Any]) -> Any:
    """A document with up to three places replaced, removed or renamed."""
    result: Any = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        if not isinstance(result, dict):
            return result
        path = data.draw(st.sampled_from(list(places(result))))
        if not path:
            result = data.draw(values)
            continue
        place = result
        for part in path[:-1]:
            place = place[part]
        action = data.draw(st.sampled_from(["replace", "remove", "rename"]))
        if action == "remove":
            del place[path[-1]]
        elif action == "rename" and isinstance(place, dict):
            place[data.draw(words | st.text(max_size=8))] = place.pop(path[-1])
        else:
            place[path[-1]] = data.draw(values)
    return result


@thorough
@given(values)
def test_any_value_gets_a_report(value: Any) -> None:
    well_formed(check_manifest({"game": value}))
    well_formed(check_request({"manifest": value, "game_config": value, "players": value}))
    if isinstance(value, dict):
        well_formed(check_manifest(value))
        well_formed(check_manifest(value, mode="strict", template=True))


@thorough
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_get_a_report(data: bytes) -> None:
    well_formed(check_manifest(data))
    well_formed(check_request(data))
    results, report = check_results(data, {"required": ["scores"]}, 2)
    well_formed(report)
    assert (results is None) == (not report.ok)


@thorough
@given(values)
def test_json_is_read_as_it_is(value: Any) -> None:
    text = json.dumps(value)
    document = parse_json(text)
    well_formed(document.report())
    if document.usable:
        assert document.value == json.loads(text)
    else:
        assert document.findings


@thorough
@given(values, st.sampled_from([None, 1, 4]), st.data())
def test_positions_do_not_depend_on_what_is_passed_over(value: Any, indent: int | None, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(list(places(value))))
    text = json.dumps(value, indent=indent)
    finding = Finding(code="wrong_type", path=path, message="…", at_key=data.draw(st.booleans()))
    # Equal keys make it look at everything
    everything = Finding(code="duplicate_key", path=(), message="…")
    found = {issue.code: issue for issue in json_report(parse_json(text), [finding]).issues}
    known = {issue.code: issue for issue in json_report(parse_json(text), [finding, everything, *_all(value)]).issues}
    assert found["wrong_type"] == known["wrong_type"]


def _all(value: Any) -> Iterator[Finding]:
    return (Finding(code=f"other_{number}", path=path, message="…") for number, path in enumerate(places(value)))


@thorough
@given(data=st.data())
def test_a_damaged_manifest_gets_a_report(data: st.DataObject, document: dict[str, Any]) -> None:
    broken = mutated(data, document)
    text = json.dumps(broken).encode()
    read, strict = check_manifest(text), check_manifest(text, mode="strict", template=True)
    well_formed(read)
    well_formed(strict)
    for report in (read, strict):
        assert all(issue.line for issue in report.issues if issue.code not in ("too_many_issues", "empty_document"))
    if strict.ok:
        assert check_manifest(text, template=True).ok


@pytest.mark.slow
@settings(thorough, max_examples=MANIFESTS)
@given(data=st.data())
def test_loaded_manifest_is_written_completely(
    data: st.DataObject, generation: Callable[[str], dict[str, Any]]
) -> None:
    broken = mutated(data, generation(data.draw(st.sampled_from(VERSIONS))))
    text = json.dumps(broken).encode()
    for mode in MODES:
        try:
            loaded = load_manifest(text, mode=mode)
        except ManifestError as error:
            well_formed(error.report)
            continue
        written = dump_manifest(loaded.manifest, mode=mode)
        assert lost(broken, json.loads(written)) == set()
        again = load_manifest(written.encode(), mode=mode).manifest
        assert again == loaded.manifest
        assert manifest_sha256(again) == manifest_sha256(loaded.manifest)
        if mode == "strict":
            assert build_request(again).players


@thorough
@given(data=st.data())
def test_a_damaged_request_gets_a_report(data: st.DataObject, document: dict[str, Any]) -> None:
    body = json.loads(build_request(load_manifest(document).manifest).model_dump_json(by_alias=True))
    well_formed(check_request(json.dumps(mutated(data, body)).encode()))


@thorough
@given(data=st.data())
def test_any_results_get_a_report(data: st.DataObject, document: dict[str, Any]) -> None:
    schema = mutated(data, document["game"]["results_schema"])
    value = data.draw(values | st.fixed_dictionaries({"scores": st.lists(st.floats() | st.integers(), max_size=3)}))
    results, report = check_results(json.dumps(value).encode(), schema if isinstance(schema, dict) else {}, 2)
    well_formed(report)
    assert (results is None) == (not report.ok)
    if results is not None:
        assert len(results.scores) == 2


@thorough
@given(st.text(max_size=30))
def test_any_text_as_a_value(text: str) -> None:
    if extra_ports_problems(text):
        with pytest.raises(UsageError):
            parse_extra_ports(text)
    else:
        assert parse_extra_ports(text)
    if id_problem(text) is None:
        assert "/" not in text
        assert text not in ("", ".", "..")
    if image_problem(text) is None:
        assert not text.startswith("-")
        ImageRef.parse(text)


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_positions_in_long_documents(document: dict[str, Any], size: int) -> None:
    """Line and column are right however much text stands before them."""
    document = {"padding": ["ä\n" * 3] * size, **document}
    document["variants"][1]["id"] = "a/b"
    text = json.dumps(document, indent=1, ensure_ascii=False)
    issue = check_manifest(text.encode()).errors[0]
    assert issue.line is not None
    assert issue.column is not None
    assert text.splitlines()[issue.line - 1][issue.column - 1 :].startswith('"a/b"')
