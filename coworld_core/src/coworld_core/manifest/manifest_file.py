"""Reading and writing manifests. All findings are reported at once, and there is one strict written form.

`load_manifest` is lenient: it loads manifests of every published generation and reports what it filled in or left
out. `mode="strict"`, for manifests to be certified, built or uploaded, accepts only the form that `dump_manifest`
writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from ..documents.canonical_json import json_digest
from ..documents.findings import Findings, type_word
from ..documents.json_text import MAX_BYTES, JsonDocument, Source, json_report, parse_json, wrap_json
from ..documents.shapes import parse_shape
from ..errors import ManifestError, UsageError
from ..hints import Hint
from ..issues import Issue, Report
from ..text.phrases import listed
from ..versions import Published
from ._cross_field_rules import manifest_rules
from ._generations import lift, optional_field
from .models import Manifest
from .published_versions import published_findings

__all__ = [
    "MANIFEST_NAME",
    "TEMPLATE_NAME",
    "LoadedManifest",
    "Mode",
    "Preference",
    "check_manifest",
    "dump_manifest",
    "find_manifest",
    "load_manifest",
    "manifest_sha256",
    "manifest_value",
    "read_document",
]

MANIFEST_NAME = "coworld_manifest.json"
"""File name of a manifest."""

TEMPLATE_NAME = "coworld_manifest_template.json"
"""File name of a template, from which `coworld build` makes a manifest."""

Mode = Literal["read", "strict"]
"""`read`: lenient, to run a manifest; `strict`: only the written form, to certify, build or upload it."""


Preference = Literal["newer", "manifest", "template"]
"""Which file is used if a directory contains a built manifest and a template: the manifest unless the template is
newer, always the manifest, or always the template."""


@dataclass(frozen=True, kw_only=True)
class LoadedManifest:
    """A manifest that was read."""

    manifest: Manifest
    """The manifest in its current form."""
    report: Report
    """Warnings and remarks with line and column. It contains no errors."""
    path: Path | None = None
    """Absolute path of the file it was read from; None if it was given as a value, or fetched."""

    @property
    def source(self) -> str:
        """Where it was read from, for messages: a path, a name, or an address without passwords and queries."""
        return self.report.source

    def __repr__(self) -> str:
        said = len(self.report.issues)
        remarks = f", {said} remark{'s' if said != 1 else ''}" if said else ""
        return f"<LoadedManifest {self.manifest!r:.200} from {self.source}{remarks}>"

    def _repr_html_(self) -> str:
        return self.manifest._repr_html_()  # pyright: ignore[reportPrivateUsage]


def load_manifest(
    source: Source,
    *,
    mode: Mode = "read",
    template: bool = False,
    prefer: Preference = "newer",
    published: Published | None = None,
) -> LoadedManifest:
    """Read a manifest.

    Args:
        source: Path of a file or of a directory that contains one, the content as bytes, or the JSON as a Python value.
        mode: `read` (lenient) or `strict`.
        template: Accept a template as it is, for running it without images: a missing version becomes
            `0.0.0.dev0`, and placeholders are allowed for images.
        prefer: Which file to use if a directory contains both a manifest and a template.
        published: A published version; anything that version would refuse is also an error.

    Returns:
        The manifest, with a report of warnings and remarks.

    Raises:
        ManifestError: With a report of all issues, if any of them is an error.
        UsageError: If the path itself is wrong (codes `manifest_not_found`, `manifest_unreadable`,
            `manifest_not_local`).
    """
    manifest, report, path = _examine(source, mode=mode, template=template, prefer=prefer, published=published)
    if manifest is None:
        raise ManifestError(report)
    return LoadedManifest(manifest=manifest, report=report, path=path)


def check_manifest(
    source: Source, *, mode: Mode = "read", template: bool = False, published: Published | None = None
) -> Report:
    """Like `load_manifest`, but returns only the report. Invalid content never raises.

    Raises:
        UsageError: The path itself is wrong.
    """
    return _examine(source, mode=mode, template=template, prefer="newer", published=published)[1]


def find_manifest(
    source: Path | str, *, prefer: Preference = "newer", template: bool = True
) -> tuple[Path, tuple[Issue, ...]]:
    """Find the file that a path refers to, the file itself or that of a directory; returns it with remarks.

    The candidates in a directory are `coworld_manifest.json`, `dist/coworld_manifest.json` (where a build writes it
    beside a template of the first name) and `coworld_manifest_template.json`.

    Args:
        source: An existing file or directory.
        prefer: Which to use if there are both a manifest and a template.
        template: Whether a template is accepted.

    Raises:
        UsageError: There is none (codes `manifest_not_found`, `manifest_not_local`).
    """
    directory = _local_path(source)
    if not directory.is_dir():
        return directory, ()
    built = next((path for path in _built(directory) if path.is_file()), None)
    authored = directory / TEMPLATE_NAME
    if not authored.is_file():
        if built is None or prefer == "template":
            raise _nothing_in(directory, [TEMPLATE_NAME] if prefer == "template" else None)
        return built, ()
    if built is None:
        if not template or prefer == "manifest":
            raise UsageError(
                f"{directory} holds a template, but no {MANIFEST_NAME} that was built from it.",
                code="manifest_not_found",
                hint=Hint("build_directory", "Build it first: build_coworld({directory!r}).", directory=str(directory)),
                context={"path": str(directory)},
            )
        return authored, ()
    newer = authored.stat().st_mtime_ns > built.stat().st_mtime_ns
    rebuild = Hint(
        "build_again", "build_coworld({directory!r}) brings the manifest up to date.", directory=str(directory)
    )
    if prefer == "template":
        return authored, ()
    if newer and template and prefer == "newer":
        message = f"The template is newer than {built.name}, so the template is used."
        return authored, (Issue(code="template_newer", severity="info", message=message, hint=rebuild),)
    if newer:
        message = f"The template is newer than {built.name}, and the older build is used."
        return built, (Issue(code="manifest_older", severity="info", message=message, hint=rebuild),)
    return built, ()


def _built(directory: Path) -> tuple[Path, Path]:
    return directory / MANIFEST_NAME, directory / "dist" / MANIFEST_NAME


def _nothing_in(directory: Path, wanted: list[str] | None) -> UsageError:
    names = wanted or [MANIFEST_NAME, f"dist/{MANIFEST_NAME}", TEMPLATE_NAME]
    below: list[str] = []
    try:
        for entry in sorted(directory.iterdir())[:200]:
            if entry.is_dir() and any((entry / name).is_file() for name in (MANIFEST_NAME, TEMPLATE_NAME)):
                below.append(str(entry))
    except OSError:
        pass
    begin = Hint("name_or_begin_game", "Name the manifest's file itself.")
    hint = f"Did you mean {listed(below, limit=4, word='or')}?" if below else begin
    return UsageError(
        f"{directory} is a directory without a manifest: looked for {listed(names)}.",
        code="manifest_not_found",
        hint=hint,
        context={"path": str(directory), "looked_for": names},
    )


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
    value = manifest_value(manifest)
    for place, kept in manifest.kept:
        _put_back(value, place, kept)
    report = check_manifest(value, mode=mode, template=template)
    if not report.ok:
        raise ManifestError(report)
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def manifest_sha256(manifest: Manifest) -> str:
    """Digest of a manifest's content, independent of key order, nulls and formatting."""
    return json_digest(manifest_value(manifest))


