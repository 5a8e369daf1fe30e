"""Coworlds on the platform."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio.to_thread

from coworld_core import time_limits
from coworld_core.api import (
    CertificationState,
    Coworld,
    CoworldUploadBody,
    EpisodeRequest,
    PatchCommissionerBody,
    check_id,
    is_id,
    is_image_id,
    same_coworld,
)
from coworld_core.documents.json_text import Source
from coworld_core.errors import UsageError
from coworld_core.manifest.manifest_file import (
    MANIFEST_NAME,
    LoadedManifest,
    dump_manifest,
    load_manifest,
    manifest_sha256,
)
from coworld_core.records.labels import check_labels
from coworld_core.versions import highest_version, next_version

from ..errors import (
    ApiError,
    ApiShapeError,
    ApiStatusError,
    Forbidden,
    NotAuthenticated,
    NotFound,
)
from ..pages import AsyncPager
from ..transport._connection import path
from ..transport._replies import read_list
from ..transport._retry import worth_retrying
from ..uploads._coworlds import Certified, Uncertified, UploadedCoworld, certification_body, check_images
from ..uploads._edits import apply_images, image_values, merge_patch, replace_images
from ..uploads._images import MAKE_SECONDS, OnImage, UploadedImage, uploaded_id
from ..uploads.smoke import CoworldStatus
from ._base import Resource, has_labels, label_query
from ._names import no_such

if TYPE_CHECKING:
    from ..uploads.packages import DownloadedCoworld, OnPull

__all__ = ["Coworlds"]

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0
"""Seconds between two looks at the platform's first episodes."""


