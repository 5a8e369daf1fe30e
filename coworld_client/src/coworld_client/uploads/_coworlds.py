"""Uploads of Coworlds: whole ones, and changes to what the platform has. Certification is never skipped in silence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import anyio.to_thread

from coworld_core.api import Coworld, CoworldUploadBody, is_image_id, same_coworld
from coworld_core.errors import UsageError
from coworld_core.images import ImageRef
from coworld_core.manifest.loading import LoadedManifest, Source, dump_manifest, load_manifest, manifest_sha256
from coworld_core.versions import next_version

from ..errors import ApiError, ApiShapeError
from ..transport._replies import read
from ._edits import apply_images, image_values, merge_patch, replace_images
from ._images import MAKE_SECONDS, OnImage, UploadedImage, uploaded_id

if TYPE_CHECKING:
    from ..client import CoworldClient

__all__ = ["Certified", "Uncertified", "UploadedCoworld", "update_coworld", "upload_coworld"]


@dataclass(frozen=True, kw_only=True)
class Certified:
    """A Coworld passed certification on this machine."""

    manifest_sha256: str
    """Digest of the manifest that passed, in canonical form."""
    summary: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the platform is told of it."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Certified:
        """Read a certification record.

        Args:
            record: The content of ``certification.json``.

        Raises:
            UsageError: Code ``not_certified``, when it confers no verdict.
        """
        digest, verdict = record.get("manifest_sha256"), record.get("verdict")
        if not isinstance(digest, str) or not digest or not verdict or record.get("status") != "completed":
            raise UsageError(
                "The certification record confers no verdict, so the Coworld is not certified.",
                code="not_certified",
                hint="Run `coworld certify`, mend what it finds, and upload then; or skip certification and say why.",
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
    """A Coworld is uploaded without certification, and somebody says why."""

    reason: str

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise UsageError("Skipping certification needs a reason.", code="reason_missing", hint="Say why, in words.")


@dataclass(frozen=True, kw_only=True)
class UploadedCoworld:
    """A version of a Coworld that the platform has now."""

    coworld: Coworld
    already: bool
    """Whether the platform had this very version before."""
    images: tuple[UploadedImage, ...] = ()
    """Images that were uploaded for it, in the order of their references."""


async def upload_coworld(
    client: CoworldClient,
    manifest: Source | LoadedManifest,
    *,
    certification: Certified | Uncertified,
    visibility: str | None = None,
    timeout: float | None = None,
    idempotency_key: str | None = None,
    on_progress: OnImage | None = None,
) -> UploadedCoworld:
    """Add a version of a Coworld: its images first, each once, then its manifest.

    Args:
        client: The platform.
        manifest: The manifest: a path, its content, or as loaded. It is checked strictly.
        certification: That it passed certification, or why it is uploaded without.
        visibility: ``public`` or ``private``; the platform's default when None.
        timeout: Seconds for each attempt of a call to the API.
        idempotency_key: Of an upload that is repeated.
        on_progress: Told how far each image's upload is.

    Raises:
        ManifestError: The manifest has errors.
        UsageError: An image may come to mean something else (``mutable_image``), or another manifest was certified
            (``certified_other``).
        Conflict: The platform has that version with other content.
        ImageError, BackendError, RegistryError, ApiError, ApiConnectionError: As for ``upload_image``.
    """
    source = manifest.raw if isinstance(manifest, LoadedManifest) else manifest
    loaded = await anyio.to_thread.run_sync(lambda: load_manifest(source, mode="strict"))
    document: dict[str, Any] = json.loads(dump_manifest(loaded.manifest))
    told = _told(certification, manifest_sha256(loaded.manifest))
    _check_images(document, kept=())
    return await _upload(client, document, told, visibility, timeout, idempotency_key, on_progress, kept=frozenset())


async def update_coworld(
    client: CoworldClient,
    name_or_id: str,
    *,
    certification: Certified | Uncertified,
    version: str | None = None,
    patch: Mapping[str, Any] | None = None,
    images: Mapping[str, str] | None = None,
    timeout: float | None = None,
    idempotency_key: str | None = None,
    on_progress: OnImage | None = None,
) -> UploadedCoworld:
    """Add a version of a Coworld that differs from one the platform has.

    The merge patch is applied first, then the version, then the images. Images that are not replaced stay as they are
    and are not needed here.

    Args:
        client: The platform.
        name_or_id: ``cow_…``, or a name for its canonical version.
        certification: That the outcome passed certification, or why it is uploaded without.
        version: The new version; by default the patch's, else the next one.
        patch: A JSON merge patch of the manifest; null deletes.
        images: Other images, by target (``game``, ``player``, ``player.ID``, ``player[N]``).
        timeout: Seconds for each attempt of a call to the API.
        idempotency_key: Of an upload that is repeated.
        on_progress: Told how far each image's upload is.

    Raises:
        UsageError: There is nothing to change, a target names nothing, or as for ``upload_coworld``.
        ManifestError: What comes out has errors.
        NotFound: There is no such Coworld.
        ApiError, ApiConnectionError, ImageError, BackendError: As for ``upload_coworld``.
    """
    if version is None and not patch and not images:
        raise UsageError(
            "There is nothing to change.", code="nothing_to_change", hint="Give a version, a patch, or an image."
        )
    stored = await client.coworlds.find(name_or_id, timeout=timeout)
    before: dict[str, Any] = json.loads(json.dumps(stored.manifest))
    if not isinstance(before.get("game"), dict):
        raise ApiShapeError(f"{client.server} has no manifest for {stored.id}.", code="api_shape")
    own = await _own_images(client, {entry["image"] for entry in image_values(before)}, timeout)
    replace_images(before, lambda image: own.get(image, image))
    kept = frozenset(entry["image"] for entry in image_values(before))
    document = merge_patch(before, patch or {})
    game: Any = document.get("game")
    if isinstance(game, dict) and (version is not None or game.get("version") == stored.version):
        game["version"] = version if version is not None else next_version(stored.version)
    apply_images(document, images or {})
    loaded = await anyio.to_thread.run_sync(lambda: load_manifest(cast("dict[str, Any]", document), mode="strict"))
    document = json.loads(dump_manifest(loaded.manifest))
    told = _told(certification, manifest_sha256(loaded.manifest))
    _check_images(document, kept=kept)
    return await _upload(client, document, told, None, timeout, idempotency_key, on_progress, kept=kept)


def _told(certification: Certified | Uncertified, digest: str) -> dict[str, Any]:
    if isinstance(certification, Uncertified):
        return {"status": "skipped", "reason": certification.reason}
    if certification.manifest_sha256 != digest:
        raise UsageError(
            "What was certified is another manifest than the one to upload.",
            code="certified_other",
            hint="Certify this one, and change nothing between.",
            context={"certified": certification.manifest_sha256, "manifest_sha256": digest},
        )
    return {"status": "passed", "manifest_sha256": digest, **certification.summary}


def _check_images(document: dict[str, Any], *, kept: frozenset[str] | tuple[()]) -> None:
    for image in sorted({entry["image"] for entry in image_values(document)} - set(kept)):
        reference = ImageRef.parse(image)
        if reference.kind == "registry":
            raise UsageError(
                f"The image {image} is a tag in a registry, which may come to mean something else.",
                code="mutable_image",
                hint="Pin it by its digest, or let `coworld build` make a tag of its content.",
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


async def _own_images(client: CoworldClient, wanted: set[str], timeout: float | None) -> dict[str, str]:
    """Ids of one's own images, by where they can be pulled: a stored manifest names images by that."""
    left = {image for image in wanted if not is_image_id(image)}
    found: dict[str, str] = {}
    async for image in client.images.list(limit=1000, timeout=timeout):
        for address in (image.public_image_uri, image.image_uri):
            if address in left:
                found[address] = image.id
        if left <= found.keys():
            break
    return found


