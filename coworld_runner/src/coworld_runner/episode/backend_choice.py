"""Selects the backend that runs a package."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from coworld_core.errors import BackendUnavailable
from coworld_core.hints import Hint
from coworld_core.manifest.models import Runnable
from coworld_core.operating_system import require_posix

from ..backend import Backend
from ..backends.registry import BackendOptions, ClusterOptions, find_backend
from ..package.resolver import Package

__all__ = [
    "BackendChoice",
    "choose_backend",
    "make_backend",
    "open_backend",
]

_MAKE = Hint("make_images", "build_coworld makes the images.")
_UPDATE = Hint("update_images", "build_coworld brings them up to date.")


@dataclass(frozen=True)
class BackendChoice:
    """A backend's name, and the reason for choosing it."""

    name: str
    reason: str
    hint: str | None = None
    """How to make the images, if they are missing or older than their sources."""


def runs_as_processes(package: Package) -> str:
    """Return why a package cannot run as local processes; empty if it can."""
    runnables: Iterable[tuple[str, Runnable]] = [
        ("the game", package.manifest.game.runnable),
        *((f"player {entry.id!r}", entry.as_runnable()) for entry in package.manifest.player if entry.file is None),
    ]
    for who, runnable in runnables:
        if runnable.image not in package.contexts:
            return f"neither compose file nor Dockerfile beside the manifest says what the image of {who} is built from"
        if not runnable.run:
            return f"{who} has no `run` command in the manifest, only an image"
    return ""


async def choose_backend(name: str, package: Package) -> BackendChoice:
    """Choose between Docker and local processes for `auto`; keep any other name.

    For `auto`, a fetched package never runs as local processes, which are for trusted code. A package that cannot run
    as processes uses Docker. A template has no images, nor have downloaded files, so they run as processes. A built
    package runs on Docker if an engine answers and has the game's image, otherwise as processes. If sources have
    changed since the images were built, it runs as processes, too, so that the current code is played; if it cannot,
    the reason says what has changed.
    """
    if name == "process":
        return BackendChoice(name, "as asked")
    reason_against = runs_as_processes(package)
    if name == "auto" and package.fetched:
        return BackendChoice("docker", "the package comes from elsewhere, and only containers keep it apart")
    if name == "auto" and (package.is_template or package.needs_build):
        if not reason_against:
            return BackendChoice("process", "the images are not built yet", _MAKE)
        return BackendChoice("docker", reason_against)
    from ..package.changed_sources import changed_since_build

    changed = await anyio.to_thread.run_sync(changed_since_build, package)
    stale = f"{changed} has changed since the images were built"
    if name != "auto":
        return BackendChoice(name, f"as asked, but {stale}", _UPDATE) if changed else BackendChoice(name, "as asked")
    if reason_against:
        if changed:
            return BackendChoice("docker", f"{reason_against}; but {stale}", _UPDATE)
        return BackendChoice("docker", reason_against)
    if changed:
        return BackendChoice("process", stale, _UPDATE)
    backend = make_backend("docker", package)
    try:
        async with backend:
            if await backend.has_image(package.manifest.game.runnable.image):
                return BackendChoice("docker", "the engine answers and has the game's image")
    except BackendUnavailable as error:
        return BackendChoice("process", f"no Docker engine: {error.message}")
    return BackendChoice("process", "the engine does not have the game's image", _MAKE)


def make_backend(
    name: str, package: Package | None = None, *, cluster: ClusterOptions | None = None, install: bool = False
) -> Backend:
    """Create a backend without entering it; its module is imported only now.

    Args:
        name: Name of an installed backend.
        package: The package to run, for a backend that needs its build contexts.
        cluster: The cluster, for a backend that runs on one.
        install: Whether a package gets an environment of its own, with what its Dockerfile installs by pip, on a
            backend that runs it outside its image.

    Raises:
        UsageError: There is no backend of that name.
        BackendUnavailable: The backend installed under that name cannot be used.
        EnvironmentFault: Nothing can be played on this system.
    """
    require_posix()
    contexts: Mapping[str, Path] = package.contexts if package is not None else {}
    options = BackendOptions(contexts=contexts, cluster=cluster or ClusterOptions(), install=install)
    return find_backend(name)(options)


@asynccontextmanager
async def open_backend(
    name: str, package: Package, *, cluster: ClusterOptions | None = None, install: bool = False
) -> AsyncGenerator[tuple[Backend, BackendChoice]]:
    """Open a backend for a package, as `make_backend` makes it; yields it, entered, and the reason for choosing it."""
    choice = await choose_backend(name, package)
    async with make_backend(choice.name, package, cluster=cluster, install=install) as backend:
        yield backend, choice
