"""Running parts of a server: the backend, the worker, and the key of links. Opened with the server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .episodes.signed_links import LinkSigner
from .store.change_notifier import ChangeNotifier
from .work.executor import Executor, open_executor

if TYPE_CHECKING:
    import httpx2

    from .hosted.sessions import Sessions
    from .operations.metrics import PlatformMetrics
    from .operations.traces import PlatformTraces
    from .services import Services
    from .settings import Settings
    from .store.vault import Vault
    from .work.worker import Worker

__all__ = [
    "Runtime",
    "open_runtime",
    "open_worker",
]


@dataclass
class Runtime:
    """The parts of a running server besides its stores."""

    links: LinkSigner
    executor: Executor | None = None
    """None if this server runs no programs."""
    worker: Worker | None = None
    sessions: Sessions | None = None
    """Hosted games; None if there is no backend."""
    games: httpx2.AsyncClient | None = None
    """Connections to games, while the server runs."""
    servers: httpx2.AsyncHTTPTransport | None = None
    """Connections to other servers, while this one runs and has let them know where it is."""
    changes: ChangeNotifier = field(default_factory=ChangeNotifier)
    """Notifies waiting requests of changes."""
    metrics: PlatformMetrics | None = None
    """None unless an operator asked for metrics."""
    traces: PlatformTraces | None = None
    """None unless an operator asked for traces."""
    store_trouble: str = ""
    """Why nothing could be stored when that was last tried; empty if it could."""
    store_checked: float = float("-inf")
    """When that was, by the event loop's clock."""

    @classmethod
    def of(cls, vault: Vault, settings: Settings) -> Runtime:
        """The parts before anything runs: whichever server has made a link, all know it."""
        return cls(LinkSigner(vault.key("links"), settings.url))


@asynccontextmanager
async def open_worker(services: Services, executor: Executor, *, owner: str) -> AsyncGenerator[Worker]:
    """Run a worker according to the settings while the context is open."""
    from coworld_runner.episode import EpisodeOptions

    from .operations.heartbeat import heartbeat
    from .operations.unused_images import clearing_engine
    from .work.worker import Worker, WorkerOptions

    settings = services.settings
    options = WorkerOptions(
        parallel=settings.parallel,
        lease=settings.lease,
        # The game decides how a player's fault affects the scores.
        episode=EpisodeOptions(
            timeout_seconds=settings.episode_timeout,
            connect_timeout_seconds=settings.connect_timeout,
            on_player_failure="continue",
        ),
    )
    watching = (services.runtime.metrics, services.runtime.traces)
    listeners = tuple(each.runs for each in watching if each is not None)
    worker = Worker(services, executor.backend, executor.admission, owner=owner, options=options, listeners=listeners)
    async with (
        heartbeat(services.database, worker, executor.backend.name, owner),
        worker.running(),
        clearing_engine(services, executor.backend, executor.admission.registry),
    ):
        yield worker


@asynccontextmanager
async def open_runtime(services: Services) -> AsyncGenerator[Runtime]:
    """Open everything that runs beside a server in `services.runtime`."""
    settings = services.settings
    runtime = services.runtime
    async with AsyncExitStack() as stack:
        runtime.executor = await stack.enter_async_context(open_executor(services))
        try:
            if runtime.executor is not None and settings.parallel > 0:
                runtime.worker = await stack.enter_async_context(
                    open_worker(services, runtime.executor, owner=settings.owner("server"))
                )
            yield runtime
        finally:
            runtime.executor = runtime.worker = None
