"""Certificates: what was certified, with which outcome, by whom, and how to tell that none of this was changed.

A certificate is a small document beside the evidence of a certification. It refers to everything by digest: to the
Coworld (`CertifiedContent`), to the outcomes of the steps, and to the record that has the evidence. It never expires;
readers decide whether it is recent enough for them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import Field

from .documents.canonical_json import json_digest
from .documents.findings import pointer
from .documents.records import OpenEnum, Record, SchemaVersion, is_empty, open_record, read_as
from .documents.seals import ED25519, Signature, Signer, key_id_of, seal_digest, sealed_bytes
from .issues import Issue
from .text.phrases import listed
from .versions import Generation

if TYPE_CHECKING:
    from .documents.json_text import Source

__all__ = [
    "CERTIFICATE_NAME",
    "Authority",
    "Certificate",
    "CertifiedContent",
    "ContentPart",
    "Degree",
    "PartKind",
    "StepOutcomes",
    "certificate_digest",
    "check_seal",
    "compare_content",
    "compare_manifests",
    "directory_part",
    "issue_certificate",
    "read_certificate",
    "signed_bytes",
]

CERTIFICATE_NAME = "certificate.json"
"""File name of a certificate."""
Degree = Annotated[Literal["Executable"], OpenEnum]
"""The only degree."""
PartKind = Literal["image", "sources", "viewer", "file"]
"""What a part of a Coworld is, beside its manifest: an image; the directory that one is built from, which runs in its
place on a backend without images; the static replay viewer; a file that the manifest names."""

_MOST_NAMED = 5
"""How many differences in one part are named."""


class ContentPart(Record):
    """A part of a Coworld: one image, file or directory."""

    kind: Annotated[PartKind, OpenEnum] = Field(description="What it is.")
    name: str = Field(description="The image as in the manifest, or a path relative to the manifest.")
    digest: str = Field(description="sha256:… of the image, the file or the list of files; empty: not known.")
    files: dict[str, str] = Field(
        default_factory=dict[str, str], description="SHA-256 of each file of a directory, by relative path."
    )


class CertifiedContent(Record):
    """A Coworld by digest: its manifest and its parts."""

    digest: str = Field(description="sha256:… over the manifest and all parts: equal for the same Coworld.")
    manifest_sha256: str = Field(description="Digest of the manifest in canonical form.")
    parts: tuple[ContentPart, ...] = Field(description="The parts, sorted by kind and name.")

    @classmethod
    def of(cls, manifest_sha256: str, parts: Iterable[ContentPart]) -> CertifiedContent:
        """Put a Coworld's manifest and parts together."""
        ordered = tuple(sorted(parts, key=lambda part: (part.kind, part.name)))
        listing = [[part.kind, part.name, part.digest] for part in ordered]
        return cls(
            digest=_digest({"manifest": manifest_sha256, "parts": listing}),
            manifest_sha256=manifest_sha256,
            parts=ordered,
        )


class StepOutcomes(Record):
    """The steps of a certification, by digest."""

    name: str = Field(description="Name of the transcript, which defines the steps.")
    definition_sha256: str = Field(description="Digest of the transcript's canonical Markdown.")
    outcomes_digest: str = Field(
        description="sha256:… over ids, outcomes and findings of the steps, without texts and times: equal whenever "
        "two certifications came to the same."
    )
    record_sha256: str = Field(description="Digest of the file certification.json.")


class Authority(Record):
    """A person or a service that certifies. Only a signature proves it."""

    name: str = Field(description="A person, or a service.")
    host: str = Field(default="", description="Name of the machine.")
    key_id: str | None = Field(default=None, description="SHA-256 of the public key that signed; null: unsigned.")


