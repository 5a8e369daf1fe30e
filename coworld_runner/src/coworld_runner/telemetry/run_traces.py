"""Traces of runs for OpenTelemetry: a listener that makes a span of each run and of each of its phases."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coworld_core.episode.events import (
    BaseEvent,
    FaultSeen,
    PhaseFinished,
    PhaseStarted,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
)

from ..errors import extra_missing

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

__all__ = ["RunTraces"]


@dataclass
class _Trace:
    """The spans of a run that are open."""

    span: Span
    parts: dict[str, Span] = field(default_factory=dict[str, "Span"])
    """Phases of an episode, steps of a certification or an improvement."""


class RunTraces:
    """Traces runs; pass it as a listener to any number of them.

    A run is a span `coworld.episode`, `coworld.certification`, …, below the span that is current where it begins, and
    each of its phases or steps is one below it. Faults are events of the run's span, and its status. Nothing is
    recorded that players write.

    Args:
        provider: Where spans go; None: OpenTelemetry's global provider, which drops them unless one was set.

    Raises:
        UsageError: `opentelemetry-api` is not installed (`traces_missing`).
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry import trace
        except ModuleNotFoundError:
            raise extra_missing("Traces need", "opentelemetry-api", extra="tracing", code="traces_missing") from None
        self._tracer = trace.get_tracer("coworld_runner", tracer_provider=provider)
        self._traces: dict[str, _Trace] = {}

    def __call__(self, event: BaseEvent) -> None:
        """Begin or end what an event tells of."""
        if isinstance(event, RunStarted):
            self._begin(event)
        elif (trace := self._traces.get(event.run_id)) is not None:
            self._follow(trace, event)

    def _begin(self, event: RunStarted) -> None:
        given = {
            "coworld.run_id": event.run_id,
            "coworld.name": event.coworld,
            "coworld.version": event.version,
            "coworld.variant": event.variant,
            "coworld.backend": event.backend,
        }
        span = self._tracer.start_span(
            f"coworld.{event.what}",
            start_time=_nanoseconds(event.time),
            attributes={name: value for name, value in given.items() if value},
        )
        self._traces[event.run_id] = _Trace(span)

    def _follow(self, trace: _Trace, event: BaseEvent) -> None:
        from opentelemetry.trace import Status, StatusCode

        match event:
            case PhaseStarted(phase=name) | StepStarted(step=name):
                self._start(trace, name, event)
            case PhaseFinished(phase=name):
                _end(trace.parts.pop(name, None), event)
            case StepFinished(step=name, status=status):
                if (step := trace.parts.get(name)) is not None:
                    step.set_attribute("coworld.status", status)
                _end(trace.parts.pop(name, None), event)
            case FaultSeen(fault=fault):
                about: dict[str, str | int] = {"coworld.party": fault.party, "coworld.error_type": fault.error_type}
                if fault.slot is not None:
                    about["coworld.slot"] = fault.slot
                trace.span.add_event("fault", about, timestamp=_nanoseconds(event.time))
                trace.span.set_status(Status(StatusCode.ERROR, f"{fault.party}: {fault.error_type}"))
            case RunFinished(status=status):
                del self._traces[event.run_id]
                for part in trace.parts.values():
                    _end(part, event)
                trace.span.set_attribute("coworld.status", status)
                _end(trace.span, event)
            case _:
                pass

    def _start(self, trace: _Trace, name: str, event: BaseEvent) -> None:
        from opentelemetry.trace import set_span_in_context

        trace.parts[name] = self._tracer.start_span(
            name, context=set_span_in_context(trace.span), start_time=_nanoseconds(event.time)
        )


def _end(span: Span | None, event: BaseEvent) -> None:
    if span is not None:
        span.end(end_time=_nanoseconds(event.time))


def _nanoseconds(moment: dt.datetime) -> int:
    """Nanoseconds since 1970."""
    return int(moment.timestamp() * 1_000_000) * 1000
