"""The certification of an uploaded Coworld, and the check of the images and files that it refers to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coworld_core.api import Coworld
from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.images import ImageRef

from ._edits import image_values
from ._images import UploadedImage

__all__ = ["Certified", "Uncertified", "UploadedCoworld", "certification_body", "check_images"]


@dataclass(frozen=True, kw_only=True)
class Certified:
    """The statement that a Coworld passed certification on this machine."""

    manifest_sha256: str
    """Digest of the manifest that passed, in canonical form."""
    summary: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields of the certification record that are sent to the platform."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Certified:
        """Read a certification record.

        Args:
            record: The content of `certification.json`.

        Raises:
            UsageError: Code `not_certified`, if the record confers no verdict.
        """
        digest, verdict = record.get("manifest_sha256"), record.get("verdict")
        if not isinstance(digest, str) or not digest or not verdict or record.get("status") != "completed":
            raise UsageError(
                "The certification record confers no verdict, so the Coworld is not certified.",
                code="not_certified",
                hint=Hint(
                    "certify_first",
                    "Certify it, fix what that finds, and then upload; or skip certification and say why.",
                ),
            )
        names = (
            "verdict",
            "transcript",
            "transcript_sha256",
            "backend",
            "run_id",
            "graduated_at",
            "caveats",
            "versions",
        )
        told = {name: record[name] for name in names if record.get(name)}
        return cls(manifest_sha256=digest, summary=json.loads(json.dumps(told, default=str)))


@dataclass(frozen=True, kw_only=True)
class Uncertified:
    """The reason to upload a Coworld without certification."""

    reason: str

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise UsageError("Skipping certification needs a reason.", code="reason_missing", hint="Say why, in words.")


@dataclass(frozen=True, kw_only=True)
class UploadedCoworld:
    """The result of an upload: a version of a Coworld on the platform."""

    coworld: Coworld
    already: bool
    """Whether the platform had this very version before."""
    images: tuple[UploadedImage, ...] = ()
    """Images that were uploaded for it, in the order of their references."""


def certification_body(certification: Certified | Uncertified, digest: str) -> dict[str, Any]:
    """The certification as it is sent to the platform.

    Raises:
        UsageError: Code `certified_other`, if another manifest was certified.
    """
    if isinstance(certification, Uncertified):
        return {"status": "skipped", "reason": certification.reason}
    if certification.manifest_sha256 != digest:
        raise UsageError(
            "The manifest that was certified is not the one to upload.",
            code="certified_other",
            hint="Certify this one, and upload it without changes.",
            context={"certified": certification.manifest_sha256, "manifest_sha256": digest},
        )
    return {"status": "passed", "manifest_sha256": digest, **certification.summary}


def check_images(document: dict[str, Any], *, kept: frozenset[str] | tuple[()]) -> None:
    """Check that everything a manifest refers to can be uploaded, except images that the platform has (`kept`).

    Raises:
        UsageError: An image is a mutable tag of a registry (`mutable_image`), or the manifest refers to a file of the
            package (`file_not_uploaded`).
    """
    for image in sorted({entry["image"] for entry in image_values(document)} - set(kept)):
        reference = ImageRef.parse(image)
        if reference.kind == "registry":
            raise UsageError(
                f"The image {image} is a tag in a registry, which can be moved to another image.",
                code="mutable_image",
                hint=Hint("pin_image", "Pin it by its digest, or let build_coworld make a tag of its content."),
                context={"image": image},
            )
        if reference.kind == "template":
            reference.require_runnable(f"The image {image!r}")
    for place, value in [
        *((f"player[{index}].file", entry.get("file")) for index, entry in enumerate(document["player"])),
        *((f"reporter[{index}].wasm", entry.get("wasm")) for index, entry in enumerate(document.get("reporter", []))),
    ]:
        if value is not None and not value.startswith("sha256:"):
            raise UsageError(
                f"{place} is {value}, a file of the package; only images are uploaded from here.",
                code="file_not_uploaded",
                hint="Upload the file by itself, and name it here by its digest, sha256:….",
                context={"file": value},
            )
