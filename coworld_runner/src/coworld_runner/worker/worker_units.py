"""The units of a job: the game's container in this pod, and a pod for each player."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

import anyio
from anyio.abc import TaskGroup

from coworld_core.episode.outcome import Exit
from coworld_core.errors import BackendError, StartError

from ..backend import Backend, Endpoint, Publish, UnitSpec
from ..backends._direct_hosts import without_proxy
from ..backends.base import LOCALHOST, BaseUnit
from ..backends.kubernetes._admission import is_restricted
from ..backends.kubernetes._cluster import Cluster, ClusterRefused
from ..backends.kubernetes._pod_state import Trouble
from ..backends.kubernetes._start_attempts import advice
from ..backends.kubernetes._watched_unit import Presence, WatchedPod
from ..backends.kubernetes.pod_overlay import RESTRICTED_USER, as_user
from .player_pods import (
    ATTEMPT,
    JOB,
    PLAYER,
    PLAYER_PLACEMENT,
    player_environment,
    player_pod,
    player_secret,
    pod_name,
    uses_bedrock,
)
from .worker_settings import Settings

__all__ = ["GameUnit", "JobContext", "PlayerUnit", "explain_start"]

GAME = "game"
"""Name of the game's container in the Job's pod."""

_NODE_SECONDS = 1.0
"""How many seconds late the node may carry out a kill that it was told to."""
_CALL_TIMEOUT = 20.0
_REPLACE_PAUSE = 0.5
_LONGEST_LIFE = 24 * 3600.0


@dataclass(frozen=True)
class JobContext:
    """The surroundings of the units."""

    cluster: Cluster
    settings: Settings
    attempt: str
    tasks: TaskGroup
    until: float
    """When the cluster may end the players, on the event loop's clock."""
    routed: Callable[[], Awaitable[None]]
    """Waits until new players can reach the game."""


def _watched(unit: BaseUnit, context: JobContext, name: str, container: str) -> WatchedPod:
    return WatchedPod(
        unit,
        cluster=context.cluster,
        tasks=context.tasks,
        name=name,
        container=container,
        explain=lambda trouble: explain_start(trouble, unit.spec.image),
        forbidden_hint="Give the worker's service account the right to it: docs/worker.md has the rules.",
        log_seconds=10.0,
        grows=True,
    )


def explain_start(trouble: Trouble, image: str) -> tuple[str, str]:
    """Return the code, the same as for any cluster, and the hint."""
    more = "See the pod's events; a pod's image and command are those of the manifest."
    return trouble.code, advice(trouble.code, image) or more


class GameUnit(BaseUnit):
    """The game: a container that the platform made and that ends with this pod, so it cannot be stopped from here."""

    def __init__(self, spec: UnitSpec, context: JobContext, *, backend: Backend, publish: Publish) -> None:
        super().__init__(spec, backend=backend, publish=publish)
        self._settings = context.settings
        self.pod = _watched(self, context, context.settings.pod_name, GAME)
        self.pod.uid = context.settings.pod_uid

    @property
    def id(self) -> str:
        """The pod's namespace and name."""
        return self.pod.id

    def endpoint(self, port: str = "http") -> Endpoint:
        """Return the addresses: within the pod for the worker, by the Service's name for the players."""
        if port != "http":
            raise KeyError(port)
        return Endpoint(here=f"{LOCALHOST}:{self._settings.game_port}", there=f"{self._settings.service}:8080")

    async def launch(self) -> None:
        """Wait until its container runs; the pod exists already.

        Raises:
            StartError: It will never run; the message has the cluster's reason.
        """
        await self.pod.launch()

    async def terminate(self, grace: float) -> None:
        """Do nothing: signals cannot be delivered from here, and the node ends the game with its pod."""

    async def kill(self) -> None:
        """Do nothing to the game: it ends with its pod, after the worker."""
        self.finish(Exit(reason="stopped", detail="it ends with its pod"))

    def finish(self, exit: Exit) -> None:
        """Record its end; nothing more comes from it."""
        self.pod.over.set()
        super().finish(exit)

    async def remove(self) -> None:
        """Stop following it."""
        self.stop_watching()


