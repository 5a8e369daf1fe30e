"""The worker's backend: the game is a container of this pod that runs already, the players are pods of their own."""

from __future__ import annotations

import dataclasses
import logging
import math
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, Self

import anyio
from anyio.abc import TaskGroup

from coworld_core.errors import BackendError, CapabilityError, StartError, UsageError
from coworld_core.events import LeakFound, Notice

from .._concurrency import nursery
from ..backend import Capabilities, Found, HttpProbe, ImageInfo, Publish, UnitSpec
from ..backends._kube_api import Cluster, ClusterRefused
from ..backends._kube_watch import follow
from ..backends.base import BaseBackend
from ..probes import get_status
from .inputs import Settings
from .pods import ATTEMPT, JOB, service_body
from .pulls import Pulls
from .units import Followers, GameUnit, Place, PlayerUnit

__all__ = ["JobBackend"]

_log = logging.getLogger("coworld.worker")

_CALL_PATIENCE = 20.0
_POLL_SECONDS = 1.0
"""Between two looks at the pods where watching them is not permitted."""
_REPLACE_SECONDS = 60.0
_REPLACE_PAUSE = 0.5
_ROUTE_SECONDS = 10.0
"""How long a new service may take to be known on the nodes and by its name."""
_ROUTE_TRY_SECONDS = 2.0
_ROUTE_PAUSE = 0.1


