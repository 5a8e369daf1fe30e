"""The check of what reporters and diagnosers give: zips of strangers, and pages to be shown.

Everything that is wrong is listed at once. An issue's pointer names the entry; its message names it too, and says why.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from ..documents.findings import Finding, pointer, type_word
from ..documents.json_text import JsonDocument, parse_json
from ..documents.records import read_as
from ..documents.shapes import parse_shape
from ..errors import CoworldError, DocumentError
from ..files.zips import ZipReader, ZipTrouble, open_zip
from ..issues import Issue, Report
from ..text.size_text import shown_size
from .player_diagnosis import DIAGNOSIS_MANIFEST, DIAGNOSIS_POINTERS, DiagnosisFindings, DiagnosisManifest
from .report import EVENT_LOG_COLUMNS, REPORT_MANIFEST, REPORT_POINTERS, ReportManifest, pointer_problems
from .safe_render import check_render

__all__ = ["REPORT_LIMIT", "check_diagnosis", "check_report", "read_diagnosis", "read_report"]

REPORT_LIMIT = 512 << 20
"""Most unpacked bytes of a report or a diagnosis."""

_LARGEST = 64 << 20
"""Most bytes of a document or an event log that is read as a whole."""
_MOST_LINES = 20
"""Most wrong lines of a trace that are listed."""
_MAGIC = b"PAR1"
_SAMPLE_MANIFEST = DiagnosisManifest(render="diagnosis.md", findings="findings.json")
"""What is looked for where there is no manifest."""


class _ZipError(CoworldError):
    """A zip is not one, or an entry is damaged."""

    kind = "answer"


def check_report(path: Path, *, limit: int = REPORT_LIMIT) -> Report:
    """Check the zip of a reporter: its entries, its manifest, and whatever the manifest names.

    Args:
        path: The zip.
        limit: Maximum unpacked size in bytes.

    Returns:
        All issues. An error is a reason to refuse the report; information tells its author what will not work.

    Raises:
        UsageError: There is no such file (`path_missing`), or it cannot be read (`path_unreadable`).
        EnvironmentFault: The extra `reports` is not installed (`not_installed`).
    """
    return _checked(path, "report", limit, _report_issues)


def read_report(path: Path, *, limit: int = REPORT_LIMIT) -> ReportManifest:
    """Check the zip of a reporter, and read its manifest.

    Raises:
        UsageError: There is no such file (`path_missing`), or it cannot be read (`path_unreadable`).
        DocumentError: The report is refused (`report_invalid`); the error's report lists all reasons.
        EnvironmentFault: The extra `reports` is not installed (`not_installed`).
    """
    if not (report := check_report(path, limit=limit)).ok:
        raise DocumentError(report, code="report_invalid")
    with open_zip(path, limit=limit, what="report", error=_ZipError) as archive:
        return read_as(ReportManifest, _document(archive, REPORT_MANIFEST), what="manifest of a report")


def check_diagnosis(path: Path, *, limit: int = REPORT_LIMIT) -> Report:
    """Check the zip of a diagnoser: its entries, its findings, and its page if it has one. It need not have a manifest.

    Args:
        path: The zip.
        limit: Maximum unpacked size in bytes.

    Returns:
        All issues, as for `check_report`.

    Raises:
        UsageError: There is no such file (`path_missing`), or it cannot be read (`path_unreadable`).
        EnvironmentFault: The extra `reports` is not installed (`not_installed`).
    """
    return _checked(path, "diagnosis", limit, _diagnosis_issues)


def read_diagnosis(path: Path, *, limit: int = REPORT_LIMIT) -> tuple[DiagnosisManifest, DiagnosisFindings]:
    """Check the zip of a diagnoser, and read its manifest and its findings; both are empty where there are none.

    Raises:
        UsageError: There is no such file (`path_missing`), or it cannot be read (`path_unreadable`).
        DocumentError: The diagnosis is refused (`diagnosis_invalid`); the error's report lists all reasons.
        EnvironmentFault: The extra `reports` is not installed (`not_installed`).
    """
    if not (report := check_diagnosis(path, limit=limit)).ok:
        raise DocumentError(report, code="diagnosis_invalid")
    with open_zip(path, limit=limit, what="diagnosis", error=_ZipError) as archive:
        manifest = _diagnosis_manifest(archive)
        if manifest.findings is None:
            return manifest, DiagnosisFindings()
        return manifest, read_as(DiagnosisFindings, _document(archive, manifest.findings), what="diagnosis")


def _checked(path: Path, what: str, limit: int, check: Callable[[ZipReader], Iterator[Issue]]) -> Report:
    troubles: list[ZipTrouble] = []
    try:
        with open_zip(path, limit=limit, what=what, error=_ZipError, troubles=troubles) as archive:
            issues = [_zip_issue(trouble) for trouble in troubles[:100]] or list(check(archive))
    except _ZipError as error:
        issues = [Issue(code="zip_unsafe", message=error.message)]
    issues.sort(key=lambda issue: ("error", "warning", "info").index(issue.severity))
    return Report(source=str(path), issues=tuple(issues))


def _zip_issue(trouble: ZipTrouble) -> Issue:
    place = pointer((trouble.entry,)) if trouble.entry is not None else ""
    return Issue(code="zip_unsafe", pointer=place, message=f"The zip is not opened: {trouble.why}.")


def _report_issues(archive: ZipReader) -> Iterator[Issue]:
    if REPORT_MANIFEST not in archive.entries:
        yield _issue("entry_missing", REPORT_MANIFEST, "the zip has no such entry, which is to say what is in it")
        return
    manifest, issues = _shape(archive, REPORT_MANIFEST, ReportManifest)
    yield from issues
    yield from _named(archive, REPORT_MANIFEST, manifest, REPORT_POINTERS)


def _diagnosis_issues(archive: ZipReader) -> Iterator[Issue]:
    manifest: Mapping[str, Any] = {}
    if DIAGNOSIS_MANIFEST in archive.entries:
        manifest, issues = _shape(archive, DIAGNOSIS_MANIFEST, DiagnosisManifest)
        yield from issues
    else:
        manifest = _diagnosis_manifest(archive).model_dump()
    yield from _named(archive, DIAGNOSIS_MANIFEST, manifest, DIAGNOSIS_POINTERS)


def _diagnosis_manifest(archive: ZipReader) -> DiagnosisManifest:
    if DIAGNOSIS_MANIFEST in archive.entries:
        return read_as(DiagnosisManifest, _document(archive, DIAGNOSIS_MANIFEST), what="manifest of a diagnosis")
    found = {field: name for field, name in _SAMPLE_MANIFEST.model_dump().items() if name in archive.entries}
    return DiagnosisManifest(**found)


def _named(
    archive: ZipReader, manifest: str, fields: Mapping[str, Any], pointers: Mapping[str, tuple[str, ...]]
) -> Iterator[Issue]:
    """Check what a manifest names."""
    names = {name for name, entry in archive.entries.items() if not entry.is_dir()}
    wrong: set[str] = set()
    for code, what in pointer_problems(fields, pointers, names):
        wrong.add(what.partition(" ")[0])
        yield _issue(code, manifest, what)
    for field in pointers:
        entry = fields.get(field)
        if field in wrong or not isinstance(entry, str):
            continue
        try:
            match field:
                case "render":
                    yield from check_render(entry, names=names, read=lambda name: archive.read(name, limit=_LARGEST))
                case "event_log":
                    yield from _event_log(archive, entry)
                case "trace":
                    yield from _trace(archive, entry)
                case _:
                    yield from _shape(archive, entry, DiagnosisFindings)[1]
        except _ZipError as error:
            yield Issue(code="zip_unsafe", pointer=pointer((entry,)), message=error.message)


def _shape(archive: ZipReader, entry: str, model: type[BaseModel]) -> tuple[Mapping[str, Any], list[Issue]]:
    """The object in an entry, as far as it can be read, and what is wrong with it."""
    document = _document(archive, entry)
    value: object = document.value
    if not document.usable or document.findings:
        return {}, _json_issues(document, entry)
    if not isinstance(value, dict):
        finding = Finding(code="not_an_object", path=(), message=f"An object is expected, not {type_word(value)}.")
        return {}, _json_issues(document, entry, [finding])
    fields = cast("dict[str, Any]", value)
    _, findings = parse_shape(model, fields, strict=True, top=f"the object in {entry}")
    return fields, _json_issues(document, entry, findings)


def _document(archive: ZipReader, entry: str) -> JsonDocument:
    return parse_json(archive.read(entry, limit=_LARGEST), source=entry, max_bytes=_LARGEST, max_values=None)


def _json_issues(document: JsonDocument, entry: str, findings: list[Finding] | None = None) -> list[Issue]:
    return [
        issue.model_copy(update={"pointer": pointer((entry,)), "message": f"{entry}: {issue.message}"})
        for issue in document.report(findings).issues
    ]


def _trace(archive: ZipReader, entry: str) -> Iterator[Issue]:
    if entry.lower().endswith(".json"):
        yield from _json_issues(_document(archive, entry), entry)
        return
    wrong = 0
    for number, line in enumerate(_lines(archive.pieces(entry)), 1):
        document = parse_json(line, source=entry, max_bytes=_LARGEST, max_values=None)
        if document.findings and line.strip():
            first = document.report().issues[0]
            yield _issue(first.code, entry, f"line {number}: {first.message[:-1]}", line=number)
            wrong += 1
        if wrong == _MOST_LINES:
            yield _issue("too_many_issues", entry, "there may be more wrong lines", severity="info")
            return


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if len(rest) > _LARGEST:
            yield rest
            return
    yield rest


def _event_log(archive: ZipReader, entry: str) -> Iterator[Issue]:
    if (size := archive.entries[entry].file_size) > _LARGEST:
        yield _issue(
            "too_large", entry, f"the event log has {shown_size(size)}; at most {shown_size(_LARGEST)} are read"
        )
        return
    data = archive.read(entry, limit=_LARGEST)
    if len(data) < 3 * len(_MAGIC) or not data.startswith(_MAGIC) or not data.endswith(_MAGIC):
        yield _issue("event_log_unreadable", entry, "it is not a Parquet file")
    elif find_spec("pyarrow") is not None:
        yield from _columns(data, entry)


def _columns(data: bytes, entry: str) -> Iterator[Issue]:
    from importlib import import_module

    arrow: Any = import_module("pyarrow")
    try:
        schema: Any = import_module("pyarrow.parquet").read_schema(io.BytesIO(data))
    except (arrow.ArrowException, OSError, ValueError) as error:
        yield _issue("event_log_unreadable", entry, f"it is a damaged Parquet file ({str(error)[:120]})")
        return
    found = {str(field.name): str(field.type).removeprefix("large_") for field in schema}
    for name, kind in EVENT_LOG_COLUMNS.items():
        if name not in found:
            yield _issue("event_log_unreadable", entry, f"it has no column {name}")
        elif found[name] != kind:
            yield _issue("event_log_unreadable", entry, f"its column {name} is {found[name]}; it must be {kind}")


def _issue(code: str, entry: str, what: str, *, line: int | None = None, severity: Any = "error") -> Issue:
    place = pointer((entry,))
    return Issue(code=code, severity=severity, pointer=place, line=line, column=line and 1, message=f"{entry}: {what}.")
