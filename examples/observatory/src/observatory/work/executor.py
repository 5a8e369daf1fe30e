"""Where episodes and viewers run: the backend of the settings, and which programs it may run."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.errors import BackendUnavailable, UsageError

from ..identity.worker_login import worker_login
from ..store.columns import now
from ..store.models import WORKER_GONE, WorkerRow

if TYPE_CHECKING:
    from coworld_runner.backend import Backend

    from ..services import Services
    from ..settings import Settings
    from .admission import Admission, OwnPackages

__all__ = [
    "PROCESS_NOTICE",
    "TRUST_NOTICE",
    "Executor",
    "open_executor",
    "sole_admission",
    "worker_name",
]

_log = logging.getLogger("observatory.work.worker")

PROCESS_NOTICE = (
    "Episodes run here as local processes, as the user who runs this server and without isolation. Only commands that "
    "the operator's own packages declare are run; uploaded code is not."
)
"""The notice for operators and visitors if episodes run as local processes."""
TRUST_NOTICE = (
    "Episodes run here as local processes, as the user who runs this server and without isolation. That includes "
    "uploaded players' files: whoever has an account here can do everything that this user can."
)
"""The notice if uploaded files are trusted."""


@dataclass(frozen=True)
class Executor:
    """Where episodes and viewers run: an entered backend, with its admission rules."""

    backend: Backend
    admission: Admission

    @property
    def notice(self) -> str | None:
        """A notice on how programs run; None if they are isolated."""
        if self.backend.capabilities.file_isolation:
            return None
        return TRUST_NOTICE if self.admission.trust_uploads else PROCESS_NOTICE


@asynccontextmanager
async def open_executor(services: Services) -> AsyncGenerator[Executor | None]:
    """Open the backend named in the settings; None if they name none.

    `auto` is Docker if an engine responds, else local processes if packages are trusted, else none.

    Raises:
        BackendUnavailable: A backend named in the settings cannot be reached.
        UsageError: Local processes without a trusted package.
    """
    settings = services.settings
    if settings.backend == "none":
        yield None
        return
    from .admission import Admission, OwnPackages

    packages = OwnPackages(settings.packages)
    if settings.local_processes and not packages:
        raise UsageError(
            "Local processes can run only what packages on this machine declare, and none of the named packages "
            "builds an image.",
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
                    _make(services, "docker", packages, worker_login(services.vault))
                )
                name = "docker"
            except BackendUnavailable as error:
                _log.warning("No episodes run here: %s", error.message)
                yield None
                return
        if backend is None:
            backend = await stack.enter_async_context(_make(services, name, packages, worker_login(services.vault)))
        registry = services.settings.registry if backend.capabilities.images else None
        trusted = registry is None and settings.trust_uploads
        yield Executor(backend, Admission(registry=registry, packages=packages, trust_uploads=trusted))


async def sole_admission(services: Services, session: AsyncSession) -> Admission | None:
    """What this server may run, if nothing else of the platform runs more; None if that cannot be said.

    It cannot where there are containers, which run every upload, or where other workers may have them.
    """
    executor = services.runtime.executor
    if executor is None or executor.backend.capabilities.images:
        return None
    alive = WorkerRow.seen_at > now() - WORKER_GONE
    others = sa.select(WorkerRow.name).where(WorkerRow.backend != executor.backend.name, alive)
    return executor.admission if await session.scalar(others.limit(1)) is None else None


def _make(services: Services, name: str, packages: OwnPackages, login: tuple[str, str]) -> Backend:
    if name == "process":
        from coworld_runner.backends import ProcessBackend

        return ProcessBackend(contexts=packages)
    if name == "docker":
        from coworld_runner.backends import DockerBackend

        return DockerBackend(logins={services.settings.registry: login})
    return _cluster(services.settings)


def _cluster(settings: Settings) -> Backend:
    """The cluster of the kubeconfig; its nodes pull images themselves, with Secrets of the cluster."""
    from coworld_runner import make_backend
    from coworld_runner.backends import ClusterOptions

    if not settings.pull_secrets:
        _log.warning(
            "The cluster pulls images from %s without a login, so only those that public Coworlds name: make one with "
            "`observatory pull-secret | kubectl apply -f -`, and name it with --pull-secret.",
            settings.registry,
        )
    cluster = ClusterOptions(
        namespace=settings.namespace,
        pull_secrets=settings.pull_secrets,
        pods=settings.pods,
        allow_privileged=settings.allow_privileged,
    )
    return make_backend("kubernetes", cluster=cluster)


def worker_name() -> str:
    """A unique name for a separate worker."""
    import os
    import socket

    return f"worker@{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
