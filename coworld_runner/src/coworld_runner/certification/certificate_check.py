"""Checks a certificate: itself, its signature, the evidence beside it, and the package that it is about."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread

from coworld_core.certificate import (
    CERTIFICATE_NAME,
    Certificate,
    check_seal,
    compare_content,
    compare_manifests,
    read_certificate,
    signed_bytes,
)
from coworld_core.documents.canonical_json import json_digest
from coworld_core.documents.seals import key_id_of
from coworld_core.errors import CoworldError, ImageError, RecordError, UsageError
from coworld_core.files.regular import read_regular
from coworld_core.hints import Hint
from coworld_core.issues import Issue, Report
from coworld_core.manifest.manifest_file import find_manifest, manifest_value, read_document
from coworld_core.text.phrases import listed

from ..backend import Backend
from ..package.resolver import Package, coworld_id
from .certification_record import RECORD_NAME, outcomes_digest, read_certification
from .package_content import content_of, package_files
from .signing_keys import check_signature

__all__ = ["CERTIFIED_MANIFEST", "CheckedCertificate", "check_certificate", "find_certificate", "needs_images"]

CERTIFIED_MANIFEST = "certified_manifest.json"
"""Name of the file with the certified manifest in canonical content, beside the certificate."""
_MOST_POINTERS = 8
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True)
class CheckedCertificate:
    """A certificate, and what was found about it."""

    certificate: Certificate
    report: Report
    """Errors: what does not hold; warnings: what could not be checked."""

    @property
    def ok(self) -> bool:
        """Whether everything that was checked holds."""
        return self.report.ok


def needs_images(certificate: Certificate) -> bool:
    """Whether comparing a package with a certificate takes a backend with images."""
    return any(part.kind == "image" for part in certificate.content.parts)


def find_certificate(source: Path | str | os.PathLike[str]) -> tuple[Path, Certificate, dict[str, Any]]:
    """Find and read a certificate.

    Args:
        source: A `certificate.json`, or the directory that holds it.

    Returns:
        Its path, the certificate, and its JSON.

    Raises:
        RecordError: It is not a certificate.
        UsageError: There is no such file, it cannot be read, or it is a Coworld itself (`not_a_certificate`).
    """
    path = Path(source)
    place = path / CERTIFICATE_NAME if path.is_dir() else path
    try:
        return place, *read_certificate(place)
    except (RecordError, UsageError) as error:
        if not _is_coworld(path):
            raise
        raise UsageError(
            f"{path} is a Coworld, not a certificate.",
            code="not_a_certificate",
            hint=Hint("certify_for_certificate", "certify leaves a certificate in its workspace.", package=str(path)),
            context={"path": str(path)},
        ) from error


def _is_coworld(path: Path) -> bool:
    if coworld_id(str(path)) is not None:
        return True
    try:
        value = read_document(find_manifest(path)[0]).value
    except CoworldError:
        return False
    return isinstance(value, dict) and {"game", "certification"} <= {*cast("dict[str, Any]", value)}


async def check_certificate(
    source: Path | str | os.PathLike[str],
    package: Package | None = None,
    *,
    backend: Backend | None = None,
    trusted: Collection[bytes] | None = None,
) -> CheckedCertificate:
    """Check a certificate.

    Args:
        source: A `certificate.json`, or the directory that holds it.
        package: The Coworld to compare it with, as it is now; None: only the certificate and its evidence are checked.
        backend: An entered backend that has the package's images, if the certificate is about images.
        trusted: Public keys of which one must have signed it (`read_public_keys`); None: any may, or none.

    Raises:
        RecordError: It is not a certificate.
        UsageError: As for `find_certificate`.
        EnvironmentFault: The engine failed, or it is signed and the extra `sign` is not installed.
    """
    path, certificate, document = await anyio.to_thread.run_sync(find_certificate, source)
    issues = check_seal(certificate, document)
    issues += check_signature(certificate.signature, signed_bytes(document), of="certificate", trusted=trusted)
    if certificate.signature is not None and not _by_authority(certificate):
        message = "The key that its authority names is not the one that signed."
        issues.append(Issue(code="key_differs", pointer="/authority/key_id", message=message))
    issues += await anyio.to_thread.run_sync(_check_evidence, certificate, path.parent)
    if package is None:
        message = "It was not compared with a package."
        issues.append(Issue(code="package_not_given", severity="info", message=message))
    else:
        issues += await _compare(certificate, package, backend, path.parent)
    ranks = {"error": 0, "warning": 1, "info": 2}
    issues.sort(key=lambda issue: ranks[issue.severity])
    return CheckedCertificate(certificate=certificate, report=Report(source=str(path), issues=tuple(issues)))


def _by_authority(certificate: Certificate) -> bool:
    """Whether the key that signed is the one that the authority names; true of one that is no key at all."""
    assert certificate.signature is not None
    with suppress(ValueError):
        return certificate.authority.key_id == key_id_of(bytes.fromhex(certificate.signature.public_key))
    return True


def _check_evidence(certificate: Certificate, directory: Path) -> list[Issue]:
    """Compare the certificate with the record beside it."""
    place, pointer = directory / RECORD_NAME, "/transcript/record_sha256"
    data = _bytes_of(place)
    if data is None:
        message = f"There is no {RECORD_NAME} beside it, so what came of the steps was not checked."
        return [Issue(code="record_missing", severity="warning", pointer=pointer, message=message)]
    found: list[Issue] = []
    same = hashlib.sha256(data).hexdigest() == certificate.transcript.record_sha256
    if not same:
        message = f"{RECORD_NAME} beside it is not the one that it is about, or was changed."
        hint = "Put the two files of one certification together."
        found.append(Issue(code="record_differs", pointer=pointer, message=message, hint=hint))
    try:
        record = read_certification(data)
    except CoworldError:
        message = f"{RECORD_NAME} beside it cannot be read: it is cut, or not a record."
        found.append(Issue(code="record_unreadable", pointer=pointer, message=message))
        return found
    if outcomes_digest(record) != certificate.transcript.outcomes_digest:
        message = f"The outcomes of the steps in {RECORD_NAME} are not those that it is about."
        found.append(Issue(code="outcomes_differ", pointer="/transcript/outcomes_digest", message=message))
    if (record.verdict, record.manifest_sha256) != (certificate.verdict, certificate.content.manifest_sha256):
        message = f"{RECORD_NAME} is of another verdict or another manifest."
        found.append(Issue(code="record_contradicts", pointer="/verdict", message=message))
    if not found:
        steps = f"{len(record.all_steps)} steps"
        message = f"{RECORD_NAME} beside it is the one that it is about, with {steps}."
        found.append(Issue(code="record_right", severity="info", message=message))
    return found


async def _compare(certificate: Certificate, package: Package, backend: Backend | None, directory: Path) -> list[Issue]:
    images: dict[str, str] | None = None
    issues: list[Issue] = []
    if needs_images(certificate):
        images = {}
        if backend is not None and backend.capabilities.images:
            issues += await _look_up(package, backend, images)
    with_sources = any(part.kind == "sources" for part in certificate.content.parts)
    files = await anyio.to_thread.run_sync(partial(package_files, package, sources=with_sources))
    found = content_of(package.manifest, files, images)
    for issue in compare_content(certificate.content, found):
        if issue.code == "manifest_differs":
            words = await anyio.to_thread.run_sync(_describe_difference, certificate, package, directory)
            issue = issue.model_copy(update={"message": words})
        issues.append(issue)
    if not issues:
        message = f"{package.manifest.game.name} is what was certified: {certificate.content.digest[:23]}…."
        issues.append(Issue(code="content_right", severity="info", message=message))
    return issues


async def _look_up(package: Package, backend: Backend, images: dict[str, str]) -> list[Issue]:
    """Note the digest of each image; returns errors for those that are not there."""
    missing: dict[str, Issue] = {}

    async def look(image: str) -> None:
        try:
            images[image] = (await backend.ensure_image(image)).digest
        except ImageError as error:
            missing[image] = Issue(code=error.code, message=error.message, hint=error.hint)

    async with anyio.create_task_group() as group:
        for image in package.manifest.images():
            group.start_soon(look, image)
    return [missing[image] for image in sorted(missing)]


def _describe_difference(certificate: Certificate, package: Package, directory: Path) -> str:
    """Say where the manifest differs, if the certified one is beside the certificate."""
    known: Any = None
    try:
        data = _bytes_of(directory / CERTIFIED_MANIFEST)
        known = json.loads(data) if data is not None else None
        if json_digest(known) != certificate.content.manifest_sha256:
            known = None
    except (ValueError, RecursionError):
        known = None
    if known is None:
        return "The manifest is not the one that was certified; that one is not beside the certificate."
    places = compare_manifests(known, manifest_value(package.manifest))
    return f"The manifest is not the one that was certified. It differs in {listed(places, limit=_MOST_POINTERS)}."


def _bytes_of(path: Path) -> bytes | None:
    try:
        return read_regular(path, most=_MOST_BYTES)
    except OSError as error:
        return b"" if error.errno == errno.EFBIG else None
