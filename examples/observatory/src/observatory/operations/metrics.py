"""Metrics of a platform for Prometheus, and whether it is well, on an address of their own.

They say who waits and what fails, so they are not for the visitors of the platform: `--metrics` gives them an address
that no proxy passes on. Without it there are none.
"""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from coworld_core.errors import EnvironmentFault
from coworld_runner.telemetry import RunMetrics

from ..services import Services
from ..store.columns import now
from ..store.database import newest_revision
from ..store.models import EpisodeRequest, RoleRun, Round
from . import overview

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PlatformMetrics", "platform_trouble", "serving_trouble"]

_REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_STORE_SECONDS = 5.0
"""How long the answer of the store is taken for granted."""
_TIMEOUT = 5.0
"""How long the database may take to answer, and the store, in seconds."""


class PlatformMetrics:
    """The metrics of one server or worker, and of the queue that all of them share.

    Args:
        services: The Observatory's stores.

    Attributes:
        runs: Counts the episodes that are played here; a listener.

    Raises:
        UsageError: `prometheus-client` is not installed (`metrics_missing`).
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self.runs = RunMetrics()
        import prometheus_client as prometheus

        registry = self.runs.registry
        prometheus.ProcessCollector(registry=registry)
        prometheus.PlatformCollector(registry=registry)
        self._requests = prometheus.Histogram(
            "observatory_request_seconds",
            "How long requests took.",
            ["method", "route", "status"],
            buckets=_REQUEST_SECONDS,
            registry=registry,
        )
        self._queue = prometheus.Gauge(
            "observatory_queue", "Episodes and roles that wait or run.", ["what", "status"], registry=registry
        )
        self._oldest = prometheus.Gauge(
            "observatory_queue_oldest_seconds", "How long the oldest has waited.", ["what"], registry=registry
        )
        self._workers = prometheus.Gauge("observatory_workers", "Workers, by state.", ["state"], registry=registry)
        self._rounds = prometheus.Gauge("observatory_rounds_running", "Rounds under way.", registry=registry)
        self._free = prometheus.Gauge(
            "observatory_disk_free_bytes", "Free space on the disk of the data directory.", registry=registry
        )

    def note_request(self, scope: Mapping[str, Any], status: int, seconds: float) -> None:
        """Count a request, by the pattern of its path and not by the path, of which there are as many as visitors."""
        pattern = getattr(scope.get("route"), "path", None)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._requests.labels(method, pattern or "other", f"{status // 100}xx").observe(seconds)

    async def read(self) -> bytes:
        """The metrics as text, those of the queue as they are now.

        Raises:
            OSError: The database does not answer.
        """
        from prometheus_client import generate_latest

        try:
            await self._ask()
        except SQLAlchemyError:
            raise OSError("The database does not answer.") from None
        usage = await anyio.to_thread.run_sync(shutil.disk_usage, self._services.settings.data)
        self._free.set(usage.free)
        return generate_latest(self.runs.registry)

    async def _ask(self) -> None:
        async with self._services.database.reading() as session:
            for what, table in (("episodes", EpisodeRequest), ("roles", RoleRun)):
                rows = await session.execute(
                    sa.select(table.status, sa.func.count(), sa.func.min(table.created_at))
                    .where(table.status.in_(("pending", "running")))
                    .group_by(table.status)
                )
                found = {status: (count, oldest) for status, count, oldest in rows}
                for status in ("pending", "running"):
                    self._queue.labels(what, status).set(found.get(status, (0, None))[0])
                oldest = found.get("pending", (0, None))[1]
                self._oldest.labels(what).set((now() - oldest).total_seconds() if oldest is not None else 0)
            states = Counter(str(worker["state"]) for worker in await overview.workers(session))
            rounds = await session.scalar(
                sa.select(sa.func.count()).select_from(Round).where(Round.status == "running")
            )
        for state in ("working", "paused", "gone"):
            self._workers.labels(state).set(states[state])
        self._rounds.set(rounds or 0)


async def platform_trouble(services: Services) -> str:
    """Say why the platform cannot work, in a sentence; empty if it can."""
    try:
        with anyio.fail_after(_TIMEOUT):
            async with services.database.reading() as session:
                await session.execute(sa.select(1))
    except (SQLAlchemyError, OSError, TimeoutError):
        return "The database does not answer."
    return ""


async def serving_trouble(services: Services) -> str:
    """Say why a proxy should send no request to this server, in a sentence; empty if it may."""
    if trouble := await platform_trouble(services):
        return trouble
    try:
        with anyio.fail_after(_TIMEOUT):
            found, needed = await services.database.revision(), newest_revision()
            if found != needed:
                return f"The tables have revision {found or 'none'}, and this version needs {needed}."
        at, runtime = anyio.current_time(), services.runtime
        if at - runtime.store_checked > _STORE_SECONDS:
            # Anybody may ask, and each look writes
            runtime.store_checked = at
            runtime.store_trouble = await _store_trouble(services)
    except (SQLAlchemyError, OSError, TimeoutError):
        return "The database does not answer."
    return runtime.store_trouble


async def _store_trouble(services: Services) -> str:
    try:
        with anyio.fail_after(_TIMEOUT):
            await services.artifacts.check()
    except (EnvironmentFault, TimeoutError):
        return "The store of artifacts does not take and return a few bytes."
    return ""
