"""What runs things in a server: the backend, the worker on it, and the key of links. Opened with the server."""

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
"""What the operator and visitors are told where local processes run."""
TRUST_NOTICE = (
    "Episodes run here as local processes, as the user who runs this server and with nothing kept from them. That "
    "includes players' files that are uploaded (--trust-uploads): whoever has an account here can do what that user "
    "can."
)
"""What they are told where files that were uploaded are trusted."""


@dataclass(frozen=True)
class Place:
    """Where episodes and viewers run: an entered backend, and what may run there."""

    backend: Backend
    admission: Admission

    @property
    def notice(self) -> str | None:
        """What whoever comes here should know of how programs run; None: each is kept to itself."""
        if self.backend.capabilities.file_isolation:
            return None
        return TRUST_NOTICE if self.admission.trust_uploads else PROCESS_NOTICE


@dataclass
class Runtime:
    """What a server has beside its stores while it runs."""

    links: LinkSigner = field(default_factory=lambda: LinkSigner(secrets.token_bytes(32), ""))
    place: Place | None = None
    """None: this server runs nothing itself."""
    worker: Worker | None = None
    sessions: Sessions | None = None
    """Games that run for people; None: none do."""
    games: httpx2.AsyncClient | None = None
    """Connections to games, while the server runs."""
    bell: Bell = field(default_factory=Bell)
    """Tells who waits that something has changed."""


@asynccontextmanager
async def open_place(services: Services) -> AsyncGenerator[Place | None]:
    """The backend that the settings name; None when they name none.

    ``auto`` is Docker where an engine answers, else local processes where packages are trusted, else none.

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
    """The cluster of the kubeconfig; its nodes pull the images themselves, with what is in its own Secrets."""
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
    """A worker that works, as the settings say, while the context is open."""
    from coworld_runner.episode.running import EpisodeOptions

    from .operating.presence import announced
    from .work.worker import Worker, WorkerOptions

    settings = services.settings
    options = WorkerOptions(
        parallel=settings.parallel,
        lease=settings.lease,
        # what a player does wrong is the game's to score
        episode=EpisodeOptions(timeout=settings.episode_timeout, on_player_failure="continue"),
    )
    worker = Worker(services, place.backend, place.admission, owner=owner, options=options)
    async with announced(services.database, worker, place.backend.name, owner), worker.running():
        yield worker


@asynccontextmanager
async def open_runtime(services: Services) -> AsyncGenerator[Runtime]:
    """Everything that runs beside a server, put into ``services.runtime``."""
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
    """A worker's name: the same after a restart of the only server of a data directory, never that of another."""
    import socket

    return f"{role}@{socket.gethostname()}:{settings.data.absolute()}"[:250]


def worker_name() -> str:
    """A name for a worker of its own: no other has it, before or after."""
    import os
    import socket

    return f"worker@{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


async def _key(services: Services) -> bytes:
    try:
        return await services.vault.get("keys", "artifact-links")
    except FileNotFoundError:
        await services.vault.put("keys", "artifact-links", secrets.token_bytes(32))
        return await services.vault.get("keys", "artifact-links")
