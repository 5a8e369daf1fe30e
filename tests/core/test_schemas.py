"""The published schema files: generated, annotated, and right about the same documents as the models."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from coworld_core import build_request, load_manifest, manifest_schema
from coworld_core.role_kinds import ROLE_SECTIONS
from coworld_core.schemas import SCHEMA_FILES, episode_request_schema, schema_path, write_schemas

DEFINITIONS = {
    "CoworldAchievement",
    "CoworldCertificationFixture",
    "CoworldCertificationPlayer",
    "CoworldDocPage",
    "CoworldDocs",
    "CoworldGameLog",
    "CoworldGameManifest",
    "CoworldLogPanel",
    "CoworldManifestRoleSpec",
    "CoworldMemory",
    "CoworldPromo",
    "CoworldProtocolDocs",
    "CoworldReplayViewer",
    "CoworldReporterReference",
    "CoworldResourceLimits",
    "CoworldResourceRequests",
    "CoworldRunnableResources",
    "CoworldRunnableSpec",
    "CoworldStartup",
    "CoworldTextDoc",
    "CoworldUriDoc",
    "CoworldVariant",
    "CoworldWasmReporter",
}


@pytest.mark.parametrize("name", SCHEMA_FILES)
def test_files_are_what_is_generated(name: str, tmp_path: Path) -> None:
    """Write them again with `python -m coworld_core.schemas`."""
    write_schemas(tmp_path)
    assert schema_path(name).read_text(encoding="utf-8") == (tmp_path / name).read_text(encoding="utf-8")


def test_there_are_no_other_files() -> None:
    shipped = {path.name for path in schema_path("coworld_manifest.schema.json").parent.iterdir()}
    assert shipped == set(SCHEMA_FILES)


def test_unknown_schema() -> None:
    with pytest.raises(KeyError):
        schema_path("../manifest.py")


@pytest.mark.parametrize("name", SCHEMA_FILES)
def test_files_are_schemas(name: str) -> None:
    schema = json.loads(schema_path(name).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "$id" not in schema


def test_published_names_and_annotations() -> None:
    schema = manifest_schema()
    assert schema["title"] == "Coworld Manifest"
    assert set(schema["$defs"]) == DEFINITIONS
    assert schema["required"] == ["game", "player", "variants", "certification"]
    for section in ROLE_SECTIONS:
        assert schema["properties"][section]["x-coworld-role-doc"] == f"docs/roles/{section.upper()}.md"
        assert schema["properties"][section]["markdownDescription"]
    for section in ("diagnoser", "optimizer"):
        assert schema["properties"][section]["x-coworld-future-required"] is True
        assert schema["properties"][section]["$comment"]
    runnable = schema["$defs"]["CoworldGameManifest"]["properties"]["runnable"]
    assert runnable["properties"]["type"] == {"const": "game"}
    request = episode_request_schema()
    assert request["title"] == "Coworld Episode Job Spec"
    assert set(request["$defs"]) == {*DEFINITIONS, "CoworldManifest"}
    assert request["required"] == ["manifest", "game_config", "players"]
    assert request["properties"]["players"]["items"]["properties"]["type"] == {"const": "player"}


def test_every_property_has_a_description() -> None:
    def check(schema: dict[str, Any], where: str) -> None:
        for name, rule in schema.get("properties", {}).items():
            assert rule.get("description"), f"{where}.{name}"

    for generate in SCHEMA_FILES.values():
        schema = generate()
        check(schema, "")
        for name, definition in schema["$defs"].items():
            check(definition, name)


def test_the_schema_accepts_what_the_models_accept(
    document: dict[str, Any], generation: Callable[[str], dict[str, Any]]
) -> None:
    for current in (generation("0.1.26"), generation("0.1.64")):
        jsonschema.validate(current, manifest_schema(), jsonschema.Draft202012Validator)
    jsonschema.validate(document, manifest_schema(), jsonschema.Draft202012Validator)
    request = build_request(load_manifest(document).manifest)
    body = json.loads(request.model_dump_json(by_alias=True))
    jsonschema.validate(body, episode_request_schema(), jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(colour=1),
        lambda d: d["game"].pop("docs"),
        lambda d: d["game"]["runnable"].update(type="player"),
        lambda d: d["player"][0].update(type="grader"),
        lambda d: d["player"][0].update(id="../x"),
        lambda d: d["player"][0].update(image="-x"),
        lambda d: d["player"][0].update(image=""),
        lambda d: d["player"][0]["env"].update({"A=B": "1"}),
        lambda d: d["game"]["docs"]["readme"].update(type="uri"),
        lambda d: d.update(players_per_user=0),
        lambda d: d.update(variants=[]),
        lambda d: d.update(tags=["one"]),
        lambda d: d["player"][0].update(file="bot.py"),
        lambda d: d["reporter"].append({"wasm": "a.wasm"}),
    ],
)
def test_the_schema_refuses_what_the_models_refuse(
    document: dict[str, Any], change: Callable[[dict[str, Any]], object]
) -> None:
    change(document)
    validator = jsonschema.Draft202012Validator(manifest_schema())
    assert not validator.is_valid(document)
