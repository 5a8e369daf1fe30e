"""Reading and writing manifests. All findings are reported at once, and there is one strict written form.

`load_manifest` is lenient: it loads manifests of every published generation and reports what it filled in or left
out. `mode="strict"`, for manifests to be certified, built or uploaded, accepts only the form that `dump_manifest`
writes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

from ..documents.findings import Finding, Findings, type_word
from ..documents.json_text import MAX_BYTES, JsonDocument, Source, json_report, parse_json, wrap_json
from ..documents.shapes import parse_shape
from ..errors import ManifestError, UsageError
from ..images import BUILD_FIRST
from ..issues import Issue, Report
from ..versions import Published
from ._cross_field_rules import manifest_rules
from ._generations import lift, optional_field
from .game_config import game_config_for, slot_count, validate_game_config
from .game_results import Results, read_results
from .models import JsonObject, Manifest
from .published_versions import published_findings

__all__ = [
    "MANIFEST_NAME",
    "TEMPLATE_NAME",
    "LoadedManifest",
    "Mode",
    "check_manifest",
    "dump_manifest",
    "find_manifest",
    "load_manifest",
    "manifest_sha256",
    "read_document",
]

MANIFEST_NAME = "coworld_manifest.json"
"""File name of a manifest."""

TEMPLATE_NAME = "coworld_manifest_template.json"
"""File name of a template, from which `coworld build` makes a manifest."""

Mode = Literal["read", "strict"]
"""`read`: lenient, to run a manifest; `strict`: only the written form, to certify, build or upload it."""


@dataclass(frozen=True, eq=False)
class LoadedManifest:
    """A manifest that was read, with the findings about it."""

    manifest: Manifest
    """The manifest in its current form."""

    path: Path | None
    """Absolute path of the file it was read from; None if it was given as a value."""

    raw: JsonObject
    """The JSON object as it was read, whatever its generation."""

    mode: Mode
    """The mode it was read in."""

    document: JsonDocument = field(repr=False)
    """The text it was read from."""

    findings: tuple[Finding, ...] = field(repr=False)
    """The findings; `report` has them with lines and columns."""

    @cached_property
    def report(self) -> Report:
        """Warnings and remarks with line and column. It contains no errors."""
        return json_report(self.document, self.findings)

    @property
    def warnings(self) -> tuple[Issue, ...]:
        """The warnings of the report."""
        return self.report.warnings

    @property
    def source(self) -> str:
        """Where it was read from, for messages."""
        return self.document.source

    def game_config(self, variant: str | None = None) -> dict[str, Any]:
        """The config of a variant, or of the certification fixture (see `gameconfig.game_config_for`)."""
        return game_config_for(self.manifest, variant)

    def slot_count(self, config: JsonObject) -> int:
        """The number of slots in an episode with this config (see `gameconfig.slot_count`)."""
        return slot_count(self.manifest, config)

    def validate_game_config(self, config: JsonObject) -> Report:
        """Check a config (see `gameconfig.validate_game_config`)."""
        return validate_game_config(self.manifest, config)

    def read_results(self, source: Path | str | bytes, slots: int) -> Results:
        """Read and check results of this game (see `results.read_results`)."""
        return read_results(source, self.manifest.game.results_schema, slots)

    def __repr__(self) -> str:
        said = len(self.findings)
        remarks = f", {said} remark{'s' if said != 1 else ''}" if said else ""
        return f"<LoadedManifest {self.manifest!r:.200} from {self.source}{remarks}>"

    def _repr_html_(self) -> str:
        return self.manifest._repr_html_()  # pyright: ignore[reportPrivateUsage]


def load_manifest(
    source: Source, *, mode: Mode = "read", template: bool = False, published: Published | None = None
) -> LoadedManifest:
    """Read a manifest.

    Args:
        source: Path of a file or of a directory that contains one, the content as bytes, or the JSON as a Python value.
        mode: `read` (lenient) or `strict`.
        template: Accept a template as it is, for running it without images: a missing version becomes
            `0.0.0.dev0`, and placeholders are allowed for images.
        published: A published version; anything that version would refuse is also an error.

    Returns:
        The manifest, with a report of warnings and remarks.

    Raises:
        ManifestError: With a report of all issues, if any of them is an error.
        UsageError: If the path itself is wrong (codes `manifest_not_found`, `manifest_unreadable`,
            `manifest_not_local`).
    """
    manifest, document, path, findings = _examine(source, mode=mode, template=template, published=published)
    if manifest is None:
        raise ManifestError(json_report(document, findings.items, dropped=findings.dropped))
    return LoadedManifest(
        manifest=manifest,
        path=path,
        raw=cast("dict[str, Any]", document.value),
        mode=mode,
        document=document,
        findings=tuple(findings.items),
    )


def check_manifest(
    source: Source, *, mode: Mode = "read", template: bool = False, published: Published | None = None
) -> Report:
    """Like `load_manifest`, but returns only the report. Invalid content never raises.

    Raises:
        UsageError: The path itself is wrong.
    """
    _, document, _, findings = _examine(source, mode=mode, template=template, published=published)
    return json_report(document, findings.items, dropped=findings.dropped)


def find_manifest(path: Path | str, *, template: bool = False) -> Path:
    """Find the manifest that a path refers to: the file itself, or the one in the directory.

    In a directory, looks for `coworld_manifest.json`, then `dist/coworld_manifest.json` (where `coworld build`
    writes it), then `coworld_manifest_template.json` if templates are accepted.

    Args:
        path: A file or a directory.
        template: Accept a template.

    Raises:
        UsageError: Codes `manifest_not_found` or `manifest_not_local`.
    """
    text = str(path)
    if text.startswith("file://"):
        from urllib.parse import unquote, urlsplit

        path = Path(unquote(urlsplit(text).path))
    elif "://" in text:
        raise UsageError(f"{text} is not a file on this machine.", code="manifest_not_local", hint="Download it first.")
    elif text.lstrip().startswith("{"):
        raise UsageError(
            "A path is expected, not the text of a manifest.",
            code="manifest_not_found",
            hint="Give the content as bytes, or as a dict.",
        )
    path = Path(path)
    try:
        if path.is_dir():
            return _in_directory(path, template=template)
        exists = path.exists()
    except (OSError, ValueError):
        exists = False
    if not exists:
        hint = f"A directory that contains {MANIFEST_NAME} works, too."
        raise UsageError(f"There is no file {path}.", code="manifest_not_found", hint=hint)
    return path


def _in_directory(path: Path, *, template: bool) -> Path:
    for name in (MANIFEST_NAME, f"dist/{MANIFEST_NAME}", *([TEMPLATE_NAME] if template else [])):
        if (path / name).is_file():
            return path / name
    if (path / TEMPLATE_NAME).is_file():
        raise UsageError(
            f"{path} contains a template, but no {MANIFEST_NAME}.",
            code="manifest_not_found",
            hint=BUILD_FIRST,
        )
    hint = f"Name the file, or a directory that contains {MANIFEST_NAME} or {TEMPLATE_NAME}."
    raise UsageError(f"{path} is a directory without a {MANIFEST_NAME}.", code="manifest_not_found", hint=hint)


def dump_manifest(manifest: Manifest, *, mode: Mode = "strict", template: bool = False) -> str:
    """The written form of a manifest: JSON with an indent of 2, without nulls, and with a newline at the end.

    Args:
        manifest: The manifest.
        mode: Which rules it has to satisfy. Whatever a lenient read ignored is written back, so the strict rules
            refuse it: nothing is lost silently.
        template: Allow placeholders for images.

    Raises:
        ManifestError: If it breaks the rules, with all issues.
    """
    value = _written(manifest)
    for place, kept in manifest.kept:
        _put_back(value, place, kept)
    report = check_manifest(value, mode=mode, template=template)
    if not report.ok:
        raise ManifestError(report)
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def manifest_sha256(manifest: Manifest) -> str:
    """Digest of a manifest's content, independent of key order, nulls and formatting."""
    value = _written(manifest)
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_document(source: Source, *, template: bool = False) -> tuple[JsonDocument, Path | None]:
    """Read a source as a JSON document; return it with the file it was read from, if any.

    Raises:
        UsageError: The path itself is wrong.
    """
    if isinstance(source, bytes | bytearray):
        return parse_json(source, source="manifest"), None
    if isinstance(source, Mapping):
        return wrap_json(source, source="manifest"), None
    path = find_manifest(source, template=template)
    try:
        with path.open("rb") as file:
            # Reading one byte more than allowed shows that there is more, without reading all of it.
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror or error}.", code="manifest_unreadable", hint="Check the path."
        ) from error
    return parse_json(data, source=str(path)), path.absolute()


