"""A unit's pod, watched from its start to its end."""

from __future__ import annotations

import enum
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import anyio
from anyio.abc import TaskGroup

from coworld_core.episode.events import Notice
from coworld_core.episode.outcome import Exit
from coworld_core.errors import BackendError, StartError

from ...runs._task_groups import nursery
from ..base import BaseUnit
from . import _pod_state as state
from ._admission import advice_on
from ._cluster import Cluster, ClusterGone, ClusterRefused
from ._cluster_capacity import wait_limit
from ._cordoned_nodes import without_node
from ._pod_logs import follow_log
from ._pod_objects import MAIN
from ._start_attempts import StartAttempts
from ._watch import follow

__all__ = ["Presence", "WatchedPod", "watch_pods", "watch_until_lost"]

_GONE_LOG_SECONDS = 10.0
"""Seconds for reading the rest of the log of a pod that no longer exists."""
_REFUSED_SECONDS = 30.0
"""Seconds for which watching pods may be forbidden before units count as lost."""
_SAME_END = 2.0
"""Two ends, of a collector and of its unit, within this many seconds count as simultaneous."""


class Presence(enum.Enum):
    """What is known of a pod."""

    UNMADE = enum.auto()
    """Its creation has not been requested."""
    MADE = enum.auto()
    """It exists or may exist."""
    GONE = enum.auto()
    """It does not exist, and will not."""
    LOST = enum.auto()
    """It can no longer be observed."""


