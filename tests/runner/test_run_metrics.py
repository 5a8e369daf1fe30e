"""Metrics of runs, from their events."""

from __future__ import annotations

import datetime as dt
import sys

import prometheus_client
import pytest

from coworld_core.episode.events import (
    BaseEvent,
    FaultSeen,
    PhaseFinished,
    RoleFinished,
    RunFinished,
    RunStarted,
    UnitExited,
)
from coworld_core.episode.outcome import Exit, Fault
from coworld_core.errors import UsageError
from coworld_runner.runs.event_bus import EventBus
from coworld_runner.telemetry.run_metrics import RunMetrics

FAULT = Fault(
    party="player", slot=1, error_type="player_error", message="It failed.", time=dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
)


def test_episodes_are_counted_by_how_they_ended() -> None:
    registry = prometheus_client.CollectorRegistry()
    metrics = RunMetrics(registry)
    buses = [EventBus(f"run-{number}", metrics) for number in range(3)]
    for bus in buses:
        bus.publish(RunStarted(what="episode", coworld="nim", backend="process"))
    assert registry.get_sample_value("coworld_runs_running", {"what": "episode"}) == 3
    first: tuple[BaseEvent, ...] = (
        PhaseFinished(phase="play", seconds=3.0),
        FaultSeen(fault=FAULT),
        FaultSeen(fault=FAULT.model_copy(update={"party": "game", "error_type": "crash"})),
        UnitExited(unit="player-1", component="player", slot=1, exit=Exit(reason="oom")),
        RoleFinished(role="grader", id="g", ok=True, kept=True),
        RoleFinished(role="grader", id="g", ok=False, seconds=2.0),
        RunFinished(status="completed", ok=False, seconds=4.0),
    )
    for event in first:
        buses[0].publish(event)
    buses[1].publish(RunFinished(status="completed", ok=True, seconds=2.0))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    ended = {"coworld": "nim", "backend": "process", "status": "completed"}
    assert value("coworld_episodes_total", **ended, party="player") == 1
    assert value("coworld_episodes_total", **ended, party="none") == 1
    assert value("coworld_episode_seconds_sum", coworld="nim", backend="process") == 6.0
    assert value("coworld_phase_seconds_sum", backend="process", phase="play") == 3.0
    assert value("coworld_faults_total", party="game", error_type="crash") == 1
    assert value("coworld_unit_exits_total", component="player", reason="oom") == 1
    # What was there already was not run
    assert value("coworld_roles_total", role="grader", ok="true") is None
    assert value("coworld_roles_total", role="grader", ok="false") == 1
    assert value("coworld_runs_running", what="episode") == 1


def test_names_of_games_are_few_and_plain() -> None:
    registry = prometheus_client.CollectorRegistry()
    metrics = RunMetrics(registry)
    names = ["a\u202eb\n", "y" * 500, *(f"game-{number}" for number in range(300))]
    for number, name in enumerate([*names, "game-0"]):
        bus = EventBus(f"run-{number}", metrics)
        bus.publish(RunStarted(what="episode", coworld=name, backend="process"))
        bus.publish(RunFinished(status="completed", ok=True, seconds=1.0))
    found = {
        sample.labels["coworld"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "coworld_episodes_total"
    }
    assert len(found) == 201
    assert (found["a?b?"], found["y" * 100], found["game-0"], found["other"]) == (1, 1, 2, 102)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(UsageError, match="prometheus-client") as caught:
        RunMetrics()
    assert caught.value.code == "metrics_missing"
    assert "coworld-runner[metrics]" in (caught.value.hint or "")
