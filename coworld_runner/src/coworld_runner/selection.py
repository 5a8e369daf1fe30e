"""Which backend runs a package, and why."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coworld_core.errors import BackendUnavailable, UsageError
from coworld_core.manifest import Runnable

from .backend import Backend
from .packages import Package

__all__ = [
    "BackendChoice",
    "BackendName",
    "ClusterOptions",
    "PlaceName",
    "choose_backend",
    "make_backend",
    "open_backend",
]

BackendName = Literal["auto", "process", "docker", "kubernetes"]
PlaceName = Literal["process", "docker", "kubernetes"]


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Which cluster, and how pods are made there; what is None is found out, as ``KubernetesBackend`` says."""

    context: str | None = None
    namespace: str | None = None
    kubeconfig: Path | None = None
    collector_image: str | None = None
    network_policy: bool | None = None
    pull_secrets: tuple[str, ...] = ()


@dataclass(frozen=True)
class BackendChoice:
    """A backend's name, and why it was taken."""

    name: PlaceName
    reason: str


def runs_as_processes(package: Package) -> str:
    """Why a package cannot run as local processes; empty when it can."""
    runnables: Iterable[tuple[str, Runnable]] = [
        ("the game", package.manifest.game.runnable),
        *((f"player {entry.id!r}", entry.as_runnable()) for entry in package.manifest.player),
    ]
    for who, runnable in runnables:
        if not runnable.run:
            return f"{who} has no `run` command in the manifest, only an image"
        if runnable.image not in package.contexts:
            return f"no compose file beside the manifest says from which directory the image of {who} is built"
    return ""


async def choose_backend(name: BackendName, package: Package) -> BackendChoice:
    """Decide for ``auto``; take any other name as it is.

    A package fetched from elsewhere never becomes local processes by itself: those are for code you trust. A template
    has no images, so it runs as processes. A built package runs on Docker where an engine answers and holds the game's
    image, else as processes where it can.
    """
    if name != "auto":
        return BackendChoice(name, "as asked")
    hindrance = runs_as_processes(package)
    if package.fetched:
        return BackendChoice("docker", "the package comes from elsewhere, and only containers keep it apart")
    if package.manifest.is_template:
        if not hindrance:
            return BackendChoice("process", "the images are not built yet; `coworld build` makes them")
        return BackendChoice("docker", hindrance)
    if hindrance:
        return BackendChoice("docker", hindrance)
    backend = make_backend("docker", package)
    try:
        async with backend:
            if await backend.has_image(package.manifest.game.runnable.image):
                return BackendChoice("docker", "the engine answers and has the game's image")
    except BackendUnavailable as error:
        return BackendChoice("process", f"no Docker engine: {error.message}")
    return BackendChoice("process", "the engine does not have the game's image; `coworld build` makes it")


def make_backend(name: PlaceName, package: Package | None = None, *, cluster: ClusterOptions | None = None) -> Backend:
    """A backend, not yet entered; its module is imported only now.

    Args:
        name: Which.
        package: What is to run there, for a backend that needs its build contexts.
        cluster: Which cluster, for the one that runs pods.

    Raises:
        UsageError: There is no backend of that name.
    """
    if name == "process":
        from .backends.process import ProcessBackend

        return ProcessBackend(contexts=package.contexts if package is not None else {})
    if name == "docker":
        from .backends.docker import DockerBackend

        return DockerBackend()
    if name == "kubernetes":
        from .backends.kubernetes import KubernetesBackend

        chosen = cluster or ClusterOptions()
        return KubernetesBackend(
            context=chosen.context,
            namespace=chosen.namespace,
            kubeconfig=chosen.kubeconfig,
            collector_image=chosen.collector_image,
            network_policy=chosen.network_policy,
            pull_secrets=chosen.pull_secrets,
        )
    raise UsageError(
        f"There is no backend {name!r}.", code="unknown_backend", hint="Use auto, process, docker or kubernetes."
    )


@asynccontextmanager
async def open_backend(
    name: BackendName, package: Package, *, cluster: ClusterOptions | None = None
) -> AsyncGenerator[tuple[Backend, BackendChoice]]:
    """An entered backend for a package, and why it was taken."""
    choice = await choose_backend(name, package)
    async with make_backend(choice.name, package, cluster=cluster) as backend:
        yield backend, choice
