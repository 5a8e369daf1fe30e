"""The diagnosis of a player, as a diagnoser gives it: a zip with findings, advice and perhaps a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ..errors import UsageError
from ..files.atomic import write_whole
from ..text.phrases import listed
from .open_shape import OpenShape
from .report import pointer_problems, zip_of

__all__ = ["DIAGNOSIS_MANIFEST", "DIAGNOSIS_POINTERS", "DiagnosisFindings", "DiagnosisManifest", "write_diagnosis"]

DIAGNOSIS_MANIFEST = "manifest.json"
"""Name of the manifest; it may be missing."""

DIAGNOSIS_POINTERS: Mapping[str, tuple[str, ...]] = {"render": (".md", ".html"), "findings": (".json",)}
"""The fields of the manifest that name an entry, each with how the entry's name may end."""

_FINDINGS = "findings.json"


class DiagnosisManifest(OpenShape):
    """The `manifest.json` of a diagnosis. Further fields are the diagnoser's."""

    diagnoser_id: str | None = Field(default=None, description="The diagnoser.")
    render: str | None = Field(default=None, description="Entry to show: a page in Markdown or HTML.")
    findings: str | None = Field(default=None, description="Entry with the findings.")


class DiagnosisFindings(OpenShape):
    """What a diagnoser has found. Further fields are the diagnoser's."""

    diagnoser_id: str | None = Field(default=None, description="The diagnoser.")
    target_policy_uri: str | None = Field(default=None, description="The player that was looked at.")
    score: Annotated[float, Field(strict=True, allow_inf_nan=False)] | None = Field(
        default=None, description="How well it played, on a scale of the diagnoser's own."
    )
    recommendations: tuple[str, ...] = Field(default=(), description="What to change, in order.")


def write_diagnosis(
    target: Path,
    findings: DiagnosisFindings,
    *,
    render: str | None = None,
    files: Mapping[str, bytes] | None = None,
) -> None:
    """Write a diagnosis: the same content gives the same bytes.

    Args:
        target: The zip, in an existing directory.
        findings: What was found.
        render: Entry to show, `.md` or `.html`.
        files: The content of further entries by name, in the order of the zip.

    Raises:
        UsageError: The entry to show is not among the files, or its name does not end as it must
            (`diagnosis_incomplete`).
        OSError: The zip cannot be written.
    """
    manifest = DiagnosisManifest(diagnoser_id=findings.diagnoser_id, render=render, findings=_FINDINGS)
    entries = {DIAGNOSIS_MANIFEST: manifest.to_json(), _FINDINGS: findings.to_json(), **(files or {})}
    if problems := [what for _, what in pointer_problems(manifest.model_dump(), DIAGNOSIS_POINTERS, entries)]:
        raise UsageError(f"The diagnosis is not written: {listed(problems)}.", code="diagnosis_incomplete")
    write_whole(target, zip_of(entries))