class JobBackend(BaseBackend):
    """Runs the players of one job as pods beside the game.

    Args:
        settings: What the worker is told.
    """

    name = "kubernetes-job"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.until = math.inf
        """The event loop's clock at which the cluster may end the players' pods by itself."""
        self._cluster: Cluster | None = None
        self._attempt = secrets.token_hex(4)
        self._service_uid = ""
        self._unrouted: tuple[str, int] | None = None
        """Address of the service, until it leads to the game."""
        self._routing = anyio.Lock()
        self._game: GameUnit | None = None
        self._players: dict[str, PlayerUnit] = {}
        self._images: dict[str, None] = {}
        """Those of the episode, in the order in which they were asked for."""
        self._pulls: Pulls | None = None

    @property
    def capabilities(self) -> Capabilities:
        """What a pod's own limits hold. Networks are kept apart by the policies that the operator applies."""
        return Capabilities(
            images=True,
            network_isolation=False,
            file_isolation=True,
            memory_limit=True,
            cpu_limit=True,
            pids_limit=False,
            disk_limit=True,
            remote=True,
            separate_streams=False,
        )

    @property
    def cluster(self) -> Cluster:
        """The connection to the API server."""
        if self._cluster is None:
            raise UsageError("The job backend is used outside its `async with`.", code="backend_not_entered")
        return self._cluster

    async def __aenter__(self) -> Self:
        self._cluster = await Cluster.connect(namespace=self._settings.namespace)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            with anyio.CancelScope(shield=True):
                await cluster.close()

    def engine_version(self) -> str:
        """The cluster's version."""
        return f"Kubernetes {self._cluster.version}" if self._cluster is not None else ""

    async def ensure_image(
        self, image: str, *, platform: str | None = None, publish: Publish | None = None
    ) -> ImageInfo:
        """Taken as it is: the nodes fetch it, from the moment on in which the game is looked at."""
        self._images[image] = None
        return ImageInfo(image=image)

    # --- units

    @asynccontextmanager
    async def group(
        self, specs: Sequence[UnitSpec], *, publish: Publish, tasks: TaskGroup
    ) -> AsyncGenerator[Sequence[GameUnit | PlayerUnit], None]:
        """The game, which runs already, with its name and a watch of all pods; or players, while they are there."""
        followers = Followers(tasks)
        place = Place(
            cluster=self.cluster,
            settings=self._settings,
            attempt=self._attempt,
            followers=followers,
            until=self.until,
            routed=self._route,
        )
        units = [self._unit(spec, place, publish) for spec in specs]
        game = any(isinstance(unit, GameUnit) for unit in units)
        try:
            if game:
                followers.start(lambda: self._follow("job-id", self._see_own, _nothing, publish), "own pod")
                followers.start(
                    lambda: self._follow(JOB, self._see_player, self._lost_player, publish), "players' pods"
                )
                await self._make_service()
                self._pull(followers, besides=specs[0].image)
            yield units
        finally:
            if game:
                with anyio.move_on_after(_CALL_PATIENCE, shield=True):
                    await self._drop_service(publish)
            for unit in units:
                self._players.pop(unit.pod, None)
            followers.release()

    def _pull(self, followers: Followers, *, besides: str) -> None:
        """Pull the players' images while the game boots; its own is here."""
        self._pulls = Pulls(
            self.cluster, self._settings, self._attempt, [image for image in self._images if image != besides]
        )
        followers.start(self._pulls.run, "players' images")

    def _unit(self, spec: UnitSpec, place: Place, publish: Publish) -> GameUnit | PlayerUnit:
        if spec.inputs is not None:
            raise CapabilityError(
                f"A hosted job cannot give {spec.name} inputs of its own.",
                hint="Use a backend that can (--backend kubernetes).",
                context={"backend": self.name, "unit": spec.name, "asked": "inputs"},
            )
        if spec.component == "game":
            # what the game and this worker share is where its files are, and its two streams come as one
            spec = dataclasses.replace(spec, directory=self._settings.workdir, stderr=None)
            self._game = GameUnit(spec, place, backend=self, publish=publish)
            return self._game
        player = PlayerUnit(spec, place, backend=self, publish=publish)
        self._players[player.pod] = player
        return player

    # --- the name of the game

    async def _make_service(self) -> None:
        """Make the Service, in place of one that an earlier life of this job's worker may have left."""
        body = service_body(self._settings, self._attempt)
        name = self._settings.service
        with anyio.move_on_after(_REPLACE_SECONDS):
            while True:
                found = await self.cluster.create("services", body)
                labels: Mapping[str, str] = found["metadata"].get("labels") or {}
                if labels.get(ATTEMPT) == self._attempt:
                    self._service_uid = str(found["metadata"]["uid"])
                    self._unrouted = str(found["spec"]["clusterIP"]), int(found["spec"]["ports"][0]["port"])
                    return
                if labels.get(JOB) != self._settings.job_id:
                    raise StartError(
                        f"The service {name} is there already, and it is not this job's.",
                        code="service_taken",
                        hint="Give COWORLD_SERVICE_NAME a name of this job's own.",
                        context={"service": name},
                    )
                _log.info("replacing the service %s of an earlier attempt", name)
                await self.cluster.delete("services", name, uid=found["metadata"]["uid"])
                await anyio.sleep(_REPLACE_PAUSE)
        raise StartError(
            f"The service {name} of an earlier attempt could not be replaced within {_REPLACE_SECONDS:g} s.",
            context={"service": name},
        )

    async def _route(self) -> None:
        """Wait a little until the service leads to the game: many players do not try twice.

        The nodes learn of it a moment after it was made, each in its own time, and this one stands for all. Until then
        connections are refused, or lead to whatever answers for addresses that nobody has; so it is the game's answer
        that counts. Where a pod cannot reach itself by its service, the wait alone has to do.
        """
        async with self._routing:
            if self._unrouted is None:
                return
            address, port = self._unrouted
            with anyio.move_on_after(_ROUTE_SECONDS):
                while not await self._leads_to_the_game(address, port):  # noqa: ASYNC110 - nodes tell nobody
                    await anyio.sleep(_ROUTE_PAUSE)
            self._unrouted = None

    async def _leads_to_the_game(self, address: str, port: int) -> bool:
        try:
            # by its name, as the players do: that is known in its own time, too
            known = await anyio.getaddrinfo(self._settings.service, port)
            there = any(entry[4][0] == address for entry in known)
            host = f"[{address}]" if ":" in address else address
            return there and await get_status(f"{host}:{port}", HttpProbe().path, timeout=_ROUTE_TRY_SECONDS) == 200
        except (OSError, TimeoutError):
            return False

    async def _drop_service(self, publish: Publish) -> None:
        if not self._service_uid:
            return
        try:
            await self.cluster.delete(
                "services", self._settings.service, uid=self._service_uid, patience=_CALL_PATIENCE
            )
        except BackendError as error:
            publish(LeakFound(what=f"service {self._settings.service}", reason=error.message))

    # --- what the cluster says

    async def _follow(self, label: str, on_object: Any, on_gone: Any, publish: Publish) -> None:
        """Follow pods by watch; by looking again and again where only that is permitted."""
        forbidden = anyio.Event()
        selector = f"{label}={self._settings.job_id}"
        async with nursery() as tasks:
            tasks.start_soon(_set_on, forbidden, tasks.cancel_scope)

            def refused(error: ClusterRefused) -> None:
                if error.status == 403:
                    forbidden.set()

            await follow(self.cluster, "pods", selector, on_object=on_object, on_gone=on_gone, on_error=refused)
        publish(
            Notice(
                level="warning",
                message="The worker's service account may not watch pods, so they are looked at every second.",
            )
        )
        known: set[str] = set()
        while True:
            listing = await self.cluster.list("pods", selector)
            present = {str(item["metadata"]["name"]) for item in listing["items"]}
            for item in listing["items"]:
                on_object(item)
            for name in known - present:
                on_gone(name, None)
            known = present
            await anyio.sleep(_POLL_SECONDS)

    def _see_own(self, pod: Mapping[str, Any]) -> None:
        if self._game is not None and pod["metadata"]["uid"] == self._settings.pod_uid:
            self._game.see(pod)

    def _see_player(self, pod: Mapping[str, Any]) -> None:
        if self._pulls is not None:
            self._pulls.see(pod)
        player = self._players.get(pod["metadata"]["name"])
        if player is not None:
            player.see(pod)

    def _lost_player(self, name: str, pod: Mapping[str, Any] | None) -> None:
        if self._pulls is not None:
            self._pulls.gone(name)
        player = self._players.get(name)
        if player is not None:
            player.gone(pod)

    # --- what was left

    async def find_units(self, run_id: str | None) -> Sequence[Found]:
        """Pods and the Service of this job, whichever life of its worker made them."""
        listing = await self.cluster.list("pods", f"{JOB}={self._settings.job_id}")
        found = [self._found("pod", item) for item in listing["items"]]
        service = await self.cluster.get("services", self._settings.service)
        if service is not None and (service["metadata"].get("labels") or {}).get(JOB) == self._settings.job_id:
            found.append(self._found("service", service))
        return found

    def _found(self, kind: Any, item: Mapping[str, Any]) -> Found:
        labels: Mapping[str, str] = item["metadata"].get("labels") or {}
        return Found(
            kind=kind,
            id=str(item["metadata"]["uid"]),
            name=str(item["metadata"]["name"]),
            run_id=self._settings.job_id,
            alive=labels.get(ATTEMPT) == self._attempt,
        )

    async def remove_found(self, found: Found) -> str:
        """Remove a pod or the Service, at once."""
        kind: Literal["pods", "services"] = "pods" if found.kind == "pod" else "services"
        try:
            await self.cluster.delete(kind, found.name, uid=found.id, patience=_CALL_PATIENCE)
        except BackendError as error:
            return error.message
        return ""


def _nothing(_name: str, _pod: Mapping[str, Any] | None) -> None:
    """The worker's own pod is not gone while the worker looks."""


async def _set_on(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
