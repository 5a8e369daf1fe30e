"""Opens a package that is to be played: with its files, and with images where there are none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import anyio

from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.manifest.manifest_file import MANIFEST_NAME

from ..backend import Publish
from ..episode.backend_choice import choose_backend
from ..package.resolver import DOWNLOADS, Package, PackageSource, coworld_id, resolve_package
from .rebuild import build_again

__all__ = ["open_package"]

_NO_IMAGES = "The platform has no images of it, so they are built here from its files."


def _unwatched(why: str) -> AbstractContextManager[None]:
    return nullcontext()


async def open_package(
    source: PackageSource,
    *,
    build: bool = False,
    backend: str = "auto",
    platform: str | None = None,
    environment: Mapping[str, str] | None = None,
    server: str | None = None,
    download: Callable[[str, Path], Awaitable[object]] | None = None,
    building: Callable[[str], AbstractContextManager[Publish | None]] = _unwatched,
) -> Package:
    """Find a package and bring it to where it can be played: downloaded, and built where it has to be.

    ::

        async with CoworldClient.from_login() as api:
            package = await open_package("cow_…", download=api.coworlds.download)

    Args:
        source: As for `resolve_package`. A Coworld that is named by its id is downloaded into `coworld`, unless it was
            downloaded before.
        build: Whether to build its images in any case, so that they have its sources as they are now.
        backend: Where it is to be played. Files that a platform has no images of are built for Docker.
        platform: os/architecture to build for; None: as the compose file says.
        environment: Environment variables for its game and its players, in addition to those of the manifest.
        server: Base address of the API, for the id of a Coworld that is not downloaded.
        download: Downloads a Coworld into a directory of its id in the given one, as `api.coworlds.download` of the
            client does; None: only its manifest is fetched, from `server`.
        building: Called before images are built, with the reason in words, or "" if that was asked for. The context
            that it returns is open while they are built, and yields what receives events.

    Raises:
        UsageError: As for `resolve_package`; or images are to be built for local processes (`build_without_images`),
            there is nothing to build them from (`nothing_to_build`), or a variable cannot be set.
        ManifestError: The manifest has errors; the report lists all of them.
        RemoteError: As for `resolve_package`.
        CoworldError: See `build_coworld`; or raised by `download`.
    """
    if build and backend == "process":
        raise UsageError(
            "Images are to be built, and local processes run the sources without them.",
            code="build_without_images",
            hint=Hint("build_or_process", "Build none, or name another backend."),
        )
    named = coworld_id(source) if isinstance(source, str) else None
    if named is not None and download is not None and not await anyio.Path(DOWNLOADS, named, MANIFEST_NAME).is_file():
        await download(named, DOWNLOADS)
    package = await resolve_package(source, server=server)
    why = ""
    if package.needs_build and (await choose_backend(backend, package)).name == "docker":
        why = _NO_IMAGES
    if build or why:
        with building(why) as publish:
            package = await build_again(package, platform=platform, publish=publish)
    return package.with_environment(environment or {})
