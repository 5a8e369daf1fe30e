"""Metrics of a game that is served to other machines: who connects, and how much passes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import anyio

from ..web.gateway import Gateway
from ..web.http_requests import BROKEN, get_status
from .run_metrics import require_prometheus

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

__all__ = ["GatewayMetrics"]


_TIMEOUT = 5.0
"""How long the game may take to answer, in seconds."""


class GatewayMetrics:
    """Reads the counts of a gateway whenever Prometheus asks.

    Args:
        gateway: The gateway.
        registry: The registry that they are added to, once; None: a new one.

    Raises:
        UsageError: `prometheus-client` is not installed (`metrics_missing`).
    """

    def __init__(self, gateway: Gateway, registry: CollectorRegistry | None = None) -> None:
        require_prometheus()
        from prometheus_client import CollectorRegistry

        self.registry = registry if registry is not None else CollectorRegistry()
        self._gateway = gateway
        self.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """The metrics as they are now; called by the registry."""
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        traffic = self._gateway.traffic
        yield GaugeMetricFamily("coworld_gateway_connections", "Connections that are open.", value=self._gateway.open)
        requests = CounterMetricFamily(
            "coworld_gateway_requests", "Requests that were answered.", labels=["what", "status"]
        )
        for (what, status), count in sorted(traffic.requests.items()):
            requests.add_metric([what, str(status)], count)
        yield requests
        passed = CounterMetricFamily("coworld_gateway_bytes", "Bytes that passed, within TLS.", labels=["direction"])
        passed.add_metric(["received"], traffic.received)
        passed.add_metric(["sent"], traffic.sent)
        yield passed

    async def read(self) -> bytes:
        """All metrics of the registry, as Prometheus reads them."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)

    async def trouble(self) -> str:
        """Say why nobody can play, in a sentence; empty if the game answers."""
        if not self._gateway.target:
            return "The game is not ready."
        try:
            with anyio.fail_after(_TIMEOUT):
                status = await get_status(self._gateway.target, "/healthz")
        except BROKEN:
            return "The game does not answer."
        return "" if status == 200 else f"The game answers {status} to /healthz."
