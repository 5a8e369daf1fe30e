"""Uploads of Coworlds, and of changes to Coworlds on the platform. Skipping certification needs a reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import anyio.to_thread

from coworld_core.api import Coworld, CoworldUploadBody, PatchCommissionerBody, is_image_id, same_coworld
from coworld_core.errors import UsageError
from coworld_core.manifest.loading import LoadedManifest, Source, dump_manifest, load_manifest, manifest_sha256
from coworld_core.versions import next_version

from ..errors import ApiError, ApiShapeError
from ..uploads._coworlds import Certified, Uncertified, UploadedCoworld, certification_words, check_images
from ..uploads._edits import apply_images, image_values, merge_patch, replace_images
from ..uploads._images import MAKE_SECONDS, OnImage, UploadedImage, uploaded_id
from ._base import Resource

__all__ = ["CoworldUploads"]


class CoworldUploads(Resource):
    """Uploads of new versions of Coworlds."""

    async def upload(
        self,
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
            manifest: The manifest: a path, its content, or as loaded. It is checked strictly.
            certification: The certification that it passed, or the reason to upload it without.
            visibility: ``public`` or ``private``; the platform's default when None.
            timeout: Seconds for each attempt of a call to the API.
            idempotency_key: The key of an earlier call, to repeat it.
            on_progress: Called with the progress of each image's upload.

        Raises:
            ManifestError: The manifest has errors.
            UsageError: An image is a mutable tag of a registry, the manifest refers to a file of the package, or
                another manifest was certified.
            Conflict: The platform has that version with other content.
            ImageError: The Docker engine lacks an image, or it is for another platform.
        """
        source = manifest.raw if isinstance(manifest, LoadedManifest) else manifest
        loaded = await anyio.to_thread.run_sync(lambda: load_manifest(source, mode="strict"))
        document: dict[str, Any] = json.loads(dump_manifest(loaded.manifest))
        told = certification_words(certification, manifest_sha256(loaded.manifest))
        check_images(document, kept=())
        return await self._upload(document, told, visibility, timeout, idempotency_key, on_progress, kept=frozenset())

    async def update(
        self,
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
        """Add a version of a Coworld that is a change to one on the platform.

        Args:
            name_or_id: ``cow_…``, or a name for its canonical version.
            certification: The certification that the result passed, or the reason to upload it without.
            version: The new version; by default the patch's, else the next one.
            patch: A JSON merge patch of the manifest; null deletes.
            images: Other images, by target: ``game``, ``player``, ``player.ID``, ``player[N]``, other roles likewise.
            timeout: Seconds for each attempt of a call to the API.
            idempotency_key: The key of an earlier call, to repeat it.
            on_progress: Called with the progress of each image's upload.

        Raises:
            UsageError: There is nothing to change, or a target names nothing; otherwise as for ``upload``.
            ManifestError: The result has errors.
            NotFound: There is no such Coworld.
        """
        if version is None and not patch and not images:
            raise UsageError(
                "There is nothing to change.", code="nothing_to_change", hint="Give a version, a patch, or an image."
            )
        stored = await self._client.coworlds.find(name_or_id, timeout=timeout)
        before: dict[str, Any] = json.loads(json.dumps(stored.manifest))
        if not isinstance(before.get("game"), dict):
            raise ApiShapeError(f"{self._client.server} has no manifest for {stored.id}.", code="api_shape")
        own = await self._own_images({entry["image"] for entry in image_values(before)}, timeout)
        replace_images(before, lambda image: own.get(image, image))
        kept = frozenset(entry["image"] for entry in image_values(before))
        document = merge_patch(before, patch or {})
        game: Any = document.get("game")
        if isinstance(game, dict) and (version is not None or game.get("version") == stored.version):
            game["version"] = version if version is not None else next_version(stored.version)
        apply_images(document, images or {})
        loaded = await anyio.to_thread.run_sync(lambda: load_manifest(cast("dict[str, Any]", document), mode="strict"))
        document = json.loads(dump_manifest(loaded.manifest))
        told = certification_words(certification, manifest_sha256(loaded.manifest))
        check_images(document, kept=kept)
        return await self._upload(document, told, None, timeout, idempotency_key, on_progress, kept=kept)

    async def patch_commissioner(
        self,
        name: str,
        image: str,
        *,
        runnable_id: str | None = None,
        version: str | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        on_progress: OnImage | None = None,
    ) -> Coworld:
        """Add a version of a Coworld that has another commissioner.

        Args:
            name: Name of the Coworld.
            image: An image of the local Docker engine, which is uploaded first, or an ``img_`` id.
            runnable_id: Id of the commissioner to replace, if there are several.
            version: The new version; by default the next one.
            timeout: Seconds for each attempt of a call to the API.
            idempotency_key: The key of an earlier call, to repeat it.
            on_progress: Called with the progress of the image's upload.

        Raises:
            NotFound: There is no such Coworld.
            ImageError: The Docker engine has no such image, or it is for another platform.
        """
        image_id, _ = await uploaded_id(self._client, image, on_progress)
        body = PatchCommissionerBody.of(
            coworld_name=name, container_image_id=image_id, runnable_id=runnable_id, version=version
        )
        return await self._post(
            Coworld, "/v2/coworlds/patch-commissioner", body, timeout=timeout or 120, idempotency_key=idempotency_key
        )

    async def _upload(
        self,
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
            ids[image], one = await uploaded_id(self._client, image, on_progress)
            if one is not None:
                uploaded.append(one)
        replace_images(document, lambda image: ids.get(image, image))
        name, version = document["game"]["name"], document["game"]["version"]
        before = await self._present(name, version, timeout)
        body = CoworldUploadBody.of(manifest=document, certification=certification, visibility=visibility)
        timeout = timeout or MAKE_SECONDS
        coworld = await self._post(
            Coworld, "/v2/coworlds/upload", body, timeout=timeout, idempotency_key=idempotency_key
        )
        return UploadedCoworld(coworld=coworld, already=coworld.id == before, images=tuple(uploaded))

    async def _own_images(self, wanted: set[str], timeout: float | None) -> dict[str, str]:
        """Ids of the user's images by their addresses for pulling, which stored manifests contain."""
        left = {image for image in wanted if not is_image_id(image)}
        found: dict[str, str] = {}
        async for image in self._client.images.list(limit=1000, timeout=timeout):
            for address in (image.public_image_uri, image.image_uri):
                if address in left:
                    found[address] = image.id
            if left <= found.keys():
                break
        return found

    async def _present(self, name: str, version: str, timeout: float | None) -> str | None:
        """The id of a version that the platform already has; None if it has none, or refuses to say."""
        with suppress(ApiError):
            # one page is enough: of the name's versions if the platform filters by name, else of the newest versions
            page = await self._client.coworlds.list(name=name, limit=50, timeout=timeout)
            return next((row.id for row in page.items if same_coworld(row.name, name) and row.version == version), None)
        return None
