"""The Docker backend: units are containers of a local engine, isolated from each other, the internet and the host.

Defaults, besides the limits of a unit's spec: no capabilities for players (a game keeps those that an image's start
script needs to switch users), no new privileges, no core files, no log kept by the engine.

A client whose network is `game-only` shares a network with the unit it connects to, and nothing else: it cannot reach
other clients, the internet or the host's services, and cannot even look up outside names. A unit that publishes a port
and is not `open` has no route to the internet either, but it can reach services of the host that listen on every
address, because publishing on loopback needs an address on the host.

The kernel enforces process limits by refusing to create more processes. What a program does then is up to the program,
and its end is reported like any other.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal, Self

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from coworld_core.docker_address import EngineRefused, resolve_address
from coworld_core.errors import BackendUnavailable, UsageError
from coworld_core.hints import Hint
from coworld_core.issues import Issue
from coworld_core.text.phrases import listed

from ...backend import Capabilities, Found, ImageInfo, Publish, UnitSpec, to_nobody
from ..base import BaseBackend, refuse_taken_names
from ..collector.listening_ports import open_ports
from ..engine import helper_image, run_labels
from ..registry import BackendOptions
from ._docker_labels import find_labelled, object_name, reap_labelled
from ._docker_unit import ContainerContext, DockerUnit, Run
from ._emulation import Emulation
from ._engine import Engine, path_segment
from ._image_pulls import Images
from ._run_networks import SharedNetwork

__all__ = ["DockerBackend"]

_LOW_DISK = 2 * 1024**3


def _or_processes(hint: str) -> Hint:
    return Hint("or_processes", '{hint} Or pass backend="process", which needs no engine.', hint=hint)


class DockerBackend(BaseBackend):
    """Runs units as containers of a Docker engine on this machine.

    Args:
        host: The engine's address, e.g. `unix:///run/user/1000/docker.sock`. By default the one that the `docker`
            command would use: `DOCKER_HOST`, the current context, `/var/run/docker.sock`.
        pull: Whether a missing image is pulled (`missing`) or refused (`never`).
        logins: User and password by registry (host and port) for pulling, instead of those that `docker login` has
            stored.
    """

    name = "docker"
    remove_seconds = 60.0
    removal = (("container",), ("network", "volume"))

    def __init__(
        self,
        *,
        host: str | None = None,
        pull: Literal["missing", "never"] = "missing",
        logins: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        self._host = host
        self._pull: Literal["missing", "never"] = pull
        self._logins = dict(logins or {})
        self._engine: Engine | None = None
        self._open = AsyncExitStack()
        self._images: Images | None = None
        self._emulation: Emulation | None = None
        self._runs: dict[str, Run] = {}
        self._programs: set[tuple[str, ...]] = set()
        self._building = anyio.Lock()

    @classmethod
    def of(cls, options: BackendOptions) -> Self:
        """Create the backend for the default engine; the entry point in `coworld.backends`."""
        return cls()

    @property
    def capabilities(self) -> Capabilities:
        """What the engine enforces; until the backend is entered, what an engine on Linux usually enforces."""
        info: Mapping[str, Any] = self._engine.info if self._engine is not None else {}
        return Capabilities(
            images=True,
            network_isolation=True,
            file_isolation=True,
            memory_limit=bool(info.get("MemoryLimit", True)),
            cpu_limit=bool(info.get("CpuCfsQuota", True)),
            pids_limit=bool(info.get("PidsLimit", True)),
            disk_limit=True,
            remote=False,
            gpu="nvidia" in (info.get("Runtimes") or {}),
            builds=True,
            proxies=True,
        )

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            engine = await stack.enter_async_context(self._connect())
            if (system := engine.info.get("OSType")) != "linux":
                raise BackendUnavailable(
                    f"The Docker engine runs {system} containers, but Coworlds need Linux containers.",
                    code="docker_wrong_system",
                    hint="Switch Docker Desktop to Linux containers.",
                )
            self._open = stack.pop_all()
        self._engine = engine
        self._images = Images(engine, pull=self._pull, logins=self._logins)
        self._emulation = Emulation(engine)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._engine = self._images = self._emulation = None
        await self._open.aclose()

    def _connect(self) -> AbstractAsyncContextManager[Engine]:
        address = resolve_address(self._host, shares_files=True)
        return Engine.connect(address, otherwise=_or_processes)

    def _entered(self) -> Engine:
        if self._engine is None:
            raise UsageError("The docker backend is used outside its `async with`.", code="backend_not_entered")
        return self._engine

    def engine_version(self) -> str:
        """Name and version of the engine, and what it runs on."""
        if self._engine is None:
            return ""
        return f"Docker {self._engine.version} (API {self._engine.api}, {self._engine.platform})"

    # --- before anything runs

    async def check(self) -> tuple[Issue, ...]:
        """Check that the engine can be used, what it cannot enforce, and whether it has disk space."""
        try:
            if self._engine is not None:
                return await _issues(self._engine)
            async with self._connect() as engine:
                return await _issues(engine)
        except BackendUnavailable as error:
            return (Issue(code=error.code, message=error.message, hint=error.hint),)

    @property
    def helper_image(self) -> str:
        """The image that `COWORLD_COLLECTOR_IMAGE` names, else one from Docker Hub."""
        return helper_image()

    async def has_image(self, image: str) -> bool:
        """Whether the engine has the image; no registry is asked."""
        self._entered()
        assert self._images is not None
        return await self._images.inspect(image) is not None

    async def images_of(self, registry: str) -> tuple[str, ...]:
        """References by digest of images that are present and came from a registry."""
        found = await self._entered().call("GET", "/images/json", query={"digests": True})
        names = (name for image in found for name in image.get("RepoDigests") or ())
        return tuple(name for name in names if name.startswith(f"{registry}/"))

    async def remove_image(self, reference: str) -> bool:
        """Remove an image; returns False if it has gone, or a container uses it."""
        try:
            await self._entered().call("DELETE", f"/images/{path_segment(reference)}")
        except EngineRefused as error:
            if error.status not in (404, 409):
                raise
            return False
        return True

    async def ensure_image(
        self, image: str, *, platform: str | None = None, publish: Publish | None = None
    ) -> ImageInfo:
        """Make sure an image is present and can be run; a missing one is pulled, unless `pull` is `never`."""
        self._entered()
        assert self._images is not None
        assert self._emulation is not None
        info = await self._images.ensure(image, platform=platform, publish=publish)
        await self._emulation.require(image, info.platform)
        return info

    async def build_image(
        self,
        image: str,
        context: Path,
        *,
        labels: Mapping[str, str],
        platform: str | None = None,
        publish: Publish | None = None,
    ) -> ImageInfo:
        """Build an image, unless the engine has it already."""
        engine = self._entered()
        # Episodes that begin at the same time need the same image: build it once
        async with self._building:
            if not await self.has_image(image):
                await self._make(engine, image, context, labels, platform, publish or to_nobody)
        return await self.ensure_image(image, platform=platform)

    async def _make(
        self,
        engine: Engine,
        image: str,
        context: Path,
        labels: Mapping[str, str],
        platform: str | None,
        publish: Publish,
    ) -> None:
        from ...images.compose import Build
        from ...images.dockerfile import read_dockerfile
        from ._build import build_image

        read = read_dockerfile(await anyio.Path(context, "Dockerfile").read_text(encoding="utf-8"))
        for base in read.images:
            # The engine itself would ask a registry even if the image is present
            await self.ensure_image(base, platform=platform, publish=publish)
        await build_image(
            engine,
            service=image,
            build=Build(context=context),
            image=image,
            args={},
            platform=platform,
            no_cache=False,
            buildkit=read.buildkit,
            publish=publish,
            labels=labels,
        )

    # --- units

    @asynccontextmanager
    async def group(
        self, specs: Sequence[UnitSpec], *, publish: Publish, tasks: TaskGroup
    ) -> AsyncGenerator[Sequence[DockerUnit], None]:
        """Yield the containers of one call, registered with their run while they exist."""
        engine = self._entered()
        assert self._emulation is not None
        units = [
            DockerUnit(
                spec,
                ContainerContext(engine, self._emulation, self._run(spec.run_id), tasks, self._programs),
                backend=self,
                publish=publish,
            )
            for spec in specs
        ]
        self._register(units)
        try:
            yield units
        finally:
            self._forget(units)

    def _run(self, run_id: str) -> Run:
        if run_id not in self._runs:
            self._runs[run_id] = Run(SharedNetwork(object_name(run_id, "open"), "open", run_labels(run_id)))
        return self._runs[run_id]

    def _register(self, units: Sequence[DockerUnit]) -> None:
        refuse_taken_names(units, lambda run_id: self._run(run_id).units)
        for unit in units:
            self._run(unit.spec.run_id).units[unit.name] = unit

    def _forget(self, units: Sequence[DockerUnit]) -> None:
        for unit in units:
            run = self._run(unit.spec.run_id)
            run.units.pop(unit.name, None)
            if not run.units:
                self._runs.pop(unit.spec.run_id, None)

    # --- leftovers

    async def find_units(self, run_id: str | None) -> Sequence[Found]:
        """Containers, networks and volumes, found by label."""
        return await find_labelled(self._entered(), run_id)

    async def remove_found(self, found: Found) -> str:
        """Remove a container, a network or a volume; returns why it still exists, if it does."""
        return await reap_labelled(self._entered(), found)


async def _issues(engine: Engine) -> tuple[Issue, ...]:
    """What an engine cannot enforce, and whether it has disk space."""
    info = engine.info
    issues = [
        Issue(
            code="docker_version",
            severity="info",
            message=f"Docker {engine.version} on {engine.platform}, at {engine.address}"
            + (", rootless." if engine.security("rootless") else "."),
            hint="docker info says more.",
        )
    ]
    if info.get("OSType") != "linux":
        issues.append(
            Issue(
                code="docker_wrong_system",
                message=f"The engine runs {info.get('OSType')} containers, but Coworlds need Linux containers.",
                hint="Switch Docker Desktop to Linux containers.",
            )
        )
    limits = {"MemoryLimit": "memory", "CpuCfsQuota": "processor time", "PidsLimit": "processes"}
    issues.extend(
        Issue(
            code="limit_unsupported",
            severity="warning",
            message=f"This engine cannot limit {what}: the kernel's control group for it is not available to it.",
            hint="Rootless Docker needs control groups version 2 and systemd; see its documentation.",
        )
        for key, what in limits.items()
        if not info.get(key, True)
    )
    near = info.get("Name") == socket.gethostname() and not engine.security("rootless")
    if near and (ports := await anyio.to_thread.run_sync(open_ports)):
        issues.append(
            Issue(
                code="services_in_reach",
                severity="warning",
                message=f"Services that listen on all addresses of this machine can be reached by games (not by "
                f"players), unless a firewall is in between: port {listed(map(str, ports), limit=20)}.",
                hint="Have services listen on 127.0.0.1, or keep them from 198.18.0.0/15.",
            )
        )
    free = await anyio.to_thread.run_sync(_free_bytes, str(info.get("DockerRootDir") or ""))
    if free is not None and free < _LOW_DISK:
        issues.append(
            Issue(
                code="disk_low",
                severity="warning",
                message=f"{free / 1024**2:.0f} MiB are left where Docker keeps images and containers "
                f"({info.get('DockerRootDir')}).",
                hint="docker system df shows what takes up the space; docker image prune removes unused images.",
            )
        )
    return tuple(issues)


def _free_bytes(directory: str) -> int | None:
    """Free bytes where the engine stores its data, if that is on this machine and visible."""
    while directory:
        try:
            return shutil.disk_usage(directory).free
        except PermissionError:
            # The parent is on the same file system, unless this very directory is a mount point
            directory = os.path.dirname(directory) if len(directory) > 1 else ""  # noqa: PTH120
        except OSError:
            return None
    return None
