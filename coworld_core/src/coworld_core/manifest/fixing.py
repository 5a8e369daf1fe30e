"""Manifests put right by themselves: what has one right answer is changed in the text, and nothing else in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .._findings import Findings
from ..errors import ManifestError
from ..issues import Issue, Report
from ..jsonedit import edited
from ..jsontext import json_report, parse_json
from .loading import check_manifest, examine_manifest, read_document

__all__ = ["FixedManifest", "fixed_manifest"]

_ROUNDS = 8
"""What is put right may show what else is to be; in a few rounds all of it is."""


@dataclass(frozen=True)
class FixedManifest:
    """A manifest and what it became."""

    path: Path
    """The file; it is not written yet."""
    before: str
    """Its text."""
    after: str
    """Its text with all that has one right answer."""
    done: tuple[Issue, ...]
    """What was put right, with the places before."""
    left: Report
    """What there still is to say by the strict rules: what nobody but the author can answer."""

    def write(self) -> None:
        """Write the text to its file, with the line ends it had."""
        self.path.write_bytes(self.after.encode("utf-8"))


def fixed_manifest(path: Path, *, template: bool = True) -> FixedManifest:
    """Put a manifest right as far as that loses nothing: what is removed was empty, or is said in another place.

    Args:
        path: The manifest's file, or a directory that holds one.
        template: Whether it may be a template.

    Raises:
        UsageError: The path is wrong.
        ManifestError: It is not JSON.
    """
    document, file = read_document(path, template=template)
    if document.text is None or file is None or not document.usable or document.findings:
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
    left = check_manifest(after.encode(), mode="strict", template=template)
    return FixedManifest(file, before, after, tuple(done), left.model_copy(update={"source": str(file)}))