def _examine(
    source: Source, *, mode: Mode, template: bool, published: Published | None
) -> tuple[Manifest | None, JsonDocument, Path | None, Findings]:
    document, path = read_document(source, template=template)
    findings = Findings(list(document.findings))
    manifest = None
    if document.usable:
        manifest = examine_manifest(document.value, findings, mode=mode, template=template, published=published)
    return (None if findings.failed else manifest), document, path, findings


def examine_manifest(
    value: object, findings: Findings, *, mode: Mode, template: bool, published: Published | None = None
) -> Manifest | None:
    """Check a JSON value as a manifest and record the findings; for manifests inside other documents."""
    if not isinstance(value, dict):
        message = f"A manifest is a JSON object, not {type_word(value)}."
        findings.add("not_an_object", (), message)
        return None
    strict = mode == "strict"
    lifted = lift(cast("dict[str, Any]", value), strict=strict, template=template)
    findings.extend(lifted.findings.items)
    manifest, shape = parse_shape(
        Manifest, lifted.document, strict=strict, optional=optional_field, left_out=lifted.kept
    )
    findings.extend(shape)
    # The strict rules are today's, and no published version has them
    findings.extend(manifest_rules(lifted.document, strict=strict and published is None, template=template).items)
    if published is not None:
        findings.extend(published_findings(lifted.document, published))
    return manifest.keeping(lifted.kept) if manifest is not None else None


def _written(manifest: Manifest) -> dict[str, Any]:
    value = manifest.model_dump(mode="json", by_alias=True)
    _drop_absent(value, manifest)
    return value


def _put_back(value: Any, place: tuple[str | int, ...], kept: Any) -> None:
    """Restore an unknown part at its original path, unless its parent is gone."""
    for part in place[:-1]:
        below = isinstance(part, int) and isinstance(value, list) and part < len(cast("list[Any]", value))
        if not below and not (isinstance(value, dict) and part in value):
            return
        value = cast("Any", value)[part]
    if isinstance(value, dict):
        cast("dict[Any, Any]", value).setdefault(place[-1], kept)


def _drop_absent(value: dict[str, Any], model: object) -> None:
    """Remove nulls from the model's own fields. Inside configs and schemas they are significant and stay."""
    from pydantic import BaseModel

    if not isinstance(model, BaseModel):
        return
    for name, info in type(model).model_fields.items():
        key = info.alias or name
        item = getattr(model, name)
        if item is None:
            value.pop(key, None)
        elif isinstance(item, BaseModel):
            _drop_absent(value[key], item)
        elif isinstance(item, tuple):
            for below, entry in zip(value[key], cast("tuple[object, ...]", item), strict=True):
                if isinstance(below, dict):
                    _drop_absent(cast("dict[str, Any]", below), entry)
