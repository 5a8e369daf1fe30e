"""Checks that the files of a run are as its record says. Anybody may have written them."""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from coworld_core.documents.canonical_json import canonical_json, json_digest
from coworld_core.documents.json_text import JsonDocument, parse_json
from coworld_core.documents.records import open_record, read_as
from coworld_core.documents.seals import seal_digest, sealed_bytes, written_as
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import SEALED_RECORD, ArtifactRecord, EpisodeRecord
from coworld_core.errors import CoworldError
from coworld_core.files.regular import open_regular, read_regular
from coworld_core.issues import Issue
from coworld_core.text.size_text import shown_size

from ..signing_keys import check_signature
from .verification_record import ChangedFile

__all__ = ["changed_artifacts", "changed_layout", "changed_manifest", "changed_record", "object_in"]

_SHA256 = re.compile(r"[0-9a-f]{64}")
_PIECE = 1 << 20


def changed_layout(document: JsonDocument, path: Path) -> list[ChangedFile]:
    """See whether a document is laid out as it was written, which its digest does not tell."""
    if document.text is None or not document.usable or written_as(document.text, document.value):
        return []
    return [ChangedFile(path=path.name, problem="is not laid out as it was written")]


def changed_record(
    path: Path, *, trusted: Collection[bytes] | None
) -> tuple[EpisodeRecord | None, list[ChangedFile], list[Issue]]:
    """Read the record of an episode, and check its digest and its signature.

    Returns:
        The record, None if it cannot be read; what is wrong with it; and what else is to be said of its signature.

    Raises:
        UsageError: There is none.
    """
    try:
        document = open_record(path, what="episode record", name=path.name)
        record = read_as(EpisodeRecord, document, what="episode record").read_from(path)
    except CoworldError as error:
        return None, [ChangedFile(path=path.name, problem=f"cannot be read: {error.message.rstrip('.')}")], []
    value = cast("dict[str, Any]", document.value)
    found: list[ChangedFile] = []
    if not record.digest:
        # Those of earlier versions have nothing that protects them, but no fields either that this one does not know
        unknown = sorted(record.model_extra or ())
        found = [ChangedFile(path=path.name, problem=f"has an unknown field {unknown[0]!r}")] if unknown else []
    elif document.text != f"{record.model_dump_json(indent=2)}\n":
        # Of another version, or changed
        found = changed_layout(document, path)
    if record.digest and record.digest != seal_digest(value, "digest"):
        found.append(ChangedFile(path=path.name, problem="was changed: its digest is not that of its other fields"))
    issues: list[Issue] = []
    if record.signature is not None or trusted is not None:
        data = sealed_bytes(SEALED_RECORD, value, "digest")
        issues = check_signature(record.signature, data, of="record", trusted=trusted)
        found += [
            ChangedFile(path=path.name, problem=f"has no signature that holds: {issue.message.rstrip('.')}")
            for issue in issues
            if issue.severity == "error"
        ]
    return record, found, [issue for issue in issues if issue.severity != "error"]


def changed_artifacts(record: EpisodeRecord, layout: EpisodeLayout) -> Iterator[ChangedFile]:
    """Compare the files of an episode with the digests in its record."""
    for artifact in record.artifacts:
        if problem := _problem(artifact, layout.workspace):
            yield ChangedFile(path=artifact.path, problem=problem)
    if record.digest:
        named = {artifact.path for artifact in record.artifacts}
        files = (layout.config, layout.results, layout.replay, layout.events, layout.game_events)
        for path in (*files, layout.samples, layout.frames):
            if layout.relative(path) not in named and path.exists():
                yield ChangedFile(path=layout.relative(path), problem="is not one that the record names")


def _problem(artifact: ArtifactRecord, workspace: Path) -> str:
    """What is wrong with a file; empty if nothing is."""
    parts = artifact.path.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        return "leads out of the run's directory, or is no path in it"
    if not _SHA256.fullmatch(artifact.sha256):
        return "has a digest that is no SHA-256"
    path = workspace
    for part in parts:
        path /= part
        if path.is_symlink():
            return "is a link, or is behind one"
    told = hashlib.sha256()
    size = 0
    try:
        with open_regular(path, most=artifact.size) as file:
            while size <= artifact.size and (piece := file.read(_PIECE)):
                told.update(piece)
                size += len(piece)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return "is missing"
        if error.errno == errno.EFBIG:
            return f"has more than the {shown_size(artifact.size)} that were recorded"
        return f"cannot be read: {error.strerror}"
    if size != artifact.size:
        return f"has {shown_size(size)}, and {shown_size(artifact.size)} were recorded"
    return "" if told.hexdigest() == artifact.sha256 else "was changed: its SHA-256 is another"


def changed_manifest(path: Path, sha256: str) -> list[ChangedFile]:
    """Compare a certified manifest beside its certificate with the certificate's digest; there may be none."""
    try:
        data = read_regular(path)
    except OSError:
        return []
    value = parse_json(data, source=path.name).value
    if data == canonical_json(value) + b"\n" and json_digest(value) == sha256:
        return []
    return [ChangedFile(path=path.name, problem="is not the manifest that was certified")]


def object_in(data: bytes, name: str) -> Mapping[str, Any] | ChangedFile:
    """Read a JSON object of a run."""
    document = parse_json(data, source=name, max_bytes=len(data))
    if isinstance(document.value, dict):
        return cast("dict[str, Any]", document.value)
    return ChangedFile(path=name, problem="is not a JSON object")