def read_document(source: Source) -> JsonDocument:
    """Read a file, or the content that is given, as a JSON document.

    Raises:
        UsageError: The path itself is wrong.
    """
    if isinstance(source, bytes | bytearray):
        return parse_json(source, source="manifest")
    if isinstance(source, Mapping):
        return wrap_json(source, source="manifest")
    path = _local_path(source)
    try:
        with path.open("rb") as file:
            # Reading one byte more than allowed shows that there is more, without reading all of it.
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror or error}.", code="manifest_unreadable", hint="Check the path."
        ) from error
    return parse_json(data, source=str(path))


def _local_path(path: Path | str) -> Path:
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
        exists = path.exists()
    except (OSError, ValueError):
        exists = False
    if not exists:
        hint = f"A directory that contains {MANIFEST_NAME} works, too."
        raise UsageError(f"There is no file {path}.", code="manifest_not_found", hint=hint)
    return path


def _examine(
    source: Source, *, mode: Mode, template: bool, prefer: Preference, published: Published | None
) -> tuple[Manifest | None, Report, Path | None]:
    path, said = None, ()
    if not isinstance(source, bytes | bytearray | Mapping):
        source, said = find_manifest(source, prefer=prefer, template=template)
        path = source.absolute()
    document = read_document(source)
    findings = Findings(list(document.findings))
    manifest = None
    if document.usable:
        manifest = examine_manifest(document.value, findings, mode=mode, template=template, published=published)
    report = json_report(document, findings.items, dropped=findings.dropped).extended(said)
    return (None if findings.failed else manifest), report, path


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


def manifest_value(manifest: Manifest) -> dict[str, Any]:
    """The content of a manifest as JSON, without nulls and without what a lenient read ignored."""
    value = manifest.model_dump(mode="json", by_alias=True)
    _drop_absent(value, manifest)
    return value


def _put_back(value: Any, path: tuple[str | int, ...], kept: Any) -> None:
    """Restore an unknown part at its original path, unless its parent is gone."""
    for part in path[:-1]:
        below = isinstance(part, int) and isinstance(value, list) and part < len(cast("list[Any]", value))
        if not below and not (isinstance(value, dict) and part in value):
            return
        value = cast("Any", value)[part]
    if isinstance(value, dict):
        cast("dict[Any, Any]", value).setdefault(path[-1], kept)


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