async def _upload(
    client: CoworldClient,
    document: dict[str, Any],
    certification: dict[str, Any],
    visibility: str | None,
    timeout: float | None,
    idempotency_key: str | None,
    on_progress: OnImage | None,
    *,
    kept: frozenset[str],
) -> UploadedCoworld:
    ids: dict[str, str] = {}
    uploaded: list[UploadedImage] = []
    for image in sorted({entry["image"] for entry in image_values(document)} - kept):
        ids[image], one = await uploaded_id(client, image, on_progress)
        if one is not None:
            uploaded.append(one)
    replace_images(document, lambda image: ids.get(image, image))
    name, version = document["game"]["name"], document["game"]["version"]
    before = await _present(client, name, version, timeout)
    body = CoworldUploadBody.of(manifest=document, certification=certification, visibility=visibility)
    reply = await client.connection.call(
        "POST", "/v2/coworlds/upload", json=body.to_wire(), timeout=timeout or MAKE_SECONDS, key=idempotency_key or True
    )
    coworld = read(Coworld, reply)
    return UploadedCoworld(coworld=coworld, already=coworld.id == before, images=tuple(uploaded))


async def _present(client: CoworldClient, name: str, version: str, timeout: float | None) -> str | None:
    """The id of a version that is there already, where the platform can be asked for a name's versions."""
    with suppress(ApiError):
        # one page is enough: of a name's versions where the platform filters, else of the newest
        page = await client.coworlds.list(name=name, limit=50, timeout=timeout)
        return next((row.id for row in page.items if same_coworld(row.name, name) and row.version == version), None)
    return None