class WatchedPod:
    """A pod as its API server reports it, and by that the start and the end of the unit that is one of its containers.

    Args:
        unit: The unit.
        cluster: The pod's cluster.
        tasks: The task group that follows it, shielded from cancellation, until the unit's `stop_watching`.
        name: The pod's name, known before it exists.
        explain: Returns the error code and hint for a unit that does not start.
        forbidden_hint: The hint for objects that the user may not create.
        container: The name of the unit's container.
        pending: Seconds that it may wait for a node, but not until its caller's own deadline.
        grows: Whether waiting may help whatever the pod lacks, as nodes may be added. False: only while others may give
            back what it lacks.
        on_wait: Called with the scheduler's words when it begins to wait for a node.
        settle: Finishes up after the unit's end, before it counts as ended; returns its final exit.
        signalling: Held while the unit is signalled.
        log_seconds: Seconds for reading the rest of its log once it has ended.
    """

    def __init__(
        self,
        unit: BaseUnit,
        *,
        cluster: Cluster,
        tasks: TaskGroup,
        name: str,
        explain: Callable[[state.Trouble], tuple[str, str]],
        forbidden_hint: str,
        container: str = MAIN,
        pending: float = math.inf,
        grows: bool = False,
        on_wait: Callable[[str], object] = lambda _: None,
        settle: Callable[[Exit], Awaitable[Exit]] | None = None,
        signalling: anyio.Lock | None = None,
        log_seconds: float = 30.0,
    ) -> None:
        self.name = name
        """The pod's name."""
        self.uid = ""
        """Its uid; empty until it is known."""
        self.presence = Presence.UNMADE
        """What is known of it."""
        self.state: Mapping[str, Any] = {}
        """Its last observed state; empty before the first."""
        self.changed = anyio.Event()
        """Set when something changes, then replaced by a new event."""
        self.over = anyio.Event()
        """Set when the container is known to have ended."""
        self.tasks = tasks
        """The task group that follows it."""
        self._unit = unit
        self._cluster = cluster
        self._explain = explain
        self._forbidden_hint = forbidden_hint
        self._container = container
        self._pending = pending
        self._grows = grows
        self._on_wait = on_wait
        self._waits_until: float | None = None
        self._settle = settle
        self._signalling = signalling or anyio.Lock()
        self._log_seconds = log_seconds
        self._lost_why = ""
        self._attempts = StartAttempts(container, on_retry=self._note_retry)

    def _note_retry(self, words: str) -> None:
        self._unit.publish(Notice(message=f"{self._unit.name} waits for its node's next attempt: {words}"))

    @property
    def id(self) -> str:
        """The pod's namespace and name."""
        return f"{self._cluster.namespace}/{self.name}"

    # --- observations

    @property
    def is_silent(self) -> bool:
        """Whether it may exist and its unit has not ended, so that a silent API server would hide its end."""
        return self.presence is Presence.MADE and self._unit.exit is None

    def observe(self, pod: Mapping[str, Any]) -> None:
        """Record its current state."""
        if self._is_ours(pod):
            self.state = pod
            self.wake()

    def vanish(self, last: Mapping[str, Any]) -> None:
        """Record that it was deleted.

        Args:
            last: Its last state.
        """
        if self._is_ours(last):
            self.state = last
            self._note(Presence.GONE)

    def _is_ours(self, pod: Mapping[str, Any]) -> bool:
        return self.uid in ("", pod["metadata"]["uid"])

    def expect(self) -> None:
        """Record that its creation was requested, before the unit is launched."""
        self._note(Presence.MADE)

    def give_up(self, why: str) -> None:
        """Count its unit as lost, because its state cannot be observed any more."""
        self._lost_why = why
        self._note(Presence.LOST)

    def _note(self, presence: Presence) -> None:
        """Record its presence; a pod that is gone stays gone."""
        if self.presence is not Presence.GONE:
            self.presence = presence
        self.wake()

    def wake(self) -> None:
        """Have whoever waits look again."""
        self.changed.set()
        self.changed = anyio.Event()

    # --- start

    async def launch(
        self,
        make: Callable[[], Awaitable[None]] | None = None,
        prepare: Callable[[], Awaitable[None]] | None = None,
        runs: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create it, and wait until the unit's container runs.

        Args:
            make: Creates it; None: it exists already.
            prepare: Prepares the unit's start, once the pod exists.
            runs: Whether the unit is known to run, whatever its cluster says; call `wake` when that changes.

        Raises:
            StartError: The unit could not be started.
        """
        self._note(Presence.MADE)
        try:
            if make is not None:
                await make()
            self._unit.follow(self.tasks, self._supervise)
            if prepare is not None:
                await prepare()
            await self.until(lambda: runs() or state.has_started(self.state, self._container))
        except (ClusterRefused, ClusterGone) as error:
            self._unit.stop_watching()
            raise self.refused("pod", error) from error
        except BaseException:
            self._unit.stop_watching()
            raise

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until it has reached a state.

        Raises:
            StartError: It never will; the message quotes the cluster.
        """
        while not reached():
            changed = self.changed
            self.raise_trouble()
            with anyio.move_on_after(min(await self._wait_for_node(), self._attempts.seconds_left)):
                await changed.wait()

    async def _wait_for_node(self) -> float:
        """Return how many seconds it may still wait for a node; any number once it has one.

        Raises:
            StartError: None; the message quotes the scheduler.
        """
        words = state.unschedulable(self.state)
        if not words:
            self._waits_until = None
            return math.inf
        waits = self._grows or state.lacks_room(words)
        if self._waits_until is None:
            self._waits_until = anyio.current_time() + wait_limit(self._pending)
            if waits:
                self._on_wait(words)
        left = self._waits_until - anyio.current_time()
        if not waits or left <= 0:
            raise self.trouble("unschedulable", *await without_node(self._cluster, self.state, words))
        return left

    def raise_trouble(self) -> None:
        """Raise if the unit can no longer start.

        Raises:
            StartError: It cannot; the message quotes the cluster.
        """
        if self.presence is Presence.LOST:
            raise self.trouble("cluster_lost", self._lost_why, "See whether the API server can be reached.")
        if self.presence is Presence.GONE:
            raise self.trouble("pod_deleted", "the pod was deleted by somebody else", "See who deletes pods there.")
        found = self._attempts.trouble(self.state)
        if found is not None:
            code, hint = self._explain(found)
            raise self.trouble(code, found.message, hint)

    def trouble(self, code: str, reason: str, hint: str) -> StartError:
        """The error for a unit that cannot be started."""
        message = f"{self._unit.name} cannot be started: {reason} (pod {self.id})."
        return StartError(message, code=code, hint=hint, context=self._context())

    def refused(self, what: str, error: ClusterRefused | ClusterGone) -> BackendError:
        """The error for an object of the unit that could not be created."""
        code, hint = advice_on(error, self._cluster.namespace, self._forbidden_hint)
        words = f"The {what} of {self._unit.name} could not be made: {error.server_message}"
        return StartError(words, code=code, hint=hint, context=self._context())

    def _context(self) -> dict[str, object]:
        return {"unit": self._unit.name, "pod": self.id, "image": self._unit.spec.image}

    # --- supervision

    async def _supervise(self) -> None:
        unit = self._unit
        await unit.started.wait()
        async with nursery() as beside:
            logged = anyio.Event()
            beside.start_soon(self._keep_log, logged)
            ended = await self._conclude()
            self.over.set()
            if self.presence is not Presence.LOST:
                gone = self.presence is Presence.GONE
                with anyio.move_on_after(min(self._log_seconds, _GONE_LOG_SECONDS if gone else math.inf)):
                    await logged.wait()
        unit.finish(await self._settle(ended) if self._settle is not None else ended)

    async def _conclude(self) -> Exit:
        """Wait for the unit's end and find out why it ended."""
        unit = self._unit
        while True:
            changed = self.changed
            async with self._signalling:
                ended = state.exit_of(self.state, self._container, ours=unit.ended_by)
            if ended is not None:
                return ended
            if self.presence is Presence.GONE:
                why = f"pod {self.id} was deleted by somebody else"
                return Exit(reason=unit.ended_by or "lost", detail="" if unit.ended_by else why)
            if self.presence is Presence.LOST:
                return Exit(reason="lost", detail=self._lost_why)
            words = "" if unit.ended_by else state.collector_end(self.state)
            # The node may report the two ends one after the other
            with anyio.move_on_after(_SAME_END if words else None) as waiting:
                await changed.wait()
            if waiting.cancelled_caught:
                # Without the collector, files cannot be fetched and readiness cannot be checked
                return Exit(reason="lost", detail=f"the collector of pod {self.id} ended by itself: {words}")

    async def _keep_log(self, logged: anyio.Event) -> None:
        """Write the unit's output to its log file; a cluster does not separate the two streams."""
        unit = self._unit
        path = unit.spec.stdout or unit.spec.stderr
        if path is None:
            logged.set()
            return
        log = unit.logs.open(path)
        try:
            whole = await follow_log(
                self._cluster,
                self.name,
                self._container,
                log.write,
                enough=lambda: log.truncated,
                ended=self.over,
            )
            if not whole and self.presence is not Presence.GONE:
                unit.publish(Notice(level="warning", message=f"{path} may not be complete: its stream broke."))
        finally:
            unit.logs.close(log)
            logged.set()


async def watch_pods(
    cluster: Cluster,
    selector: str,
    pods: Iterable[WatchedPod],
    *,
    on_error: Callable[[ClusterRefused], object],
    on_seen: Callable[[], object] = lambda: None,
) -> None:
    """Report to pods what becomes of them. Never returns.

    Args:
        cluster: The pods' cluster.
        selector: Label selector for the pods; it may match other pods too.
        pods: The pods.
        on_error: Called when the server refuses, such as after a permission was revoked.
        on_seen: Called whenever watching works.
    """
    # Several units can be containers of one pod
    by_name: defaultdict[str, list[WatchedPod]] = defaultdict(list)
    for watched in pods:
        by_name[watched.name].append(watched)

    def seen(pod: Mapping[str, Any]) -> None:
        on_seen()
        for ours in by_name.get(pod["metadata"]["name"], ()):
            ours.observe(pod)

    def gone(pod: Mapping[str, Any]) -> None:
        for ours in by_name.get(pod["metadata"]["name"], ()):
            ours.vanish(pod)

    await follow(cluster, "pods", selector, on_object=seen, on_gone=gone, on_error=on_error)


async def watch_until_lost(
    cluster: Cluster, selector: str, pods: Sequence[WatchedPod], *, outage: float, trouble: Callable[[], str]
) -> None:
    """Report to pods what becomes of them, or that they can no longer be observed. Never returns.

    Args:
        cluster: The pods' cluster.
        selector: Label selector for the pods.
        pods: The pods.
        outage: Seconds without an answer of the API server after which they count as lost.
        trouble: Returns the reason to report then.
    """
    refused_since: float | None = None

    def give_up(why: str) -> None:
        for pod in pods:
            if pod.is_silent:
                pod.give_up(why)

    def seen() -> None:
        nonlocal refused_since
        refused_since = None

    def refused(error: ClusterRefused) -> None:
        # A server that has just started refuses requests that it permits a moment later
        nonlocal refused_since
        refused_since = refused_since or anyio.current_time()
        if anyio.current_time() - refused_since > _REFUSED_SECONDS:
            give_up(f"the cluster does not let pods be watched: {error.server_message}")

    def left() -> float:
        since = cluster.silent_since
        return outage if since is None else since + outage - anyio.current_time()

    async def watch_outage() -> None:
        while (seconds := left()) > 0:  # noqa: ASYNC110 - nothing reports a server's silence
            await anyio.sleep(min(1.0, outage / 4, seconds))
        give_up(trouble())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch_outage)
        await watch_pods(cluster, selector, pods, on_error=refused, on_seen=seen)
