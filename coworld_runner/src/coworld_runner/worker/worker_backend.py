"""The worker's backend: the game already runs as a container of this pod; each player gets its own pod."""

from __future__ import annotations

import dataclasses
import logging
import math
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal

import anyio
from anyio.abc import TaskGroup

from coworld_core.episode.events import LeakFound, Notice
from coworld_core.errors import BackendError, CapabilityError, StartError
from coworld_core.hints import Hint

from ..backend import Found, HttpProbe, ImageInfo, Publish, UnitSpec
from ..backends.kubernetes._cluster import ClusterRefused
from ..backends.kubernetes._watched_unit import watch_pods
from ..episode.contract_probes import get_status
from .player_pods import ATTEMPT, COMPONENT, JOB, service_body
from .player_pulls import pull_images
from .pod_backend import PodBackend
from .worker_settings import Settings
from .worker_units import GameUnit, JobContext, PlayerUnit

__all__ = ["JobBackend"]

_log = logging.getLogger("coworld.worker")

_CALL_TIMEOUT = 20.0
_REPLACE_SECONDS = 60.0
_REPLACE_PAUSE = 0.5
_ROUTE_SECONDS = 10.0
"""How long a new service may take to be routed on the nodes and to resolve by name."""
_ROUTE_TRY_SECONDS = 2.0
_ROUTE_PAUSE = 0.1


class JobBackend(PodBackend):
    """Runs the players of one job as pods beside the game.

    Args:
        settings: The worker's settings.
    """

    name = "kubernetes-job"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.namespace)
        self._settings = settings
        self.until = math.inf
        """When the cluster may end the players' pods, on the event loop's clock."""
        self._attempt = secrets.token_hex(4)
        self._service_uid = ""
        self._unrouted: tuple[str, int] | None = None
        """Address of the service, until it leads to the game."""
        self._routing = anyio.Lock()
        self._images: dict[str, None] = {}
        """The images of the episode, in the order of the requests."""
        self._unwatched = False
        """Whether the lack of permission to watch has been reported."""

    async def ensure_image(
        self, image: str, *, platform: str | None = None, publish: Publish | None = None
    ) -> ImageInfo:
        """Take the image as it is, and note it: the nodes pull it while the game is watched."""
        self._images[image] = None
        return await super().ensure_image(image, platform=platform, publish=publish)

    # --- units

    @asynccontextmanager
    async def group(
        self, specs: Sequence[UnitSpec], *, publish: Publish, tasks: TaskGroup
    ) -> AsyncGenerator[Sequence[GameUnit | PlayerUnit], None]:
        """Start the game's group, with its Service and the pulls of the players' images; or a group of players."""
        place = JobContext(
            cluster=self.cluster,
            settings=self._settings,
            attempt=self._attempt,
            tasks=tasks,
            until=self.until,
            routed=self._route,
        )
        units = [self._unit(spec, place, publish) for spec in specs]
        game = any(isinstance(unit, GameUnit) for unit in units)
        # Shielded: the units' exits must be seen even after a cancellation
        beside = anyio.CancelScope(shield=True)
        tasks.start_soon(self._beside, beside, units, publish, name="pods of the job")
        try:
            if game:
                await self._make_service()
            yield units
        finally:
            if game:
                with anyio.move_on_after(_CALL_TIMEOUT, shield=True):
                    await self._drop_service(publish)
            beside.cancel()

    def _unit(self, spec: UnitSpec, context: JobContext, publish: Publish) -> GameUnit | PlayerUnit:
        if spec.inputs is not None:
            raise CapabilityError(
                f"A hosted job cannot give {spec.name} inputs of its own.",
                hint=Hint("kubernetes_backend", 'Use a backend that can (backend="kubernetes").'),
                context={"backend": self.name, "unit": spec.name, "asked": "inputs"},
            )
        if spec.component == "game":
            # The game's files are on the volume that it shares with this worker; its two streams are merged
            spec = dataclasses.replace(spec, directory=self._settings.workdir, stderr=None)
            return GameUnit(spec, context, backend=self, publish=publish)
        return PlayerUnit(spec, context, backend=self, publish=publish)

    # --- the game's Service

    async def _make_service(self) -> None:
        """Make the Service, replacing one that this worker may have left before it was restarted."""
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
                        f"The service {name} already exists, and is not this job's.",
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
        """Wait a little until the service leads to the game: many players do not retry.

        Each node learns of the service a moment after it was made; this node stands for all. Until then connections
        are refused, or reach something that answers for unassigned addresses, so only the game's own response counts.
        Where a pod cannot reach itself by its service, waiting has to suffice.
        """
        async with self._routing:
            if self._unrouted is None:
                return
            address, port = self._unrouted
            with anyio.move_on_after(_ROUTE_SECONDS):
                while not await self._leads_to_the_game(address, port):  # noqa: ASYNC110 - nodes send no notice
                    await anyio.sleep(_ROUTE_PAUSE)
            self._unrouted = None

    async def _leads_to_the_game(self, address: str, port: int) -> bool:
        try:
            # By name, as the players connect: the name may resolve later than the address is routed
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
                "services", self._settings.service, uid=self._service_uid, retry_timeout=_CALL_TIMEOUT
            )
        except BackendError as error:
            publish(LeakFound(what=f"service {self._settings.service}", reason=error.message))

    # --- beside the units

    async def _beside(self, scope: anyio.CancelScope, units: Sequence[GameUnit | PlayerUnit], publish: Publish) -> None:
        """Watch the units' pods, and pull the players' images while the game boots."""
        games = [unit for unit in units if isinstance(unit, GameUnit)]
        players = [unit for unit in units if isinstance(unit, PlayerUnit)]
        own = f"job-id={self._settings.job_id}"
        # Pods from before a restart of this worker are not ours
        others = f"{ATTEMPT}={self._attempt},{COMPONENT}=player"

        def refused(error: ClusterRefused) -> None:
            if error.status == 403 and not self._unwatched:
                self._unwatched = True
                words = "The worker's service account may not watch pods, so they are polled every second."
                publish(Notice(level="warning", message=words))

        with scope:
            async with anyio.create_task_group() as tasks:
                for selector, mine in ((own, games), (others, players)):
                    if mine:
                        pods = [unit.pod for unit in mine]
                        tasks.start_soon(partial(watch_pods, self.cluster, selector, pods, on_error=refused))
                if games:
                    images = [image for image in self._images if image != games[0].spec.image]
                    tasks.start_soon(pull_images, self.cluster, self._settings, self._attempt, images)

    # --- leftovers

    async def find_units(self, run_id: str | None) -> Sequence[Found]:
        """Pods and the Service of this job, including those from before a restart of its worker."""
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
            await self.cluster.delete(kind, found.name, uid=found.id, retry_timeout=_CALL_TIMEOUT)
        except BackendError as error:
            return error.message
        return ""
