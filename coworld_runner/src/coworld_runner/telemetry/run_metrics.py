"""Metrics of runs for Prometheus: a listener that counts and times what their events tell."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from coworld_core.episode.events import (
    BaseEvent,
    FaultSeen,
    LeakFound,
    PhaseFinished,
    RoleFinished,
    RunFinished,
    RunStarted,
    UnitExited,
)

from ..errors import extra_missing

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["RunMetrics", "require_prometheus"]

_EPISODE_SECONDS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
_PHASE_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_EPISODE = "episode"
_MOST_COWORLDS = 200
"""Names of games that are label values; each makes some thirty series, and anybody may bring one."""
_LONGEST_NAME = 100


def require_prometheus() -> None:
    """Require the library for metrics, which not everybody needs.

    Raises:
        UsageError: It is not installed (`metrics_missing`).
    """
    if find_spec("prometheus_client") is None:
        raise extra_missing("Metrics need", "prometheus-client", extra="metrics", code="metrics_missing")


class RunMetrics:
    """Counts and times runs; pass it as a listener to any number of them, one after the other or at once.

    ```
    metrics = RunMetrics()
    await run_episode("examples/nim", players=[…], listeners=(metrics,))
    print(prometheus_client.generate_latest(metrics.registry).decode())
    ```

    Labels hold nothing that people write but names of games: cut to 100 characters, without what cannot be printed, and
    `other` for all after the first 200. All other values are from fixed lists. The metrics are listed in
    `docs/metrics.md`.

    Args:
        registry: The registry that they are added to, once; None: a new one.

    Raises:
        UsageError: `prometheus-client` is not installed (`metrics_missing`).
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        require_prometheus()
        import prometheus_client as prometheus

        self.registry = registry if registry is not None else prometheus.CollectorRegistry()
        into = self.registry
        self._running = prometheus.Gauge(
            "coworld_runs_running", "Runs that have begun and not ended.", ["what"], registry=into
        )
        self._runs = prometheus.Counter(
            "coworld_runs", "Runs that ended, other than episodes.", ["what", "status"], registry=into
        )
        self._episodes = prometheus.Counter(
            "coworld_episodes",
            "Episodes that ended; party: whose the first fault was, or none.",
            ["coworld", "backend", "status", "party"],
            registry=into,
        )
        self._episode_seconds = prometheus.Histogram(
            "coworld_episode_seconds",
            "How long episodes took.",
            ["coworld", "backend"],
            buckets=_EPISODE_SECONDS,
            registry=into,
        )
        self._phase_seconds = prometheus.Histogram(
            "coworld_phase_seconds",
            "How long phases of episodes took.",
            ["backend", "phase"],
            buckets=_PHASE_SECONDS,
            registry=into,
        )
        self._faults = prometheus.Counter(
            "coworld_faults", "Faults of episodes.", ["party", "error_type"], registry=into
        )
        self._exits = prometheus.Counter(
            "coworld_unit_exits",
            "Games, players and other programs that ended.",
            ["component", "reason"],
            registry=into,
        )
        self._roles = prometheus.Counter(
            "coworld_roles", "Reporters, graders, diagnosers and optimizers that ended.", ["role", "ok"], registry=into
        )
        self._role_seconds = prometheus.Histogram(
            "coworld_role_seconds", "How long roles took.", ["role"], buckets=_EPISODE_SECONDS, registry=into
        )
        self._leaks = prometheus.Counter("coworld_leaks", "Things that could not be removed.", registry=into)
        self._coworlds: set[str] = set()
        self._begun: dict[str, RunStarted] = {}
        self._parties: dict[str, str] = {}
        """Of each run with a fault, whose the first one was."""

    def __call__(self, event: BaseEvent) -> None:
        """Count an event."""
        match event:
            case RunStarted(what=what):
                self._begun[event.run_id] = event
                self._running.labels(what).inc()
            case PhaseFinished(phase=phase, seconds=seconds) if (begun := self._begun.get(event.run_id)) is not None:
                self._phase_seconds.labels(begun.backend, phase).observe(seconds)
            case FaultSeen(fault=fault):
                self._parties.setdefault(event.run_id, fault.party)
                self._faults.labels(fault.party, fault.error_type).inc()
            case UnitExited(component=component, exit=ended):
                self._exits.labels(component, ended.reason).inc()
            case RoleFinished(role=role, ok=ok, kept=False, seconds=seconds):
                self._roles.labels(role, str(ok).lower()).inc()
                self._role_seconds.labels(role).observe(seconds)
            case LeakFound():
                self._leaks.inc()
            case RunFinished():
                self._finish(event)
            case _:
                pass

    def _finish(self, event: RunFinished) -> None:
        begun = self._begun.pop(event.run_id, None)
        party = self._parties.pop(event.run_id, "none")
        if begun is None:
            return
        self._running.labels(begun.what).dec()
        if begun.what != _EPISODE:
            self._runs.labels(begun.what, event.status).inc()
            return
        coworld = self._named(begun.coworld)
        self._episodes.labels(coworld, begun.backend, event.status, party).inc()
        self._episode_seconds.labels(coworld, begun.backend).observe(event.seconds)

    def _named(self, coworld: str) -> str:
        """A game's name as the value of a label."""
        name = "".join(character if character.isprintable() else "?" for character in coworld[:_LONGEST_NAME])
        if name not in self._coworlds and len(self._coworlds) >= _MOST_COWORLDS:
            return "other"
        self._coworlds.add(name)
        return name
