"""Running parts of a server: the backend, the worker, and the key of links. Opened with the server."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coworld_core.errors import BackendUnavailable, UsageError

from .evidence.links import LinkSigner
from .identity.worker_login import worker_login
from .store.bell import Bell

if TYPE_CHECKING:
    import httpx2

    from coworld_runner.backend import Backend

    from .hosted.sessions import Sessions
    from .services import Services
    from .settings import Settings
    from .work.admission import Admission, OwnPackages
    from .work.worker import Worker

__all__ = [
    "PROCESS_NOTICE",
    "TRUST_NOTICE",
    "Place",
    "Runtime",
    "open_place",
    "open_runtime",
    "open_worker",
    "worker_name",
]

_log = logging.getLogger("observatory.work.worker")

PROCESS_NOTICE = (
    "Episodes run here as local processes, as the user who runs this server and with nothing kept from them. Only "
    "commands that the operator's own packages declare are run, whatever is uploaded."
)
"""The notice for operators and visitors if episodes run as local processes."""
TRUST_NOTICE = (
    "Episodes run here as local processes, as the user who runs this server and with nothing kept from them. That "
    "includes players' files that are uploaded: whoever has an account here can do what that user "
    "can."
)
"""The notice if uploaded files are trusted."""


@dataclass(frozen=True)
class Place:
    """Where episodes and viewers run: an entered backend, with its admission rules."""

    backend: Backend
    admission: Admission

    @property
    def notice(self) -> str | None:
        """A notice on how programs run; None if they are isolated."""
        if self.backend.capabilities.file_isolation:
            return None
        return TRUST_NOTICE if self.admission.trust_uploads else PROCESS_NOTICE


@dataclass
class Runtime:
    """The parts of a running server besides its stores."""

    links: LinkSigner = field(default_factory=lambda: LinkSigner(secrets.token_bytes(32), ""))
    place: Place | None = None
    """None if this server runs no programs."""
    worker: Worker | None = None
    sessions: Sessions | None = None
    """Hosted games; None if there is no backend."""
    games: httpx2.AsyncClient | None = None
    """Connections to games, while the server runs."""
    bell: Bell = field(default_factory=Bell)
    """Notifies waiting requests of changes."""


@asynccontextmanager
async def open_place(services: Services) -> AsyncGenerator[Place | None]:
    """Open the backend named in the settings; None if they name none.

    ``auto`` is Docker if an engine responds, else local processes if packages are trusted, else none.

    Raises:
        BackendUnavailable: A backend named in the settings cannot be reached.
        UsageError: Local processes without a trusted package.
    """
    settings = services.settings
    if settings.backend == "none":
        yield None
        return
    from .work.admission import Admission, OwnPackages

    packages = OwnPackages(settings.packages)
    if settings.local_processes and not packages:
        raise UsageError(
            "Local processes run what packages of this machine declare, and none was named that builds anything.",
            code="package_missing",
            hint="Name them with --package DIRECTORY; each needs a compose file that builds its images.",
        )
    async with AsyncExitStack() as stack:
        name = settings.backend
        backend: Backend | None = None
        if settings.local_processes:
            name = "process"
        if name == "auto":
            try:
                backend = await stack.enter_async_context(
                    _make(services, "docker", packages, await worker_login(services))
                )
                name = "docker"
            except BackendUnavailable as error:
                _log.warning("Nothing is run here: %s", error.message)
                yield None
                return
        if backend is None:
            backend = await stack.enter_async_context(_make(services, name, packages, await worker_login(services)))
        registry = services.settings.registry if backend.capabilities.images else None
        trusted = registry is None and settings.trust_uploads
        yield Place(backend, Admission(registry=registry, packages=packages, trust_uploads=trusted))


def _make(services: Services, name: str, packages: OwnPackages, login: tuple[str, str]) -> Backend:
    if name == "process":
        from coworld_runner.backends.process.backend import ProcessBackend

        return ProcessBackend(contexts=packages)
    if name == "docker":
        from coworld_runner.backends.docker.backend import DockerBackend

        return DockerBackend(logins={services.settings.registry: login})
    return _cluster(services.settings)


def _cluster(settings: Settings) -> Backend:
    """The cluster of the kubeconfig; its nodes pull images themselves, with Secrets of the cluster."""
    from coworld_runner.backends.kubernetes.backend import KubernetesBackend

    if not settings.pull_secrets:
        _log.warning(
            "The cluster pulls images from %s without a login, so only those that public Coworlds name: make one with "
            "`observatory pull-secret | kubectl apply -f -`, and name it with --pull-secret.",
            settings.registry,
        )
    return KubernetesBackend(pull_secrets=settings.pull_secrets)


@asynccontextmanager
async def open_worker(services: Services, place: Place, *, owner: str) -> AsyncGenerator[Worker]:
    """Run a worker according to the settings while the context is open."""
    from coworld_runner.episode.running import EpisodeOptions

    from .operating.presence import announced
    from .work.worker import Worker, WorkerOptions

    settings = services.settings
    options = WorkerOptions(
        parallel=settings.parallel,
        lease=settings.lease,
        # The game decides how a player's fault affects the scores.
        episode=EpisodeOptions(timeout=settings.episode_timeout, on_player_failure="continue"),
    )
    worker = Worker(services, place.backend, place.admission, owner=owner, options=options)
    async with announced(services.database, worker, place.backend.name, owner), worker.running():
        yield worker


@asynccontextmanager
async def open_runtime(services: Services) -> AsyncGenerator[Runtime]:
    """Open everything that runs beside a server in ``services.runtime``."""
    settings = services.settings
    runtime = services.runtime
    runtime.links = LinkSigner(await _key(services), settings.url)
    async with AsyncExitStack() as stack:
        runtime.place = await stack.enter_async_context(open_place(services))
        try:
            if runtime.place is not None and settings.parallel > 0:
                runtime.worker = await stack.enter_async_context(
                    open_worker(services, runtime.place, owner=owner_name(settings, "server"))
                )
            yield runtime
        finally:
            runtime.place = runtime.worker = None


def owner_name(settings: Settings, role: str) -> str:
    """A worker's name: stable across restarts of the server of a data directory, and different from all others."""
    import socket

    return f"{role}@{socket.gethostname()}:{settings.data.absolute()}"[:250]


def worker_name() -> str:
    """A unique name for a separate worker."""
    import os
    import socket

    return f"worker@{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


async def _key(services: Services) -> bytes:
    try:
        return await services.vault.get("keys", "artifact-links")
    except FileNotFoundError:
        await services.vault.put("keys", "artifact-links", secrets.token_bytes(32))
        return await services.vault.get("keys", "artifact-links")
