"""Coworlds on the platform."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from coworld_core.api import CertificationState, Coworld, check_id, same_coworld
from coworld_core.manifest.loading import MANIFEST_NAME, load_manifest
from coworld_core.versions import highest_version, next_version

from ..errors import ApiShapeError, NotFound
from ..pages import AsyncPager
from ..transport._connection import path
from ..uploads._edits import replace_images
from ._coworld_trials import CoworldTrials
from ._coworld_uploads import CoworldUploads

if TYPE_CHECKING:
    from ..uploads.packages import DownloadedCoworld, OnPull

__all__ = ["Coworlds"]


class Coworlds(CoworldUploads, CoworldTrials):
    """Coworlds: games with their players and variants."""

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
        """Find a version by its id, or by a name: then the canonical version, or the given one.

        Args:
            name_or_id: ``cow_…``, or a name; hyphens and underscores are equal.
            version: A version other than the canonical one; ignored with an id.
            timeout: Seconds for each attempt.

        Raises:
            NotFound: There is no Coworld of that name, or it has no canonical version, or not the given one.
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
        """The state of the platform's own certification of a version, on servers that certify.

        Raises:
            NotFound: There is no such version, or the server does not certify.
        """
        target = path("/v2/coworlds/{}/certification", check_id(coworld_id, "coworld"))
        return await self._get(CertificationState, target, timeout=timeout)

    async def next_version(self, name: str, *, timeout: float | None = None) -> str:
        """The version for the next upload of a name: the one after the highest version on the platform.

        Raises:
            NotFound: If there is no Coworld of that name.
        """
        versions = [row.version async for row in self.list(name=name, timeout=timeout)]
        highest = highest_version(versions)
        if highest is None:
            raise _absent(name, None, [], self._client.server)
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
        """Download a Coworld into ``<directory>/<cow_id>/``, unless it was downloaded there before.

        Without ``pull`` the manifest names the public images, which are pulled when it is run. With ``pull`` they are
        pulled now, and the manifest names them as ``coworld/<cow_id>/<name>-<version>-<n>:downloaded``.

        Args:
            name_or_id: ``cow_…``, or a name for its canonical version.
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
        if not name_or_id.startswith("cow_"):
            found = await self.find(name_or_id, timeout=timeout)
        identifier = check_id(found.id if found is not None else name_or_id, "coworld")
        place = await anyio.to_thread.run_sync(packages.place_of, directory, identifier)
        present = None if refresh else await anyio.to_thread.run_sync(packages.find_downloaded, place)
        if present is not None and (present.pulled or not pull):
            return present
        if found is None:
            found = await self.get(identifier, timeout=timeout)
        if found.id != identifier:
            raise ApiShapeError(
                f"{self._client.server} answered {found.id} when asked for {identifier}.", code="api_shape"
            )
        document: dict[str, Any] = json.loads(json.dumps(found.manifest))
        loaded = await anyio.to_thread.run_sync(load_manifest, document)
        game = loaded.manifest.game
        images = packages.images_of(identifier, game.name, game.version, document)
        if pull:
            await packages.pull_images(self._client, images, document, on_pull)
            local = {image.public_image_uri: image.local_image for image in images}
            replace_images(document, lambda image: local.get(image, image))
        listed = {
            "coworld_id": identifier,
            "name": game.name,
            "version": game.version,
            "images": [dataclasses.asdict(image) for image in images],
        }
        await anyio.to_thread.run_sync(packages.store, place, document, listed)
        return packages.DownloadedCoworld(
            id=identifier,
            name=game.name,
            version=game.version,
            directory=place,
            manifest=place / MANIFEST_NAME,
            images=images,
            pulled=pull,
            cached=False,
        )


def _absent(name: str, version: str | None, versions: list[str], server: str) -> NotFound:
    if not versions:
        said, hint = f"There is no Coworld named {name!r}.", "`coworld list` shows what there is."
    else:
        what = "canonical version" if version is None else f"version {version}"
        said, hint = f"The Coworld {name!r} has no {what}.", f"It has {', '.join(versions[:10])}."
    return NotFound(said, status=404, hint=hint, context={"server": server})