class PlayerUnit(BaseUnit):
    """A player: a pod of its own, with a Secret for its confidential variables."""

    def __init__(self, spec: UnitSpec, context: JobContext, *, backend: Backend, publish: Publish) -> None:
        assert spec.slot is not None
        self._slot = spec.slot
        super().__init__(spec, backend=backend, publish=publish)
        self._job_context = context
        self._cluster = context.cluster
        self.pod = _watched(self, context, pod_name(context.settings, self._slot), PLAYER)
        given, secrets = spec.environment(PLAYER_PLACEMENT), spec.secret_env
        direct = without_proxy({**given, **secrets}, spec.direct)
        self._plain, self._concealed = player_environment(
            context.settings,
            self._slot,
            variables={**given, **direct},
            secrets={**secrets, **{name: value for name, value in direct.items() if name in secrets}},
        )
        self._secret = ""
        self._killed_by_node = False
        """Whether the node was told when to kill it."""

    @property
    def id(self) -> str:
        """The pod's namespace and name."""
        return self.pod.id

    @property
    def label(self) -> str:
        """Its name in the report when it could not be removed."""
        return f"pod {self.pod.name}"

    def endpoint(self, port: str = "http") -> Endpoint:
        """Raise `KeyError`: a player has no port."""
        raise KeyError(port)

    # --- made

    async def make(self) -> None:
        """Make its Secret; the pod is made when the game is ready, because many players do not retry."""
        settings = self._job_context.settings
        if self._concealed and not settings.players.plain_environment:
            body = player_secret(settings, self._slot, self._job_context.attempt, self._concealed)
            self._secret = body["metadata"]["name"]
            try:
                # Create without reading back: the worker has no permission to read Secrets
                await self._cluster.call("POST", self._cluster.path("secrets"), body=body)
            except ClusterRefused as error:
                # The name is unique, so a conflict means that an interrupted call was carried out
                if error.status != 409:
                    raise self.pod.refused("secret", error) from error

    async def launch(self) -> None:
        """Make its pod and wait until it runs; a pod that is deleted before that counts as ended.

        Raises:
            StartError: It cannot be made, or will never run; the message has the cluster's reason.
        """
        try:
            await self.pod.launch(self._make_pod)
        except StartError as error:
            if error.code != "pod_deleted":
                raise
            self.finish(Exit(reason="lost", detail=error.message))

    async def _make_pod(self) -> None:
        """Make its pod, replacing one that this worker may have left before it was restarted."""
        place, spec = self._job_context, self.spec
        await place.routed()
        settings = place.settings
        while True:
            body = player_pod(
                settings,
                self._slot,
                place.attempt,
                image=spec.image,
                argv=spec.argv,
                plain=self._plain,
                concealed=self._concealed,
                bedrock=uses_bedrock(spec.secret_env),
                seconds=min(place.until - anyio.current_time(), _LONGEST_LIFE),
            )
            try:
                found = await self._cluster.create("pods", body)
            except ClusterRefused as error:
                if is_restricted(error) and settings is place.settings:
                    overlay = settings.players.overlay.over(as_user(RESTRICTED_USER))
                    settings = replace(settings, players=replace(settings.players, overlay=overlay))
                    continue
                if error.status != 404:
                    raise
                # The old pod has just gone
                await anyio.sleep(_REPLACE_PAUSE)
                continue
            metadata: Mapping[str, str] = found["metadata"]
            labels: Mapping[str, str] = found["metadata"].get("labels") or {}
            if labels.get(ATTEMPT) == place.attempt:
                break
            if labels.get(JOB) != place.settings.job_id:
                raise StartError(
                    f"There is a pod {self.pod.name} already, which is not this job's.",
                    code="pod_taken",
                    hint="Give COWORLD_SERVICE_NAME a name of this job's own.",
                    context={"unit": self.name, "pod": self.pod.name},
                )
            await self._cluster.delete("pods", self.pod.name, grace=0, uid=metadata["uid"])
            await anyio.sleep(_REPLACE_PAUSE)
        self.pod.uid = metadata["uid"]

    # --- ended

    def finish(self, exit: Exit) -> None:
        """Record its end; nothing more comes from it."""
        self.pod.over.set()
        super().finish(exit)

    async def terminate(self, grace: float) -> None:
        """Delete its pod: the node sends TERM now, and KILL after `grace` seconds."""
        self._killed_by_node = True
        await self._end(int(grace) or 1)

    async def kill(self) -> None:
        """Delete its pod at once; a node that was told to kill it gets a second to do so first."""
        if self._killed_by_node:
            with anyio.move_on_after(_NODE_SECONDS):
                await self.wait()
        await self._end(0)

    async def _end(self, grace: int) -> None:
        if not self.pod.over.is_set():
            # Set before the call: the deletion may be seen before the response
            self.ended_by = self.ended_by or "stopped"
            await self._delete(grace)

    async def _delete(self, grace: int) -> str:
        """Delete the pod; returns the reason if that failed."""
        try:
            await self._cluster.delete(
                "pods", self.pod.name, grace=grace, uid=self.pod.uid, retry_timeout=_CALL_TIMEOUT
            )
        except BackendError as error:
            return error.message
        return ""

    async def _remove_pod(self) -> str:
        """Make sure that the pod is gone, even if it may never have been made; returns the reason if that failed."""
        if not self.pod.uid:
            try:
                found = await self._cluster.get("pods", self.pod.name, retry_timeout=_CALL_TIMEOUT)
            except BackendError as error:
                return error.message
            if found is None:
                return ""
            labels: Mapping[str, str] = found["metadata"].get("labels") or {}
            if labels.get(ATTEMPT) != self._job_context.attempt:
                return ""
            self.pod.uid = str(found["metadata"]["uid"])
        return await self._delete(0)

    async def remove(self) -> None:
        """Remove the pod and the Secret; publish what could not be removed."""
        if self.pod.presence is not Presence.UNMADE and (reason := await self._remove_pod()):
            self.leak(self.label, reason)
        if self._secret:
            try:
                await self._cluster.delete("secrets", self._secret, retry_timeout=_CALL_TIMEOUT)
            except BackendError as error:
                self.leak(f"secret {self._secret}", error.message)
        self.stop_watching()
