"""Rebuilds a package, so that the current state of its sources runs."""

from __future__ import annotations

from coworld_core.errors import UsageError
from coworld_core.hints import Hint

from ..backend import Publish
from ..package.resolver import Package, resolve_package
from .manifest_build import build_coworld

__all__ = ["build_again"]


async def build_again(package: Package, *, platform: str | None = None, publish: Publish | None = None) -> Package:
    """Rebuild a package's images, and write its manifest to the same place.

    Steps whose inputs have not changed come from the engine's cache.

    Args:
        package: A template, or a package that was built on this machine.
        platform: os/architecture to build for; None: as the compose file says.
        publish: Receives events.

    Returns:
        The package after the build.

    Raises:
        UsageError: It was fetched from elsewhere, so there are no sources to build it from.
        CoworldError: See `build_coworld`.
    """
    if (package.fetched and not package.contexts) or package.path is None or package.directory is None:
        raise UsageError(
            f"{package.source} comes from elsewhere, and its sources are not on this machine, so it cannot be built.",
            code="nothing_to_build",
            hint=Hint("name_sources", "Name the directory that it is built from."),
        )
    if package.is_template:
        built = await build_coworld(package.path, platform=platform, publish=publish)
    else:
        # A build writes the manifest to dist/ if the template itself has the manifest's name
        below = package.directory.name == "dist"
        project = package.directory.parent if below else package.directory
        version = package.manifest.game.version if package.as_files else None
        built = await build_coworld(project, version=version, output=package.path, platform=platform, publish=publish)
    again = await resolve_package(built.manifest_path)
    return again.with_environment(package.environment)