class Certificate(Record):
    """The result of a certification, for others; it refers to its evidence by digest."""

    schema_version: SchemaVersion = Field(default=1, description="Version of this document's shape.")
    id: str = Field(description="sha256:… over all fields but this one and `signature`, in canonical JSON.")
    coworld: str = Field(description="Name of the Coworld.")
    version: str = Field(description="Version of the Coworld.")
    verdict: Degree | None = Field(description="The degree conferred; null: it did not graduate.")
    published: Annotated[Generation, OpenEnum] | None = Field(
        default=None, description="Published version by whose rules it was certified; null: the current rules."
    )
    caveats: tuple[str, ...] = Field(default=(), description="Limits of the verdict: what was not checked.")
    content: CertifiedContent = Field(description="What was certified.")
    transcript: StepOutcomes = Field(description="What was checked, and what came of it.")
    backend: str = Field(description="Name of the backend it ran on.")
    run_id: str = Field(description="The certification's label.")
    started_at: dt.datetime = Field(description="When the certification began (UTC).")
    ended_at: dt.datetime = Field(description="When it ended (UTC).")
    versions: dict[str, str] = Field(
        default_factory=dict[str, str], description="Versions of coworld, Python and the engine."
    )
    authority: Authority = Field(description="Who certified.")
    verifiable: str = Field(
        default="",
        exclude_if=is_empty,
        description="How runs of it can be verified: replay, as of games of the kit; frames, if they are recorded; "
        "left out if they cannot, or that was not tried.",
    )
    signature: Signature | None = Field(default=None, description="Null: it is not signed.")

    def to_json(self) -> str:
        """Return the document as the JSON of `certificate.json`."""
        return self.model_dump_json(indent=2) + "\n"


def _digest(value: object) -> str:
    return f"sha256:{json_digest(value)}"


def certificate_digest(document: Mapping[str, Any]) -> str:
    """Return what the field `id` of a certificate has to be, given its JSON."""
    return seal_digest(document, "id")


def signed_bytes(document: Mapping[str, Any]) -> bytes:
    """Return what a signature is over, given the JSON of a certificate."""
    return sealed_bytes("certificate", document, "id")


def issue_certificate(draft: Certificate, *, signer: Signer | None = None) -> Certificate:
    """Complete a certificate: give it its id, and sign it if there is a key.

    Args:
        draft: The certificate; its `id` and `signature` do not matter.
        signer: A private key, whose id becomes the authority's.
    """
    key_id = key_id_of(signer.public_key) if signer is not None else None
    draft = draft.model_copy(update={"authority": draft.authority.model_copy(update={"key_id": key_id})})
    document = draft.model_dump(mode="json")
    signature = None
    if signer is not None:
        value = signer.sign(signed_bytes(document))
        signature = Signature(algorithm=ED25519, public_key=signer.public_key.hex(), value=value.hex())
    return draft.model_copy(update={"id": certificate_digest(document), "signature": signature})


def read_certificate(source: Source) -> tuple[Certificate, dict[str, Any]]:
    """Read a certificate that any version may have written.

    Args:
        source: The path of a `certificate.json` or of the directory that holds it, its content as bytes, or the JSON
            as a Python value.

    Returns:
        The certificate, and its JSON, which id and signature are about.

    Raises:
        RecordError: It is not a certificate, or lacks a required field.
        UsageError: There is no such file, or it cannot be read.
    """
    what = "certificate"
    document = open_record(source, what=what, name=CERTIFICATE_NAME)
    return read_as(Certificate, document, what=what), cast("dict[str, Any]", document.value)


def check_seal(certificate: Certificate, document: Mapping[str, Any]) -> list[Issue]:
    """Check what a certificate says of itself: its id, the digest of its content, and its verdict.

    Args:
        certificate: The certificate.
        document: Its JSON.
    """
    found: list[Issue] = []
    if certificate.id != certificate_digest(document):
        found.append(
            Issue(
                code="certificate_changed",
                pointer="/id",
                message="It was changed after it was written: its id is not the digest of the other fields.",
                hint="Get the original, or certify again.",
            )
        )
    content = certificate.content
    whole = CertifiedContent.of(content.manifest_sha256, content.parts)
    wrong = [f"{part.kind} {part.name}" for part in content.parts if part.files and part.digest != _listing(part.files)]
    if content.digest != whole.digest or wrong:
        about = f" ({listed(wrong, limit=3)})" if wrong else ""
        message = f"The digests of its content do not belong together{about}."
        found.append(Issue(code="content_inconsistent", pointer="/content", message=message))
    if certificate.verdict is None:
        message = f"{certificate.coworld} {certificate.version} did not graduate: the certificate confers no degree."
        hint = "Its certification.json says which steps failed."
        found.append(Issue(code="no_degree", pointer="/verdict", message=message, hint=hint))
    return found


