"""Base class for a unit that is a container of a pod, watched from its start to its end."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import anyio
from anyio.abc import TaskGroup

from coworld_core.episode.events import Notice
from coworld_core.episode.outcome import Exit
from coworld_core.errors import BackendError, StartError

from ...backend import Backend, Publish, UnitSpec
from ...runs._task_groups import nursery
from ..engine import EngineUnit, Presence
from . import _pod_state as state
from ._cluster import Cluster, ClusterGone, ClusterRefused
from ._pod_logs import follow_log
from ._pod_objects import MAIN
from ._watch import follow

__all__ = ["WatchedUnit", "watch_units", "watch_until_lost"]

_GONE_LOG_SECONDS = 10.0
"""Seconds for reading the rest of the log of a pod that no longer exists."""
_REFUSED_SECONDS = 30.0
"""Seconds for which watching pods may be forbidden before units count as lost."""
_SAME_END = 2.0
"""Two ends, of a collector and of its unit, within this many seconds count as simultaneous."""


class WatchedUnit(EngineUnit):
    """A container observed through the API server. A subclass creates its pod (``make_pod``) and ends it.

    Args:
        spec: What it runs.
        backend: The backend it belongs to.
        publish: Receives its events.
        cluster: The pod's cluster.
        tasks: The task group that follows it, shielded from cancellation, until ``forsake``.
        pod: The pod's name, known before it exists.
        container: The name of its container.
    """

    log_seconds: ClassVar[float] = 30.0
    """Seconds for reading the rest of its log once it has ended."""
    forbidden_hint: ClassVar[str]
    """The hint for objects that the user may not create."""

    def __init__(
        self,
        spec: UnitSpec,
        *,
        backend: Backend,
        publish: Publish,
        cluster: Cluster,
        tasks: TaskGroup,
        pod: str,
        container: str = MAIN,
    ) -> None:
        super().__init__(spec, backend=backend, publish=publish, tasks=tasks)
        self.pod = pod
        """The pod's name."""
        self._cluster = cluster
        self._container = container
        self._uid = ""
        """The pod's uid; empty until it is known."""
        self._state: Mapping[str, Any] = {}
        """The last observed state of the pod; empty before the first."""
        self._lost_why = ""
        self.over = anyio.Event()
        """Set when the container is known to have ended."""

    @property
    def id(self) -> str:
        """The pod's namespace and name."""
        return f"{self._cluster.namespace}/{self.pod}"

    # --- implemented by a subclass

    @abc.abstractmethod
    async def make_pod(self) -> None:
        """Create its pod, unless that exists already.

        Raises:
            StartError: It cannot be created.
            ClusterRefused: The cluster refused.
            ClusterGone: The cluster did not answer.
        """

    async def prepare(self) -> None:
        """Prepare its start, once its pod exists."""

    @abc.abstractmethod
    def explain(self, trouble: state.Trouble) -> tuple[str, str]:
        """The error code and hint for a unit that does not start."""

    def patience(self) -> float:
        """Seconds that it may still take to start, given the state of its pod.

        Raises:
            StartError: There are none left.
        """
        return math.inf

    async def settle(self, ended: Exit) -> Exit:
        """Finish up after its end, before it counts as ended; returns its final exit."""
        return ended

    # --- observations

    @property
    def is_silent(self) -> bool:
        """Whether it may exist and has not ended, so that a silent API server would hide its end."""
        return self.presence is Presence.MADE and self.exit is None

    def observe(self, pod: Mapping[str, Any]) -> None:
        """Record the current state of the pod."""
        if self._is_ours(pod):
            self._state = pod
            self.wake()

    def vanish(self, last: Mapping[str, Any]) -> None:
        """Record that the pod was deleted.

        Args:
            last: The pod's last state.
        """
        if self._is_ours(last):
            self._state = last
            self.note(Presence.GONE)

    def _is_ours(self, pod: Mapping[str, Any]) -> bool:
        return self._uid in ("", pod["metadata"]["uid"])

    def give_up(self, why: str) -> None:
        """Count it as lost, because its state cannot be observed any more."""
        self._lost_why = why
        self.note(Presence.LOST)

    # --- start

    async def launch(self) -> None:
        """Create its pod, and wait until its container runs.

        Raises:
            StartError: It could not be started.
        """
        self.note(Presence.MADE)
        try:
            await self.make_pod()
            self.follow(self.tasks, self._supervise)
            await self.prepare()
            await self._until(lambda: state.has_started(self._state, self._container))
        except (ClusterRefused, ClusterGone) as error:
            self.forsake()
            raise self._refused("pod", error) from error
        except BaseException:
            self.forsake()
            raise

    async def _until(self, reached: Callable[[], bool]) -> None:
        """Wait until the pod has reached a state.

        Raises:
            StartError: It never will; the message quotes the cluster.
        """
        while not reached():
            changed = self.changed
            self._raise_trouble()
            with anyio.move_on_after(self.patience()):
                await changed.wait()

    def _raise_trouble(self) -> None:
        if self.presence is Presence.LOST:
            raise self._trouble("cluster_lost", self._lost_why, "See whether the API server can be reached.")
        if self.presence is Presence.GONE:
            raise self._trouble("pod_deleted", "the pod was deleted by somebody else", "See who deletes pods there.")
        found = state.start_trouble(self._state, self._container)
        if found is not None:
            code, hint = self.explain(found)
            raise self._trouble(code, found.words, hint)

    def _trouble(self, code: str, words: str, hint: str) -> StartError:
        return StartError(
            f"{self.name} cannot be started: {words} (pod {self.id}).",
            code=code,
            hint=hint,
            context={"unit": self.name, "pod": self.id, "image": self.spec.image},
        )

    def _refused(self, what: str, error: ClusterRefused | ClusterGone) -> BackendError:
        """The error for an object of the unit that could not be created."""
        context: dict[str, object] = {"unit": self.name, "pod": self.id, "image": self.spec.image}
        code, hint = None, None
        if isinstance(error, ClusterGone):
            code, hint = error.code, error.hint
        elif error.over_quota:
            code = "quota_exceeded"
            hint = f"Raise the quota of namespace {self._cluster.namespace!r}, or run fewer episodes at a time."
        elif error.status == 403:
            code, hint = "cluster_forbidden", self.forbidden_hint
        elif error.status == 422 and "env" in error.words:
            hint = "A variable's name is one that a cluster does not take."
        words = f"The {what} of {self.name} could not be made: {error.words}"
        return StartError(words, code=code, hint=hint, context=context)

    # --- supervision

    async def _supervise(self) -> None:
        await self.started.wait()
        async with nursery() as beside:
            logged = anyio.Event()
            beside.start_soon(self._keep_log, logged)
            ended = await self._conclude()
            self.over.set()
            if self.presence is not Presence.LOST:
                gone = self.presence is Presence.GONE
                with anyio.move_on_after(min(self.log_seconds, _GONE_LOG_SECONDS if gone else math.inf)):
                    await logged.wait()
        self.finish(await self.settle(ended))

    async def _conclude(self) -> Exit:
        """Wait for its end and find out why it ended."""
        while True:
            changed = self.changed
            async with self.signalling:
                ended = state.exit_of(self._state, self._container, ours=self.ended_by)
            if ended is not None:
                return ended
            if self.presence is Presence.GONE:
                why = f"pod {self.id} was deleted by somebody else"
                return Exit(reason=self.ended_by or "lost", detail="" if self.ended_by else why)
            if self.presence is Presence.LOST:
                return Exit(reason="lost", detail=self._lost_why)
            words = "" if self.ended_by else state.collector_end(self._state)
            # the node may report the two ends one after the other
            with anyio.move_on_after(_SAME_END if words else None) as waiting:
                await changed.wait()
            if waiting.cancelled_caught:
                # without the collector, files cannot be fetched and readiness cannot be checked
                return Exit(reason="lost", detail=f"the collector of pod {self.id} ended by itself: {words}")

    async def _keep_log(self, logged: anyio.Event) -> None:
        """Write its output to its log file; a cluster does not separate the two streams."""
        path = self.spec.stdout or self.spec.stderr
        if path is None:
            logged.set()
            return
        log = self.open_log(path)
        try:
            whole = await follow_log(
                self._cluster,
                self.pod,
                self._container,
                log.write,
                enough=lambda: log.truncated,
                ended=self.over,
            )
            if not whole and self.presence is not Presence.GONE:
                self.publish(Notice(level="warning", message=f"{path} may not be complete: its stream broke."))
        finally:
            self.close_log(log)
            logged.set()

    def finish(self, exit: Exit) -> None:
        """Record its end; nothing more comes from it."""
        self.over.set()
        super().finish(exit)

    # --- end

    async def remove(self) -> None:
        """Stop following it, and release its resources."""
        self.forsake()


