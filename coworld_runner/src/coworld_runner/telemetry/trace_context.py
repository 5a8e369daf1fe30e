"""A trace that goes on elsewhere: its context as W3C's `traceparent`, which travels in headers and waits in tables."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["below", "current_traceparent"]


def current_traceparent() -> str | None:
    """The span that is current here; None if there is none, or nothing is traced."""
    # A program with a current span has imported this
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")


@contextmanager
def below(traceparent: str | None) -> Generator[None]:
    """While the block is open, new spans are below one of another process; needs `opentelemetry-api` if there is one.

    Args:
        traceparent: That span; None, or a text that is none: spans are below the one that is current anyway.
    """
    if traceparent is None:
        yield
        return
    from opentelemetry import context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    token = context.attach(TraceContextTextMapPropagator().extract({"traceparent": traceparent}))
    try:
        yield
    finally:
        context.detach(token)
