"""Coworlds on the platform."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coworld_core import durations
from coworld_core.api import (
    CertificationState,
    Coworld,
    PatchCommissionerBody,
    check_id,
    is_image_id,
    same_coworld,
)
from coworld_core.manifest.loading import LoadedManifest, Source
from coworld_core.versions import highest_version, next_version

from ..errors import NotFound
from ..pages import AsyncPager
from ..transport._connection import path
from ._base import Resource

if TYPE_CHECKING:
    from ..uploads import Certified, OnImage, Uncertified, UploadedCoworld
    from ..uploads.packages import DownloadedCoworld, OnPull
    from ..uploads.smoke import CoworldStatus

__all__ = ["Coworlds"]


class Coworlds(Resource):
    """Coworlds: what can be played."""

    def list(
        self,
        *,
        name: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> AsyncPager[Coworld]:
        """All versions of all Coworlds, with their manifests; newest first.

        Args:
            name: Only those of this name; hyphens and underscores are equal.
            limit: Maximum number of rows.
            offset: Number of the server's rows to skip.
            cursor: Where to start, from an earlier page.
            timeout: Seconds for each attempt.
        """

        async def prepare() -> Callable[[Coworld], bool]:
            return lambda row: same_coworld(row.name, name or row.name)

        # manifests are long, so a page has fewer of them; not every server filters by name
        return self._list(
            Coworld,
            "/v2/coworlds",
            {"name": name},
            limit=limit,
            offset=offset,
            cursor=cursor,
            page_size=50,
            keep=prepare if name is not None else None,
            timeout=timeout,
        )

    async def get(self, coworld_id: str, *, timeout: float | None = None) -> Coworld:
        """One version, by its ``cow_`` id. Public ones need no sign-in.

        Raises:
            NotFound: If it does not exist, or you may not see it.
        """
        target = path("/v2/coworlds/{}", check_id(coworld_id, "coworld"))
        return await self._get(Coworld, target, timeout=timeout)

    async def find(self, name_or_id: str, *, version: str | None = None, timeout: float | None = None) -> Coworld:
        """The version that a name means: the canonical one, or the one asked for. An id is taken as it is.

        Args:
            name_or_id: ``cow_…``, or a name; hyphens and underscores are equal.
            version: A version other than the canonical.
            timeout: Seconds for each attempt.

        Raises:
            NotFound: There is none of that name, or none is canonical.
        """
        if name_or_id.startswith("cow_"):
            return await self.get(name_or_id, timeout=timeout)
        versions: list[str] = []
        async for row in self.list(name=name_or_id, timeout=timeout):
            if row.canonical if version is None else row.version == version:
                return row
            versions.append(row.version)
        raise _absent(name_or_id, version, versions, self._client.server)

    async def certification(self, coworld_id: str, *, timeout: float | None = None) -> CertificationState:
        """Where the platform's own certification of a version stands, on servers that have one.

        Raises:
            NotFound: There is no such version, or the server does not certify.
        """
        target = path("/v2/coworlds/{}/certification", check_id(coworld_id, "coworld"))
        return await self._get(CertificationState, target, timeout=timeout)

    async def next_version(self, name: str, *, timeout: float | None = None) -> str:
        """The version that the next upload of a name should have: one after the highest there is.

        Raises:
            NotFound: If there is none with that name.
        """
        versions = [row.version async for row in self.list(name=name, timeout=timeout)]
        highest = highest_version(versions)
        if highest is None:
            raise _absent(name, None, [], self._client.server)
        return next_version(highest)

    async def status(self, coworld_id: str, *, timeout: float | None = None) -> CoworldStatus:
        """One version, and how the episodes that the platform plays of it by itself stand.

        Raises:
            NotFound: If it does not exist, or you may not see it.
        """
        from ..uploads.smoke import coworld_status

        return await coworld_status(self._client, coworld_id, timeout=timeout)

    async def wait_for_smoke(
        self,
        coworld_id: str,
        *,
        deadline: float = durations.HOSTED_SMOKE,
        begins_within: float | None = None,
        on_change: Callable[[CoworldStatus], object] | None = None,
        timeout: float | None = None,
    ) -> CoworldStatus:
        """Wait until those episodes have ended, or one has failed; look at ``verdict``, and at ``decided``.

        Args:
            coworld_id: ``cow_…``.
            deadline: Seconds to wait.
            begins_within: Seconds after which episodes that have not begun are waited for no longer; None: until the
                deadline.
            on_change: Told how it stands, first and whenever that has changed.
            timeout: Seconds for each attempt of a call.

        Raises:
            NotFound: If it does not exist, or you may not see it.
        """
        from ..uploads.smoke import wait_for_smoke

        return await wait_for_smoke(
            self._client,
            coworld_id,
            deadline=deadline,
            begins_within=begins_within,
            on_change=on_change,
            timeout=timeout,
        )

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
        """Get a Coworld into ``<directory>/<cow_id>/``; one that is there is not fetched again.

        Args:
            name_or_id: ``cow_…``, or a name for its canonical version.
            directory: Where downloads are kept.
            refresh: Get it anew even if it is here.
            pull: Fetch its images with the Docker engine now; else whoever runs it fetches them.
            timeout: Seconds for each attempt.
            on_pull: Called with the progress of each image.

        Raises:
            NotFound: If it does not exist, or you may not see it.
            ManifestError: Its manifest cannot be used.
            ImageError: An image is not published, or cannot be fetched.
            EnvironmentFault: It cannot be stored, or there is no Docker engine.
        """
        from ..uploads.packages import download_coworld

        return await download_coworld(
            self._client, name_or_id, directory, refresh=refresh, pull=pull, timeout=timeout, on_pull=on_pull
        )

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
            certification: That it passed certification, or why it is uploaded without.
            visibility: ``public`` or ``private``; the platform's default when None.
            timeout: Seconds for each attempt of a call to the API.
            idempotency_key: The key of an earlier call, to repeat that upload.
            on_progress: Called with the progress of each image's upload.

        Raises:
            ManifestError: The manifest has errors.
            UsageError: An image may come to mean something else, or another manifest was certified.
            Conflict: The platform has that version with other content.
            ImageError: The Docker engine lacks an image, or it is for another platform.
        """
        from ..uploads import upload_coworld

        return await upload_coworld(
            self._client,
            manifest,
            certification=certification,
            visibility=visibility,
            timeout=timeout,
            idempotency_key=idempotency_key,
            on_progress=on_progress,
        )

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
        """Add a version of a Coworld that differs from one the platform has.

        Args:
            name_or_id: ``cow_…``, or a name for its canonical version.
            certification: That the outcome passed certification, or why it is uploaded without.
            version: The new version; by default the patch's, else the next one.
            patch: A JSON merge patch of the manifest; null deletes.
            images: Other images, by target: ``game``, ``player``, ``player.ID``, ``player[N]``, other roles likewise.
            timeout: Seconds for each attempt of a call to the API.
            idempotency_key: The key of an earlier call, to repeat that upload.
            on_progress: Called with the progress of each image's upload.

        Raises:
            UsageError: There is nothing to change, or a target names nothing; else as for ``upload``.
            ManifestError: What comes out has errors.
            NotFound: If there is no such Coworld.
        """
        from ..uploads import update_coworld

        return await update_coworld(
            self._client,
            name_or_id,
            certification=certification,
            version=version,
            patch=patch,
            images=images,
            timeout=timeout,
            idempotency_key=idempotency_key,
            on_progress=on_progress,
        )

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
            name: Which Coworld.
            image: An image of the local Docker engine, which is uploaded first, or an ``img_`` id.
            runnable_id: Which commissioner, if there are several.
            version: The new version; by default the next one.
            timeout: Seconds for each attempt of a call to the API.
            idempotency_key: Of a call that is repeated.
            on_progress: Called with the progress of the image's upload.

        Raises:
            NotFound: If there is no such Coworld.
            ImageError: The Docker engine has no such image, or it is for another platform.
        """
        image_id = (
            image if is_image_id(image) else (await self._client.images.upload(image, on_progress=on_progress)).image.id
        )
        body = PatchCommissionerBody.of(
            coworld_name=name, container_image_id=image_id, runnable_id=runnable_id, version=version
        )
        return await self._post(
            Coworld, "/v2/coworlds/patch-commissioner", body, timeout=timeout or 120, idempotency_key=idempotency_key
        )


def _absent(name: str, version: str | None, versions: list[str], server: str) -> NotFound:
    if not versions:
        said, hint = f"There is no Coworld named {name!r}.", "`coworld list` shows what there is."
    else:
        what = "canonical version" if version is None else f"version {version}"
        said, hint = f"The Coworld {name!r} has no {what}.", f"It has {', '.join(versions[:10])}."
    return NotFound(said, status=404, hint=hint, context={"server": server})
