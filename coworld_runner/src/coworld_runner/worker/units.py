"""The units of a job: the game's container in this pod, and a pod for each player."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.abc import TaskGroup

from coworld_core.errors import BackendError, StartError
from coworld_core.events import Notice
from coworld_core.outcome import Exit

from ..backend import Backend, Endpoint, Placement, Publish, UnitSpec
from ..backends._kube_api import Cluster, ClusterRefused
from ..backends._kube_logs import follow_log
from ..backends._kube_pod import MAIN
from ..backends._kube_state import Trouble, exit_of, has_started, start_trouble
from ..backends.base import LOCALHOST, BaseUnit
from .inputs import Settings
from .pods import ATTEMPT, JOB, PLAYER, player_environment, player_pod, player_secret, pod_name, uses_bedrock

__all__ = ["Followers", "GameUnit", "Place", "PlayerUnit"]

GAME = "game"
"""Name of the game's container in the Job's pod."""

_LOG_SECONDS = 10.0
"""How long after a unit's end the rest of its log is waited for."""
_NODE_SECONDS = 1.0
"""How late the node may be with killing what it was told to."""
_CALL_PATIENCE = 20.0
_REPLACE_PAUSE = 0.5
_LONGEST_LIFE = 24 * 3600.0


class Followers:
    """Tasks that go on when what they serve is cancelled, until ``release`` is called: an end is seen all the same."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._scopes: set[anyio.CancelScope] = set()
        self._released = False

    def start(self, work: Callable[[], Awaitable[object]], name: str) -> None:
        """Start one."""
        self._tasks.start_soon(self._run, work, name=name)

    async def _run(self, work: Callable[[], Awaitable[object]]) -> None:
        with anyio.CancelScope(shield=True) as scope:
            if self._released:
                return
            self._scopes.add(scope)
            try:
                await work()
            finally:
                self._scopes.discard(scope)

    def release(self) -> None:
        """End them all."""
        self._released = True
        for scope in tuple(self._scopes):
            scope.cancel()


@dataclass(frozen=True)
class Place:
    """Where the units live."""

    cluster: Cluster
    settings: Settings
    attempt: str
    followers: Followers
    until: float
    """The event loop's clock at which the cluster may end players by itself."""
    routed: Callable[[], Awaitable[None]]
    """Waits until players that are started can find the game."""


def _as_unit(pod: Mapping[str, Any], container: str) -> Mapping[str, Any]:
    """The pod as if that container were the only one."""
    seen = copy.copy(dict(pod))
    status = dict(pod.get("status") or {})
    status["containerStatuses"] = [
        {**entry, "name": MAIN} for entry in status.get("containerStatuses") or () if entry.get("name") == container
    ]
    seen["status"] = status
    return seen


class _WatchedUnit(BaseUnit):
    """What both have in common: a start and an end that the watch tells of, and a log that is followed."""

    def __init__(
        self, spec: UnitSpec, place: Place, *, backend: Backend, publish: Publish, pod: str, container: str
    ) -> None:
        super().__init__(spec, backend=backend, publish=publish)
        self.pod = pod
        """The pod's name."""
        self._place = place
        self._container = container
        self._pod: Mapping[str, Any] | None = None
        """The pod as last seen, with this container alone."""
        self._begun = anyio.Event()
        """Set when it runs, has run, or never will."""
        self._trouble: Trouble | None = None
        self._over = anyio.Event()
        """Set when it is known to have ended."""
        self._log_done = anyio.Event()

    @property
    def id(self) -> str:
        """The pod's name."""
        return self.pod

    def finish(self, exit: Exit) -> None:
        """Keep how it ended; what is still seen of it does not count any more."""
        self._over.set()
        self._begun.set()
        super().finish(exit)

    async def launch(self) -> None:
        """Wait until it runs, which it may do already.

        Raises:
            StartError: It never will: the cluster's own words say why.
        """
        await self._begun.wait()
        if self._trouble is not None:
            unreachable = self._trouble.code == "image_unreachable"
            raise StartError(
                f"{self.name} cannot be started: {self._trouble.words}.",
                code="image_unusable" if unreachable else "command_failed",
                hint="Correct its image and command in the manifest.",
                context={"unit": self.name, "image": self.spec.image, "pod": self.pod},
            )
        if not self.started.is_set():
            # it ended before it ran, evicted perhaps
            await self.wait()

    def _look(self) -> None:
        """Draw the conclusions from the pod as last seen."""
        if self._pod is None or self._over.is_set():
            return
        if not self.started.is_set() and has_started(self._pod):
            self.mark_started()
            self._place.followers.start(self._follow_log, f"log of {self.name}")
            self._begun.set()
        ended = exit_of(self._pod, ours=self.ended_by)
        if not self.started.is_set():
            self._trouble = self._trouble or start_trouble(self._pod)
            if self._trouble is not None or ended is not None:
                self._begun.set()
        if ended is not None:
            self._conclude(ended)

    def _conclude(self, ended: Exit) -> None:
        """It has ended: finish when its log is there."""
        if not self._over.is_set():
            self._over.set()
            self._begun.set()
            self._place.followers.start(lambda: self._finish_with_log(ended), f"end of {self.name}")

    async def _finish_with_log(self, ended: Exit) -> None:
        if self.started.is_set():
            with anyio.move_on_after(_LOG_SECONDS):
                await self._log_done.wait()
        self.finish(ended)

    async def _follow_log(self) -> None:
        if self.spec.stdout is None:
            self._log_done.set()
            return
        log = self.open_log(self.spec.stdout)
        try:
            whole = await follow_log(
                self._place.cluster,
                self.pod,
                self._container,
                log.write,
                enough=lambda: log.truncated,
                ended=self._over,
            )
            if not whole:
                self.publish(Notice(level="warning", message=f"The log of {self.name} is not complete."))
        finally:
            self.close_log(log)
            self._log_done.set()


