"""A container of a pod as a unit, observed by watch from its start to its end."""

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

from ..._concurrency import nursery
from ...backend import Backend, Publish, UnitSpec
from ..engine import EngineUnit, Presence
from . import _state as state
from ._api import Cluster, ClusterGone, ClusterRefused
from ._logs import follow_log
from ._pod import MAIN
from ._watch import follow

__all__ = ["WatchedUnit", "watch_units", "watch_until_lost"]

_GONE_LOG_SECONDS = 10.0
"""How long the rest of the log of a pod that is not there any more may take."""
_REFUSED_SECONDS = 30.0
"""How long it may be forbidden to watch pods before units count as lost."""
_SAME_END = 2.0
"""How long after a collector's end that of its unit may show for the two to have come together."""


class WatchedUnit(EngineUnit):
    """What is seen of one container. A subclass has its pod made (``make_pod``) and ended.

    Args:
        spec: What it runs.
        backend: Whose unit it is.
        publish: Where its events go.
        cluster: Where the pod is.
        tasks: Where it is followed, whatever is cancelled, until ``forsake``.
        pod: The pod's name, known before it exists.
        container: Which of its containers.
    """

    log_seconds: ClassVar[float] = 30.0
    """How long the rest of its log may take once it has ended."""
    forbidden_hint: ClassVar[str]
    """The hint for objects that may not be created."""

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
        """The pod's; empty while it is not known."""
        self._state: Mapping[str, Any] = {}
        """The pod as it was seen last; empty before it was."""
        self._lost_why = ""
        self.over = anyio.Event()
        """Set when the container is known to have ended."""

    @property
    def id(self) -> str:
        """The pod's name with its namespace."""
        return f"{self._cluster.namespace}/{self.pod}"

    # --- for a subclass to fill in

    @abc.abstractmethod
    async def make_pod(self) -> None:
        """Have its pod made, where it is not there already.

        Raises:
            StartError: It cannot be.
            ClusterRefused: The cluster refused.
            ClusterGone: The cluster did not answer.
        """

    async def prepare(self) -> None:
        """Whatever it needs between its pod and its start."""

    @abc.abstractmethod
    def explain(self, trouble: state.Trouble) -> tuple[str, str]:
        """The code of an error that says why it does not start, and a hint."""

    def patience(self) -> float:
        """Seconds that it may still take to start as its pod is.

        Raises:
            StartError: There are none left.
        """
        return math.inf

    async def settle(self, ended: Exit) -> Exit:
        """What is to be done when it has ended, before it counts as ended; returns how it did."""
        return ended

    # --- what is seen of it

    @property
    def is_silent(self) -> bool:
        """Whether it may exist and has not ended, so that an API server that does not answer hides it."""
        return self.presence is Presence.MADE and self.exit is None

    def observe(self, pod: Mapping[str, Any]) -> None:
        """Note the current state of the pod."""
        if self._is_ours(pod):
            self._state = pod
            self.wake()

    def vanish(self, last: Mapping[str, Any]) -> None:
        """Note that the pod was deleted.

        Args:
            last: It as it was seen last.
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

    # --- started

    async def launch(self) -> None:
        """Make its pod, and wait until that runs.

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
        """Wait until the pod has come so far.

        Raises:
            StartError: It will not; the message has the cluster's own words.
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
            raise self._trouble("pod_deleted", "the pod was deleted by somebody else", "Let nobody else delete it.")
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
        """The error for an object of it that could not be created."""
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

    # --- followed

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
            # its node may report the two ends one after the other
            with anyio.move_on_after(_SAME_END if words else None) as waiting:
                await changed.wait()
            if waiting.cancelled_caught:
                # its files cannot be fetched any more, and its readiness cannot be asked
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
        """Keep how it ended; nothing more comes from it."""
        self.over.set()
        super().finish(exit)

    # --- ended

    async def remove(self) -> None:
        """Give back what was made of it; nothing follows it any more."""
        self.forsake()


async def watch_units(
    cluster: Cluster,
    selector: str,
    units: Iterable[WatchedUnit],
    *,
    on_error: Callable[[ClusterRefused], object],
    on_seen: Callable[[], object] = lambda: None,
) -> None:
    """Tell units what becomes of their pods. Never returns.

    Args:
        cluster: Where they are.
        selector: Which pods, by label; others than those of the units may be among them.
        units: The units.
        on_error: Told of a refusal, such as a right that was taken away.
        on_seen: Told that something is seen.
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
    """Tell units what becomes of their pods, or that nothing can be seen any more. Never returns.

    Args:
        cluster: Where they are.
        selector: Which pods, by label.
        units: The units.
        outage: Seconds without an answer of the API server after which units count as lost.
        trouble: What to say then.
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
        # a server that has just been started refuses what it will permit in a moment
        nonlocal refused_since
        refused_since = refused_since or anyio.current_time()
        if anyio.current_time() - refused_since > _REFUSED_SECONDS:
            give_up(f"the cluster does not let pods be watched: {error.words}")

    def left() -> float:
        since = cluster.silent_since
        return outage if since is None else since + outage - anyio.current_time()

    async def watch_outage() -> None:
        while (seconds := left()) > 0:  # noqa: ASYNC110 - a server tells nobody that it is silent
            await anyio.sleep(min(1.0, outage / 4, seconds))
        give_up(trouble())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch_outage)
        await watch_units(cluster, selector, units, on_error=refused, on_seen=seen)
