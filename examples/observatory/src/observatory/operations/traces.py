"""Traces of a platform for OpenTelemetry: a span for each request, and below it one for each episode asked for.

They are off unless an operator asks for them. A request goes on with the trace that its client names.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from coworld_runner.telemetry import RunTraces, below

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

__all__ = ["PlatformTraces"]


class PlatformTraces:
    """Traces one server or worker.

    Args:
        provider: Where spans go; None: OpenTelemetry's global provider, which drops them unless one was set.

    Attributes:
        runs: Traces the episodes that are played here; a listener.

    Raises:
        UsageError: `opentelemetry-api` is not installed (`traces_missing`).
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self.runs = RunTraces(provider)
        from opentelemetry import trace

        self._tracer = trace.get_tracer("observatory", tracer_provider=provider)

    @contextmanager
    def request(self, scope: Mapping[str, Any]) -> Generator[Span]:
        """Trace a request while the block is open. `ended` says how it went."""
        from opentelemetry.trace import SpanKind

        given = dict(scope["headers"]).get(b"traceparent")
        with (
            below(given.decode("latin-1") if given is not None else None),
            self._tracer.start_as_current_span(
                scope["method"],
                kind=SpanKind.SERVER,
                attributes={"http.request.method": scope["method"]},
                record_exception=False,
            ) as span,
        ):
            yield span

    def ended(self, span: Span, scope: Mapping[str, Any], status: int) -> None:
        """Note a request's status, and the pattern of its path: a path has ids, and what visitors write."""
        from opentelemetry.trace import Status, StatusCode

        if (pattern := getattr(scope.get("route"), "path", None)) is not None:
            span.update_name(f"{scope['method']} {pattern}")
            span.set_attribute("http.route", pattern)
        span.set_attribute("http.response.status_code", status)
        if status >= 500:
            span.set_status(Status(StatusCode.ERROR))
