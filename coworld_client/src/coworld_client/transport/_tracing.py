"""Traces for OpenTelemetry: a span for each request, and the header by which a platform goes on with it."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coworld_core.errors import UsageError

from ..errors import ApiError

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["Tracing"]


@dataclass
class _Attempt:
    """One request, sent once."""

    headers: dict[str, str] = field(default_factory=dict[str, str])
    """What tells the platform of the span."""
    status: int | None = None
    """Status of the answer, to be filled in."""


class Tracing:
    """Traces requests to one platform.

    Args:
        provider: Where spans go. None: there are none of the client's own, and requests name the current one, if any.

    Raises:
        UsageError: There is a provider, and `opentelemetry-api` is not installed (`traces_missing`).
    """

    def __init__(self, provider: TracerProvider | None) -> None:
        self._tracer = None
        if provider is not None:
            try:
                from opentelemetry import trace
            except ModuleNotFoundError:
                raise UsageError(
                    "Traces need opentelemetry-api, which is not installed.",
                    code="traces_missing",
                    hint='Install it: pip install "coworld-client[tracing]".',
                ) from None
            self._tracer = trace.get_tracer("coworld_client", tracer_provider=provider)

    @contextmanager
    def request(self, method: str, host: str, port: int) -> Generator[_Attempt]:
        """Trace one attempt of a request while the block is open; an error ends its span as failed.

        Args:
            method: The HTTP method.
            host: The platform's host. The path has ids in it, and is left out.
            port: Its port.
        """
        attempt = _Attempt()
        if self._tracer is None:
            # A program with a current span has imported this
            if "opentelemetry.trace" in sys.modules:
                _name_current(attempt)
            yield attempt
            return
        from opentelemetry.trace import SpanKind, Status, StatusCode

        about: dict[str, str | int] = {"http.request.method": method, "server.address": host, "server.port": port}
        # An error's text may have more in it than a trace should
        with self._tracer.start_as_current_span(
            f"coworld.request {method}",
            kind=SpanKind.CLIENT,
            attributes=about,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            _name_current(attempt)
            try:
                yield attempt
            except ApiError as error:
                span.set_attribute("error.type", error.code)
                span.set_status(Status(StatusCode.ERROR))
                raise
            if attempt.status is not None:
                span.set_attribute("http.response.status_code", attempt.status)
                if attempt.status >= 400:
                    span.set_attribute("error.type", str(attempt.status))
                    span.set_status(Status(StatusCode.ERROR))


def _name_current(attempt: _Attempt) -> None:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    TraceContextTextMapPropagator().inject(attempt.headers)
