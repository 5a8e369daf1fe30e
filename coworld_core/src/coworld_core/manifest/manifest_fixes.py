"""Fixes manifests automatically: changes only the parts of the text for which there is exactly one right answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from ..documents.findings import Findings, dotted
from ..documents.json_edit import Edit, edited
from ..documents.json_text import json_report, parse_json
from ..errors import ManifestError
from ..issues import Issue, Report
from ..versions import Published
from .manifest_file import check_manifest, dump_manifest, examine_manifest, find_manifest, load_manifest, read_document
from .models import Manifest
from .published_versions import NOT_NEEDED, published_findings

__all__ = ["FixedManifest", "fixed_manifest", "manifest_for"]

_ROUNDS = 8
"""One fix may reveal the next issue, so fixing is repeated this often at most."""


@dataclass(frozen=True)
class FixedManifest:
    """A manifest before and after it was fixed."""

    path: Path
    """The file to write, which has not been written yet."""
    before: str
    """The original text."""
    after: str
    """The fixed text."""
    done: tuple[Issue, ...]
    """The issues that were fixed, with their positions in the original text."""
    left: Report
    """The issues that remain under the strict rules, which only the author can resolve."""

    def write(self) -> None:
        """Write the fixed text to the file, keeping its line endings."""
        self.path.write_bytes(self.after.encode("utf-8"))


def fixed_manifest(
    path: Path, *, template: bool = True, published: Published | None = None, to: Path | None = None
) -> FixedManifest:
    """Fix a manifest without losing anything: only what was empty or is also stated elsewhere is removed.

    A copy for a published version is also without the fields that this version refuses and does not need.

    Args:
        path: The manifest's file, or a directory that holds one.
        template: Accept a template.
        published: The version whose rules apply to what is left, too.
        to: The file of a copy; None: the fixed text is for the manifest's own file.

    Raises:
        UsageError: If the path is wrong.
        ManifestError: If the file is not JSON.
    """
    file, _ = find_manifest(path, template=template)
    document = read_document(file)
    if document.text is None or not document.usable or document.findings:
        raise ManifestError(document.report())
    before = after = file.read_bytes().decode("utf-8")
    done: list[Issue] = []
    for _ in range(_ROUNDS):
        document = parse_json(after, source=document.source)
        findings = Findings()
        examine_manifest(document.value, findings, mode="read", template=template)
        found = [finding for finding in findings.items if finding.edits]
        changed = edited(after, (edit for finding in found for edit in finding.edits))
        if changed == after:
            break
        done += json_report(document, found).issues
        after = changed
    if published is not None and to is not None:
        after, left_out = _left_out(after, published)
        done += left_out
    left = check_manifest(after.encode(), mode="strict", template=template, published=published)
    file = (to or file).absolute()
    return FixedManifest(file, before, after, tuple(done), left.model_copy(update={"source": str(file)}))


def manifest_for(manifest: Manifest, published: Published) -> tuple[Manifest, tuple[Issue, ...]]:
    """A manifest or a template for a published version, and what was left out of it.

    Args:
        manifest: The manifest.
        published: The version. Fields that it refuses and does not need are left out.

    Raises:
        ManifestError: The version refuses more than that; the report lists it.
    """
    text, left_out = _left_out(dump_manifest(manifest, template=True), published)
    return load_manifest(text.encode(), mode="strict", template=True, published=published).manifest, left_out


def _left_out(text: str, published: Published) -> tuple[str, tuple[Issue, ...]]:
    document = parse_json(text)
    value: object = document.value
    refused = published_findings(cast("dict[str, Any]", value), published) if isinstance(value, dict) else ()
    found = [
        replace(
            finding,
            code="left_out",
            severity="info",
            message=f"{dotted(finding.path)} is left out: {published} refuses it, and does without.",
            hint=None,
        )
        for finding in refused
        if finding.code == "not_yet_published" and finding.path in NOT_NEEDED
    ]
    return edited(text, (Edit("remove", finding.path) for finding in found)), json_report(document, found).issues