class GameUnit(_WatchedUnit):
    """The game: a container that the platform made and that ends with this pod, so it cannot be stopped from here."""

    def __init__(self, spec: UnitSpec, place: Place, *, backend: Backend, publish: Publish) -> None:
        super().__init__(spec, place, backend=backend, publish=publish, pod=place.settings.pod_name, container=GAME)

    def endpoint(self, port: str = "http") -> Endpoint:
        """Within the pod from here, by the Service's name from the players."""
        if port != "http":
            raise KeyError(port)
        settings = self._place.settings
        return Endpoint(here=f"{LOCALHOST}:{settings.game_port}", there=f"{settings.service}:8080")

    def see(self, pod: Mapping[str, Any]) -> None:
        """Take in what the cluster says about the pod."""
        self._pod = _as_unit(pod, self._container)
        self._look()

    async def terminate(self, grace: float) -> None:
        """Nothing: it cannot be signalled from here, and may end by itself meanwhile."""

    async def kill(self) -> None:
        """Leave it to the end of its pod, which comes after that of the worker."""
        self.finish(Exit(reason="stopped", detail="it ends with its pod"))


class PlayerUnit(_WatchedUnit):
    """A player: a pod of its own, with a Secret for what nobody else may see."""

    def __init__(self, spec: UnitSpec, place: Place, *, backend: Backend, publish: Publish) -> None:
        assert spec.slot is not None
        self._slot = spec.slot
        pod = pod_name(place.settings, self._slot)
        super().__init__(spec, place, backend=backend, publish=publish, pod=pod, container=PLAYER)
        self._plain, self._concealed = player_environment(
            place.settings, self._slot, given=spec.environment(_PLACEMENT), secrets=spec.secret_env
        )
        self._secret = ""
        self._uid = ""
        self._asked_for = False
        """Whether the cluster was asked to make the pod."""
        self._killed_by_node = False
        """Whether the node was told when to kill it."""
        self._early: list[tuple[Mapping[str, Any], bool]] = []
        """What was seen before it was known which pod is ours: pod, and whether it is gone."""

    @property
    def label(self) -> str:
        """What it is called when it could not be removed."""
        return f"pod {self.pod}"

    def endpoint(self, port: str = "http") -> Endpoint:
        """It has no port."""
        raise KeyError(port)

    # --- made

    async def make(self) -> None:
        """Make its Secret; the pod comes when the game is ready, because many players do not try twice."""
        settings = self._place.settings
        if self._concealed and not settings.players.plain_environment:
            body = player_secret(settings, self._slot, self._place.attempt, self._concealed)
            self._secret = body["metadata"]["name"]
            try:
                # the answer is not needed, and reading Secrets is a right that the worker does without
                await self._place.cluster.call("POST", self._place.cluster.path("secrets"), body=body)
            except ClusterRefused as error:
                # under a name that nobody else has: a call that was cut off has been carried out
                if error.status != 409:
                    raise self._refused("secret", error) from error

    async def launch(self) -> None:
        """Make its pod and wait until it runs.

        Raises:
            StartError: It cannot be made, or will never run: the cluster's own words say why.
        """
        await self._make_pod()
        await super().launch()

    async def _make_pod(self) -> None:
        place, spec = self._place, self.spec
        await place.routed()
        body = player_pod(
            place.settings,
            self._slot,
            place.attempt,
            image=spec.image,
            argv=spec.argv,
            plain=self._plain,
            concealed=self._concealed,
            bedrock=uses_bedrock(spec.secret_env),
            seconds=min(place.until - anyio.current_time(), _LONGEST_LIFE),
        )
        self._asked_for = True
        while True:
            try:
                found = await place.cluster.create("pods", body)
            except ClusterRefused as error:
                if error.status != 404:
                    raise self._refused("pod", error) from error
                # the one that was there has just gone
                await anyio.sleep(_REPLACE_PAUSE)
                continue
            metadata: Mapping[str, Any] = found["metadata"]
            labels: Mapping[str, str] = metadata.get("labels") or {}
            if labels.get(ATTEMPT) == place.attempt:
                break
            if labels.get(JOB) != place.settings.job_id:
                raise StartError(
                    f"There is a pod {self.pod} already, and it is not this job's.",
                    code="pod_taken",
                    hint="Give COWORLD_SERVICE_NAME a name of this job's own.",
                    context={"unit": self.name, "pod": self.pod},
                )
            # an earlier life of this worker made it
            await place.cluster.delete("pods", self.pod, grace=0, uid=metadata["uid"])
            await anyio.sleep(_REPLACE_PAUSE)
        self._uid = str(found["metadata"]["uid"])
        early, self._early = self._early, []
        for pod, gone in early:
            (self.gone if gone else self.see)(pod)

    def _refused(self, what: str, error: ClusterRefused) -> BackendError:
        hint = (
            "The namespace's quota is used up; give it more, or run fewer jobs at once."
            if error.over_quota
            else f"Give the worker's service account the right to create {what}s: docs/worker.md has the rules."
            if error.status == 403
            else None
        )
        return StartError(
            f"The {what} of {self.name} could not be made: {error.words}.",
            code="quota_exceeded" if error.over_quota else None,
            hint=hint,
            context={"unit": self.name, "pod": self.pod, "status": error.status},
        )

    # --- seen

    def see(self, pod: Mapping[str, Any]) -> None:
        """Take in what the cluster says about a pod of this name."""
        if not self._uid:
            if self._asked_for:
                self._early.append((pod, False))
            return
        if pod["metadata"]["uid"] == self._uid:
            self._pod = _as_unit(pod, self._container)
            self._look()

    def gone(self, pod: Mapping[str, Any] | None) -> None:
        """The pod is no longer there; ``pod`` is its last state, where that is known."""
        if pod is not None:
            if not self._uid:
                if self._asked_for:
                    self._early.append((pod, True))
                return
            if pod["metadata"]["uid"] != self._uid:
                return
            self._pod = _as_unit(pod, self._container)
            self._look()
        if self._uid:
            detail = "" if self.ended_by else f"pod {self.pod} was deleted by somebody else"
            self._conclude(Exit(reason=self.ended_by or "lost", detail=detail))

    # --- ended

    async def terminate(self, grace: float) -> None:
        """Delete its pod: TERM now, and KILL after ``grace`` seconds by the node itself."""
        self._killed_by_node = True
        await self._end(int(grace) or 1)

    async def kill(self) -> None:
        """Delete its pod at once, where the node has not killed it by itself as it was told to."""
        if self._killed_by_node:
            with anyio.move_on_after(_NODE_SECONDS):
                await self.wait()
        await self._end(0)

    async def _end(self, grace: int) -> None:
        if not self._over.is_set():
            # before it is asked for, as it may be seen before the answer
            self.ended_by = self.ended_by or "stopped"
            await self._delete(grace)

    async def _delete(self, grace: int) -> str:
        """Delete the pod; returns why not, if so."""
        try:
            await self._place.cluster.delete("pods", self.pod, grace=grace, uid=self._uid, patience=_CALL_PATIENCE)
        except BackendError as error:
            return error.message
        return ""

    async def _remove_pod(self) -> str:
        """See that the pod is gone, though we may not know whether it was made; returns why not, if so."""
        if not self._uid:
            try:
                found = await self._place.cluster.get("pods", self.pod, patience=_CALL_PATIENCE)
            except BackendError as error:
                return error.message
            if found is None:
                return ""
            labels: Mapping[str, str] = found["metadata"].get("labels") or {}
            if labels.get(ATTEMPT) != self._place.attempt:
                return ""
            self._uid = str(found["metadata"]["uid"])
        return await self._delete(0)

    async def remove(self) -> None:
        """Remove everything of it; what could not be removed is published."""
        if self._asked_for and (reason := await self._remove_pod()):
            self.leak(self.label, reason)
        if self._secret:
            try:
                await self._place.cluster.delete("secrets", self._secret, patience=_CALL_PATIENCE)
            except BackendError as error:
                self.leak(f"secret {self._secret}", error.message)


_PLACEMENT = Placement(directory="/coworld-artifact", listen_host="0.0.0.0", listen={}, endpoints={})  # noqa: S104
"""A player listens on nothing, and where it puts its artifact the platform says."""
