"""Fixes manifests automatically: changes only the parts of the text for which there is exactly one right answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..documents.findings import Findings
from ..documents.json_edit import edited
from ..documents.json_text import json_report, parse_json
from ..errors import ManifestError
from ..issues import Issue, Report
from ..versions import Published
from .manifest_file import check_manifest, examine_manifest, find_manifest, read_document

__all__ = ["FixedManifest", "fixed_manifest"]

_ROUNDS = 8
"""One fix may reveal the next issue, so fixing is repeated this often at most."""


@dataclass(frozen=True)
class FixedManifest:
    """A manifest before and after it was fixed."""

    path: Path
    """The file, which has not been written yet."""
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


def fixed_manifest(path: Path, *, template: bool = True, published: Published | None = None) -> FixedManifest:
    """Fix a manifest without losing anything: only what was empty or is also stated elsewhere is removed.

    Args:
        path: The manifest's file, or a directory that holds one.
        template: Accept a template.
        published: The version whose rules apply to what is left, too.

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
    left = check_manifest(after.encode(), mode="strict", template=template, published=published)
    file = file.absolute()
    return FixedManifest(file, before, after, tuple(done), left.model_copy(update={"source": str(file)}))