class Coworlds(Resource):
    """Coworlds: games with their players and variants; their uploads, and the platform's first episodes of them.

    An upload without a certification needs a reason.
    """

    def list(
        self,
        *,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
        offset: int = 0,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> AsyncPager[Coworld]:
        """All versions of all Coworlds, with their manifests; newest first.

        Args:
            name: Only those of this name; hyphens and underscores are equal.
            labels: Only those with these labels; `*`, `?` and `[…]` are wildcards in their values.
            limit: Maximum number of rows.
            offset: Number of the server's rows to skip.
            cursor: Where to start, from an earlier page.
            timeout: Seconds for each attempt.

        Raises:
            UsageError: The server keeps no labels (`no_labels`).
        """
        server = self._client.server

        async def prepare() -> Callable[[Coworld], bool]:
            return lambda row: same_coworld(row.name, name or row.name) and has_labels(row.tags, labels, server)

        # Manifests are long, so a page has fewer of them; not every server filters by name
        return self._list(
            Coworld,
            "/v2/coworlds",
            {"name": name, "tags": label_query(labels)},
            limit=limit,
            offset=offset,
            cursor=cursor,
            page_size=50,
            keep=prepare if name is not None or labels else None,
            timeout=timeout,
        )

    async def get(self, coworld_id: str, *, timeout: float | None = None) -> Coworld:
        """One version, by its `cow_` id or its name, as `find`. Public ones need no sign-in by their ids.

        Raises:
            NotFound: If it does not exist, or you may not see it.
        """
        if not is_id(coworld_id, "coworld"):
            return await self.find(coworld_id, timeout=timeout)
        return await self._get(Coworld, path("/v2/coworlds/{}", coworld_id), timeout=timeout)

    async def find(self, name_or_id: str, *, version: str | None = None, timeout: float | None = None) -> Coworld:
        """Find a version by its id, or by a name: then the canonical version, or the given one.

        Args:
            name_or_id: `cow_…`, or a name; hyphens and underscores are equal.
            version: A version other than the canonical one; ignored with an id.
            timeout: Seconds for each attempt.

        Raises:
            NotFound: There is no Coworld of that name, or it has no canonical version, or not the given one.
        """
        if is_id(name_or_id, "coworld"):
            return await self.get(name_or_id, timeout=timeout)
        versions: list[str] = []
        async for row in self.list(name=name_or_id, timeout=timeout):
            if row.canonical if version is None else row.version == version:
                return row
            versions.append(row.version)
        raise await self._absent(name_or_id, version, versions, timeout)

    async def certification(self, coworld_id: str, *, timeout: float | None = None) -> CertificationState:
        """The state of the platform's own certification of a version, on servers that certify.

        Raises:
            NotFound: There is no such version, or the server does not certify.
        """
        target = path("/v2/coworlds/{}/certification", await self._id(coworld_id, "coworld", timeout=timeout))
        return await self._get(CertificationState, target, timeout=timeout)

    async def next_version(self, name: str, *, timeout: float | None = None) -> str:
        """The version for the next upload of a name: the one after the highest version on the platform.

        Raises:
            NotFound: If there is no Coworld of that name.
        """
        versions = [row.version async for row in self.list(name=name, timeout=timeout)]
        highest = highest_version(versions)
        if highest is None:
            raise await self._absent(name, None, [], timeout)
        return next_version(highest)

    async def download(
        self,
        name_or_id: str,
        directory: Path = Path("coworld"),
        *,
        refresh: bool = False,
        pull: bool = False,
        timeout: float | None = None,
        on_pull: OnPull | None = None,
    ) -> DownloadedCoworld:
        """Download a Coworld into `<directory>/<cow_id>/`, unless it was downloaded there before.

        Without `pull` the manifest names the public images, which are pulled when it is run. With `pull` they are
        pulled now, and the manifest names them as `coworld/<cow_id>/<name>-<version>-<n>:downloaded`. A platform that
        plays it from a directory has no images of it; then the files of its package are downloaded instead.

        Args:
            name_or_id: `cow_…`, or a name for its canonical version.
            directory: The directory for all downloads.
            refresh: Whether to download it again even if it was downloaded before.
            pull: Whether to pull its images with the Docker engine now, not only when it is run.
            timeout: Seconds for each attempt.
            on_pull: Called with the progress of each image.

        Raises:
            NotFound: If it does not exist, or you may not see it.
            ManifestError: Its manifest cannot be used.
            ImageError: An image is not published, or cannot be pulled.
            EnvironmentFault: It cannot be stored, or there is no Docker engine.
        """
        from ..uploads import packages

        found: Coworld | None = None
        if not is_id(name_or_id, "coworld"):
            found = await self.find(name_or_id, timeout=timeout)
        identifier = check_id(found.id if found is not None else name_or_id, "coworld")
        place = await anyio.to_thread.run_sync(packages.directory_of, directory, identifier)
        present = None if refresh else await anyio.to_thread.run_sync(packages.find_downloaded, place)
        if present is not None and (present.pulled or present.has_files or not pull):
            return present
        # Only the answer for a single one says whether it has images
        found = await self.get(identifier, timeout=timeout)
        if found.id != identifier:
            raise ApiShapeError(
                f"{self._client.server} answered {found.id} when asked for {identifier}.", code="api_shape"
            )
        document: dict[str, Any] = json.loads(json.dumps(found.manifest))
        own = False
        if found.package_url is not None:
            document, own = await packages.fetch_files(self._client, found, place, timeout)
        loaded = await anyio.to_thread.run_sync(load_manifest, document)
        game = loaded.manifest.game
        has_files = found.package_url is not None
        images = () if has_files else packages.images_of(identifier, game.name, game.version, document)
        if pull and images:
            await packages.pull_images(self._client, images, document, on_pull)
            local = {image.public_image_uri: image.local_image for image in images}
            replace_images(document, lambda image: local.get(image, image))
        listed = {
            "coworld_id": identifier,
            "name": game.name,
            "version": game.version,
            "images": [dataclasses.asdict(image) for image in images],
            "has_files": has_files,
            "own": own,
        }
        await anyio.to_thread.run_sync(packages.store, place, document, listed)
        return packages.DownloadedCoworld(
            id=identifier,
            name=game.name,
            version=game.version,
            directory=place,
            manifest=place / MANIFEST_NAME,
            images=images,
            pulled=pull and bool(images),
            has_files=has_files,
            cached=False,
        )

    async def upload(
        self,
        manifest: Source | LoadedManifest,
        *,
        certification: Certified | Uncertified,
        visibility: str | None = None,
        labels: Mapping[str, str] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        on_progress: OnImage | None = None,
    ) -> UploadedCoworld:
        """Add a version of a Coworld: its images first, each once, then its manifest.

        Args:
            manifest: The manifest: a path, its content, or as loaded. It is checked strictly.
            certification: The certification that it passed, or the reason to upload it without.
            visibility: `public` or `private`; the platform's default when None.
            labels: Labels of the version.
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
        loaded = (
            manifest
            if isinstance(manifest, LoadedManifest)
            else await anyio.to_thread.run_sync(lambda: load_manifest(manifest, mode="strict"))
        )
        document: dict[str, Any] = json.loads(dump_manifest(loaded.manifest))
        told = certification_body(certification, manifest_sha256(loaded.manifest))
        check_images(document, kept=())
        tags = check_labels(labels or {})
        return await self._upload(
            document, told, visibility, tags, timeout, idempotency_key, on_progress, kept=frozenset()
        )

    async def update(
        self,
        name_or_id: str,
        *,
        certification: Certified | Uncertified,
        version: str | None = None,
        patch: Mapping[str, Any] | None = None,
        images: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        on_progress: OnImage | None = None,
    ) -> UploadedCoworld:
        """Add a version of a Coworld that is a change to one on the platform.

        Args:
            name_or_id: `cow_…`, or a name for its canonical version.
            certification: The certification that the result passed, or the reason to upload it without.
            version: The new version; by default the patch's, else the next one.
            patch: A JSON merge patch of the manifest; null deletes.
            labels: Labels of the new version.
            images: Other images, by target: `game`, `player`, `player.ID`, `player[N]`, other roles likewise.
            timeout: Seconds for each attempt of a call to the API.
            idempotency_key: The key of an earlier call, to repeat it.
            on_progress: Called with the progress of each image's upload.

        Raises:
            UsageError: There is nothing to change, or a target names nothing; otherwise as for `upload`.
            ManifestError: The result has errors.
            NotFound: There is no such Coworld.
        """
        tags = check_labels(labels or {})
        if version is None and not patch and not images:
            raise UsageError(
                "There is nothing to change.", code="nothing_to_change", hint="Give a version, a patch, or an image."
            )
        stored = await self.find(name_or_id, timeout=timeout)
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
        told = certification_body(certification, manifest_sha256(loaded.manifest))
        check_images(document, kept=kept)
        return await self._upload(document, told, None, tags, timeout, idempotency_key, on_progress, kept=kept)

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
            image: An image of the local Docker engine, which is uploaded first, or an `img_` id.
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

    async def status(self, coworld_id: str, *, timeout: float | None = None) -> CoworldStatus:
        """One version, with the state of the episodes that the platform plays of it by itself.

        Raises:
            NotFound: It does not exist, or you may not see it.
        """
        coworld = await self.get(coworld_id, timeout=timeout)
        return CoworldStatus(
            coworld=coworld,
            episodes=await self._episodes(coworld.id, timeout),
            certification=await self._certification(coworld.id, timeout),
        )

    async def wait_for_smoke(
        self,
        coworld_id: str,
        *,
        wait_timeout: float = time_limits.HOSTED_SMOKE,
        start_timeout: float | None = None,
        on_change: Callable[[CoworldStatus], object] | None = None,
        timeout: float | None = None,
    ) -> CoworldStatus:
        """Wait until these episodes have ended, or one has failed; check `verdict` and `decided` of the result.

        Args:
            coworld_id: `cow_…`, or a name for its canonical version.
            wait_timeout: Seconds to wait.
            start_timeout: Seconds to wait until the platform has created an episode; None: as long as for the rest.
            on_change: Called with the status, at once and after every change.
            timeout: Seconds for each attempt of a call.

        Raises:
            NotFound: It does not exist, or you may not see it.
        """
        status = await self.status(coworld_id, timeout=timeout)
        coworld_id = status.coworld.id
        if on_change is not None:
            on_change(status)
        pause = _FIRST_PAUSE
        begun_by = anyio.current_time() + (wait_timeout if start_timeout is None else start_timeout)
        with anyio.move_on_after(wait_timeout):
            while not status.decided:
                left = begun_by - anyio.current_time()
                if status.verdict == "none" and left <= 0:
                    break
                await anyio.sleep(min(pause, left) if status.verdict == "none" else pause)
                try:
                    now = await self.status(coworld_id, timeout=timeout)
                except ApiError as error:
                    if not worth_retrying(error, "GET", keyed=False):
                        raise
                    # A platform that is briefly unavailable is not a failure of the Coworld
                    pause = _LONGEST_PAUSE
                    continue
                changed = _standing(now) != _standing(status)
                status = now
                pause = _FIRST_PAUSE if changed else min(pause * 1.5, _LONGEST_PAUSE)
                if changed and on_change is not None:
                    on_change(status)
        return status

    async def _upload(
        self,
        document: dict[str, Any],
        certification: dict[str, Any],
        visibility: str | None,
        tags: dict[str, str],
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
        body = CoworldUploadBody.of(
            manifest=document, certification=certification, visibility=visibility, tags=tags or None
        )
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
        with suppress(ApiStatusError):
            # These are enough: the name's versions if the platform filters by name, else the newest versions of all
            rows = await self.list(name=name, limit=50, timeout=timeout)
            return next((row.id for row in rows if same_coworld(row.name, name) and row.version == version), None)
        return None

    async def _episodes(self, coworld_id: str, timeout: float | None) -> tuple[EpisodeRequest, ...]:
        target = path("/v2/coworlds/{}/episode-requests", check_id(coworld_id, "coworld"))
        params = {"source": "coworld_upload", "limit": 100}
        try:
            return read_list(EpisodeRequest, await self._connection.call("GET", target, params=params, timeout=timeout))
        except ApiStatusError as error:
            if error.status not in (404, 405, 422):
                raise
        # Older platforms do not say where an episode comes from; only episodes of leagues have a round
        rows = await self._client.episodes.list(coworld=coworld_id, limit=1000, timeout=timeout)
        return tuple(row for row in rows if row.round_id is None)

    async def _absent(self, name: str, version: str | None, versions: list[str], timeout: float | None) -> NotFound:
        if not versions:
            # Manifests are long; the newest are enough for a guess
            known = [row.name async for row in self.list(limit=50, timeout=timeout)]
            return no_such(self._client, name, "Coworld", known)
        what = "canonical version" if version is None else f"version {version}"
        hint, context = f"It has {', '.join(versions[:10])}.", {"server": self._client.server}
        return NotFound(f"The Coworld {name!r} has no {what}.", status=404, hint=hint, context=context)

    async def _certification(self, coworld_id: str, timeout: float | None) -> CertificationState | None:
        try:
            return await self.certification(coworld_id, timeout=timeout)
        except (NotFound, Forbidden, NotAuthenticated):
            return None


def _standing(status: CoworldStatus) -> tuple[object, ...]:
    state = status.certification.state if status.certification is not None else None
    return state, *((row.id, str(row.status)) for row in status.episodes)
