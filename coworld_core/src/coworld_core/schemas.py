"""The published JSON Schemas: generated from the models, shipped as files beside this module.

Editors and platforms read them. `python -m coworld_core.schemas` regenerates them; a test checks that they match the
models.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from .certificate import Certificate
from .episode.request import JobSpec
from .manifest.models import Manifest
from .role_kinds import ROLE_SECTIONS

__all__ = [
    "SCHEMA_FILES",
    "certificate_schema",
    "episode_request_schema",
    "manifest_schema",
    "model_schema",
    "schema_path",
    "write_schemas",
]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_PUBLISHED_NAMES = {
    "Achievement": "CoworldAchievement",
    "CertificationFixture": "CoworldCertificationFixture",
    "CertificationPlayer": "CoworldCertificationPlayer",
    "DocPage": "CoworldDocPage",
    "Docs": "CoworldDocs",
    "GameLog": "CoworldGameLog",
    "GameManifest": "CoworldGameManifest",
    "LogPanel": "CoworldLogPanel",
    "Manifest": "CoworldManifest",
    "Memory": "CoworldMemory",
    "Promo": "CoworldPromo",
    "ProtocolDocs": "CoworldProtocolDocs",
    "ReplayViewer": "CoworldReplayViewer",
    "ReporterReference": "CoworldReporterReference",
    "ResourceLimits": "CoworldResourceLimits",
    "ResourceRequests": "CoworldResourceRequests",
    "Resources": "CoworldRunnableResources",
    "RoleRunnable": "CoworldManifestRoleSpec",
    "Runnable": "CoworldRunnableSpec",
    "Startup": "CoworldStartup",
    "TextDoc": "CoworldTextDoc",
    "UriDoc": "CoworldUriDoc",
    "Variant": "CoworldVariant",
    "WasmReporter": "CoworldWasmReporter",
}
"""Names of `$defs` as published, by the names of the models."""

_FUTURE_REQUIRED = ("diagnoser", "optimizer")


def manifest_schema() -> dict[str, Any]:
    """The JSON Schema of `coworld_manifest.json`."""
    schema = model_schema(Manifest, title="Coworld Manifest", names=_PUBLISHED_NAMES)
    _annotate_manifest(schema, cast("dict[str, Any]", schema["$defs"]))
    return schema


def episode_request_schema() -> dict[str, Any]:
    """The JSON Schema of an episode request."""
    schema = model_schema(JobSpec, title="Coworld Episode Job Spec", names=_PUBLISHED_NAMES)
    definitions = cast("dict[str, Any]", schema["$defs"])
    _annotate_manifest(definitions["CoworldManifest"], definitions)
    players = cast("dict[str, Any]", schema["properties"]["players"])
    players["items"] = {**players["items"], "properties": {"type": {"const": "player"}}}
    return schema


def certificate_schema() -> dict[str, Any]:
    """The JSON Schema of `certificate.json`."""
    return model_schema(Certificate, title="Coworld Certificate")


def model_schema(model: type[BaseModel], *, title: str, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The JSON Schema of a model in its published form: with a title and a dialect, without pydantic's field titles.

    Args:
        model: The model.
        title: Title of the document.
        names: Other names for definitions, by model name.
    """
    schema = model.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    renamed = cast("dict[str, Any]", _renamed(schema, names or {}))
    return {"$schema": DIALECT, "title": title, **{key: value for key, value in renamed.items() if key != "title"}}


SCHEMA_FILES: dict[str, Callable[[], dict[str, Any]]] = {
    "certificate.schema.json": certificate_schema,
    "coworld_manifest.schema.json": manifest_schema,
    "episode_request.schema.json": episode_request_schema,
}
"""The published files, each with the function that generates it."""


def schema_path(name: str) -> Path:
    """The shipped file of a schema.

    Args:
        name: A key of `SCHEMA_FILES`.

    Raises:
        KeyError: There is no such schema.
    """
    if name not in SCHEMA_FILES:
        raise KeyError(name)
    return Path(__file__).parent / "schemas" / name


def write_schemas(directory: Path | None = None) -> tuple[Path, ...]:
    """Write all schema files.

    Args:
        directory: The target directory; by default the one they are shipped in.

    Returns:
        The files written.
    """
    written: list[Path] = []
    for name, generate in SCHEMA_FILES.items():
        path = directory / name if directory is not None else schema_path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(generate(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        written.append(path)
    return tuple(written)


def _annotate_manifest(schema: dict[str, Any], definitions: dict[str, Any]) -> None:
    properties = cast("dict[str, dict[str, Any]]", schema["properties"])
    for section in ROLE_SECTIONS:
        role = properties[section]
        role["markdownDescription"] = f"{role['description']} See [docs/roles](docs/roles/{section.upper()}.md)."
        role["x-coworld-role-doc"] = f"docs/roles/{section.upper()}.md"
        if section != "reporter":
            role["items"] = {**role["items"], "properties": {"type": {"const": section}}}
        if section in _FUTURE_REQUIRED:
            role["$comment"] = "Optional now; a later version will require it."
            role["x-coworld-future-required"] = True
    # anyOf, not oneOf: its errors are about the form that was meant, and do not only say that none fits
    forms = cast("list[dict[str, Any]]", properties["reporter"]["items"].pop("oneOf"))
    properties["reporter"]["items"]["anyOf"] = [
        {**form, "properties": {"type": {"const": "reporter"}}} if form["$ref"].endswith("RoleSpec") else form
        for form in forms
    ]
    entry = cast("dict[str, Any]", definitions["CoworldManifestRoleSpec"])
    entry["required"] = [name for name in entry["required"] if name != "image"]
    entry["oneOf"] = [{"required": ["image"]}, {"required": ["file"]}]
    game = cast("dict[str, dict[str, Any]]", definitions["CoworldGameManifest"]["properties"])
    game["runnable"] = {**game["runnable"], "properties": {"type": {"const": "game"}}}


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """A copy with published definition names, and without the titles that pydantic derives from field names."""
    if isinstance(value, list):
        return [_renamed(item, names) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    result: dict[str, Any] = {}
    for key, item in cast("dict[str, Any]", value).items():
        if key == "title" and isinstance(item, str):
            continue
        if key == "$ref" and isinstance(item, str):
            name = item.removeprefix("#/$defs/")
            result[key] = f"#/$defs/{names.get(name, name)}"
        elif key in ("$defs", "properties") and isinstance(item, dict):
            # The keys are names, not keywords.
            entries = cast("dict[str, Any]", item)
            result[key] = {
                (names.get(name, name) if key == "$defs" else name): _renamed(entry, names)
                for name, entry in (sorted(entries.items()) if key == "$defs" else entries.items())
            }
        elif key == "mapping" and isinstance(item, dict):
            result[key] = {
                tag: f"#/$defs/{names.get(name := str(ref).removeprefix('#/$defs/'), name)}"
                for tag, ref in cast("dict[str, Any]", item).items()
            }
        else:
            result[key] = _renamed(item, names)
    return result


if __name__ == "__main__":
    for written_path in write_schemas():
        print(written_path)