async def watch_units(
    cluster: Cluster,
    selector: str,
    units: Iterable[WatchedUnit],
    *,
    on_error: Callable[[ClusterRefused], object],
    on_seen: Callable[[], object] = lambda: None,
) -> None:
    """Report to units what becomes of their pods. Never returns.

    Args:
        cluster: The pods' cluster.
        selector: Label selector for the pods; it may match other pods too.
        units: The units.
        on_error: Called when the server refuses, such as after a permission was revoked.
        on_seen: Called whenever watching works.
    """
    by_name = {unit.pod: unit for unit in units}

    def seen(pod: Mapping[str, Any]) -> None:
        on_seen()
        if (unit := by_name.get(pod["metadata"]["name"])) is not None:
            unit.observe(pod)

    def gone(pod: Mapping[str, Any]) -> None:
        if (unit := by_name.get(pod["metadata"]["name"])) is not None:
            unit.vanish(pod)

    await follow(cluster, "pods", selector, on_object=seen, on_gone=gone, on_error=on_error)


async def watch_until_lost(
    cluster: Cluster, selector: str, units: Sequence[WatchedUnit], *, outage: float, trouble: Callable[[], str]
) -> None:
    """Report to units what becomes of their pods, or that they can no longer be observed. Never returns.

    Args:
        cluster: The pods' cluster.
        selector: Label selector for the pods.
        units: The units.
        outage: Seconds without an answer of the API server after which units count as lost.
        trouble: Returns the reason to report then.
    """
    refused_since: float | None = None

    def give_up(why: str) -> None:
        for unit in units:
            if unit.is_silent:
                unit.give_up(why)

    def seen() -> None:
        nonlocal refused_since
        refused_since = None

    def refused(error: ClusterRefused) -> None:
        # a server that has just started refuses requests that it permits a moment later
        nonlocal refused_since
        refused_since = refused_since or anyio.current_time()
        if anyio.current_time() - refused_since > _REFUSED_SECONDS:
            give_up(f"the cluster does not let pods be watched: {error.words}")

    def left() -> float:
        since = cluster.silent_since
        return outage if since is None else since + outage - anyio.current_time()

    async def watch_outage() -> None:
        while (seconds := left()) > 0:  # noqa: ASYNC110 - nothing reports a server's silence
            await anyio.sleep(min(1.0, outage / 4, seconds))
        give_up(trouble())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch_outage)
        await watch_units(cluster, selector, units, on_error=refused, on_seen=seen)