def _listing(files: Mapping[str, str]) -> str:
    return _digest(dict(files))


def directory_part(kind: PartKind, name: str, files: Mapping[str, str]) -> ContentPart:
    """Return the part for a directory.

    Args:
        kind: What it is.
        name: The image that is built from it, or its path.
        files: SHA-256 of each file, by relative path with forward slashes.
    """
    return ContentPart(kind=kind, name=name, digest=_listing(files), files=dict(files))


_NOUNS = {"image": "The image", "sources": "The source of", "viewer": "The replay viewer", "file": "The file"}


def compare_content(certified: CertifiedContent, found: CertifiedContent) -> list[Issue]:
    """Compare what was certified with what is there now.

    Args:
        certified: The content of a certificate.
        found: That of the Coworld.

    Returns:
        An error for each difference, and a warning for each part whose digest is not known. The manifests are only
        compared as a whole (`compare_manifests` says where they differ).
    """
    issues: list[Issue] = []
    if certified.manifest_sha256 != found.manifest_sha256:
        message = "The manifest is not the one that was certified."
        issues.append(Issue(code="manifest_differs", pointer="/content/manifest_sha256", message=message))
    now = {(part.kind, part.name): part for part in found.parts}
    for index, part in enumerate(certified.parts):
        here = now.pop((part.kind, part.name), None)
        pointer, noun = f"/content/parts/{index}", f"{_NOUNS.get(part.kind, part.kind)} {part.name}"
        if here is None:
            message = f"{noun} was certified, and is no longer part of it."
            issues.append(Issue(code=f"{part.kind}_missing", pointer=pointer, message=message))
        elif not part.digest or not here.digest:
            message = f"{noun} could not be compared: {'its' if part.digest else 'the certified'} digest is not known."
            issues.append(Issue(code="digest_unknown", severity="warning", pointer=pointer, message=message))
        elif part.digest != here.digest:
            words = _differences(part.files, here.files) if part.files or here.files else here.digest[:19]
            message = f"{noun} has changed since: {words}."
            issues.append(Issue(code=f"{part.kind}_differs", pointer=pointer, message=message))
    for part in now.values():
        message = f"{_NOUNS.get(part.kind, part.kind)} {part.name} was not there when it was certified."
        issues.append(Issue(code=f"{part.kind}_added", pointer="/content/parts", message=message))
    return issues


def _differences(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Name the files that differ."""
    words = [
        f"{name} is {'new' if name not in before else 'missing' if name not in now else 'different'}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]
    return listed(words, limit=_MOST_NAMED)


def _same(before: object, now: object) -> bool:
    """Whether two values are equal as JSON: True is 1 in Python, and is not in JSON."""
    return type(before) is type(now) and before == now


def compare_manifests(certified: Any, found: Any) -> list[str]:
    """Return the JSON pointers at which two manifests differ, each as deep as possible."""
    pointers: list[str] = []

    def below(before: Any, now: Any, path: tuple[str | int, ...]) -> None:
        if isinstance(before, dict) and isinstance(now, dict):
            old, new = cast("dict[str, Any]", before), cast("dict[str, Any]", now)
            for key in sorted({*old, *new}):
                if key in old and key in new:
                    below(old[key], new[key], (*path, key))
                else:
                    pointers.append(pointer((*path, key)))
        elif isinstance(before, list) and isinstance(now, list):
            old_items, new_items = cast("list[Any]", before), cast("list[Any]", now)
            for index in range(max(len(old_items), len(new_items))):
                if index < min(len(old_items), len(new_items)):
                    below(old_items[index], new_items[index], (*path, index))
                else:
                    pointers.append(pointer((*path, index)))
        elif not _same(cast("object", before), cast("object", now)):
            pointers.append(pointer(path))

    below(certified, found, ())
    return pointers
