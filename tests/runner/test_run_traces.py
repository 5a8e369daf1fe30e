"""Traces of runs, from their events."""

from __future__ import annotations

import datetime as dt
import sys

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from coworld_core.episode.events import FaultSeen, PhaseFinished, PhaseStarted, RunFinished, RunStarted
from coworld_core.episode.outcome import Fault
from coworld_core.errors import UsageError
from coworld_runner.runs.event_bus import EventBus
from coworld_runner.telemetry.run_traces import RunTraces


def test_a_run_is_a_span_below_the_one_that_began_it() -> None:
    provider, kept = TracerProvider(shutdown_on_exit=False), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    bus = EventBus("run-1", RunTraces(provider))
    with provider.get_tracer("mine").start_as_current_span("nightly"):
        bus.publish(RunStarted(what="episode", coworld="nim", backend="process"))
    bus.publish(PhaseStarted(phase="ready"))
    bus.publish(PhaseFinished(phase="ready", seconds=0.1))
    bus.publish(PhaseStarted(phase="play"))
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    fault = Fault(party="player", slot=1, error_type="player_error", message="It failed.", time=at)
    bus.publish(FaultSeen(fault=fault))
    # Interrupted: the phase has no end of its own
    bus.publish(RunFinished(status="failed", ok=False, seconds=1.0))
    spans = {span.name: span for span in kept.get_finished_spans()}
    run = spans["coworld.episode"]
    assert run.attributes is not None
    assert dict(run.attributes) == {
        "coworld.run_id": "run-1",
        "coworld.name": "nim",
        "coworld.backend": "process",
        "coworld.status": "failed",
    }
    assert (run.status.status_code, run.status.description) == (StatusCode.ERROR, "player: player_error")
    assert [event.name for event in run.events] == ["fault"]
    assert run.parent is not None
    assert run.parent.span_id == spans["nightly"].context.span_id
    for phase in ("ready", "play"):
        parent, begun, ended = spans[phase].parent, spans[phase].start_time, spans[phase].end_time
        assert parent is not None
        assert parent.span_id == run.context.span_id
        assert begun is not None
        assert ended is not None
        assert begun <= ended


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(UsageError, match="opentelemetry-api") as caught:
        RunTraces()
    assert caught.value.code == "traces_missing"
