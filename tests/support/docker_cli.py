"""A third-party backend: containers by the `docker` command, written from `docs/backends.md` alone.

It imports only public names, and the tests install it as a separate distribution. It is as thin as the contract
allows: all containers share the engine's default network, and only files are isolated.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import anyio
from anyio.abc import TaskGroup

from coworld_core import Exit, ImageError, Issue, StartError
from coworld_core.episode.events import ImageReady
from coworld_core.errors import BackendUnavailable
from coworld_runner import Backend, BackendOptions, Capabilities, ImageInfo, UnitSpec
from coworld_runner.backend import Endpoint, Found, Publish
from coworld_runner.backends import BaseBackend
from coworld_runner.backends.base import INPUTS_MOUNT, LOCALHOST, BaseUnit, choose_port, run_is_alive
from coworld_runner.backends.engine import Signal, Signals

__all__ = ["DockerCliBackend", "make_backend"]

RUN = "docker-cli.run"
UNIT = "docker-cli.unit"


async def docker(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run the command, even to its end when cancelled, because its outcome must be known."""
    program = shutil.which("docker") or "docker"
    with anyio.move_on_after(60, shield=True):
        return await anyio.run_process([program, *arguments], check=False, env={**os.environ, **(environment or {})})
    return subprocess.CompletedProcess(arguments, 1, b"", b"the docker command did not end within 60 s")


async def inspect(kind: str, name: str) -> dict[str, Any] | None:
    """The engine's description of an object, or None if it does not exist."""
    done = await docker(kind, "inspect", name)
    return cast("list[dict[str, Any]]", json.loads(done.stdout))[0] if done.returncode == 0 else None


def words(done: subprocess.CompletedProcess[bytes]) -> str:
    """The error message of a failed call."""
    return done.stderr.decode(errors="replace").strip()


class DockerCliUnit(BaseUnit):
    """A container."""

    def __init__(
        self,
        spec: UnitSpec,
        *,
        backend: Backend,
        publish: Publish,
        tasks: TaskGroup,
        known: set[tuple[str, str]],
    ) -> None:
        super().__init__(spec, backend=backend, publish=publish)
        self._tasks = tasks
        self._signals = Signals(self, self._send)
        self._known = known
        """Pairs of an image and a program that is known to exist in it."""
        self._container = f"docker-cli-{spec.run_id}-{spec.name}"
        self._ports: dict[str, int] = {}
        self._address = ""

    @property
    def id(self) -> str:
        return self._container

    def endpoint(self, port: str = "http") -> Endpoint:
        number = {item.name: item.number for item in self.spec.ports}[port]
        return Endpoint(here=f"{LOCALHOST}:{self._ports.get(port, 0)}", there=f"{self._address}:{number}")

    # --- create and start

    async def make(self) -> None:
        spec = self.spec
        for port in spec.ports:
            if number := port.host_port or (port.fixed and _free_port()):
                self._ports[port.name] = number
        environment = {**spec.environment(self.inside()), **spec.secret_env}
        options = ["--name", self._container, "--label", f"{RUN}={spec.run_id}", "--label", f"{UNIT}={spec.name}"]
        # An init process ends programs that do not handle SIGTERM; written files must belong to the current user.
        options += ["--init", "--user", f"{os.getuid()}:{os.getgid()}", "--security-opt", "no-new-privileges"]
        options += ["--log-driver", "json-file"]
        for source, target, mode in ((spec.directory, spec.mount, "rw"), (spec.inputs, INPUTS_MOUNT, "ro")):
            if source is not None:
                options += ["--volume", f"{source.absolute()}:{target}:{mode}"]
        for port in spec.ports:
            options += ["--publish", f"{LOCALHOST}:{self._ports.get(port.name, '')}:{port.number}"]
        for name in environment:
            # The value comes from the command's environment, so that no list of processes shows it.
            options += ["--env", name]
        if spec.platform is not None:
            options += ["--platform", spec.platform]
        if spec.argv:
            options += ["--entrypoint", spec.argv[0]]
        done = await docker("create", *options, spec.image, *spec.argv[1:], environment=environment)
        if done.returncode:
            raise self._failed("created", words(done))
        if spec.argv:
            await self._require_program(spec.argv[0], environment)

    async def _require_program(self, program: str, environment: Mapping[str, str]) -> None:
        """Check that a program exists, because the init process starts even without one."""
        if (self.spec.image, program) in self._known:
            return
        config: dict[str, Any] = ((await inspect("image", self.spec.image)) or {}).get("Config") or {}
        inherited: dict[str, str] = dict(entry.partition("=")[::2] for entry in config.get("Env") or ())
        path: str = environment.get("PATH") or inherited.get("PATH") or "/usr/local/bin:/usr/bin:/bin"
        places: list[str] = [config.get("WorkingDir") or "/"] if "/" in program else path.split(":")
        for place in places:
            target = os.path.join(place, program)  # noqa: PTH118 - in the container
            if (await docker("cp", "--follow-link", f"{self._container}:{target}", "-")).returncode == 0:
                self._known.add((self.spec.image, program))
                return
        raise self._failed("started", f"there is no program {program!r} in {self.spec.image}")

    def _failed(self, what: str, why: str) -> StartError:
        return StartError(
            f"{self.name} could not be {what}: {why}",
            hint="`docker create` with the same image says the same: correct the image, or the runnable's `run`.",
            context={"unit": self.name, "image": self.spec.image},
        )

    async def launch(self) -> None:
        done = await docker("start", self._container)
        if done.returncode:
            raise self._failed("started", words(done))
        self.mark_started()
        settings: dict[str, Any] = ((await inspect("container", self._container)) or {}).get("NetworkSettings") or {}
        published: dict[str, list[dict[str, str]] | None] = settings.get("Ports") or {}
        self._address = settings.get("IPAddress") or ""
        for port in self.spec.ports:
            for entry in published.get(f"{port.number}/tcp") or ():
                self._ports[port.name] = int(entry["HostPort"])
        self.follow(self._tasks, self._watch)

    # --- follow to the end

    async def _watch(self) -> None:
        await self._keep_logs()
        async with self._signals.lock:
            found = await inspect("container", self._container)
        self.finish(self._exit_of(found["State"]) if found is not None else Exit(reason=self.ended_by or "lost"))

    async def _keep_logs(self) -> None:
        spec = self.spec
        if spec.stdout is None:
            await self._until_over()
            return
        out = self.logs.open(spec.stdout)
        err = self.logs.open(spec.stderr) if spec.stderr is not None else out
        kept = {out: 0, err: 0}

        async def keep(stream: Any, log: Any, skip: int) -> None:
            async for data in stream:
                skip, new = max(skip - len(data), 0), data[skip:]
                kept[log] += len(new)
                log.write(new)

        async def read(*options: str) -> None:
            seen = dict(kept)
            async with (
                await anyio.open_process(
                    ["docker", "logs", *options, self._container],
                    stderr=subprocess.PIPE if err is not out else subprocess.STDOUT,
                ) as logs,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(keep, logs.stdout, out, seen[out])
                if err is not out:
                    tasks.start_soon(keep, logs.stderr, err, seen[err])

        try:
            await read("--follow")
            # The engine may stop following before the last output, so the stored logs are read once more.
            await self._until_over()
            await read()
        finally:
            for log in {out, err}:
                self.logs.close(log)

    async def _until_over(self) -> None:
        # This returns when the container has stopped, with an error if it no longer exists.
        await anyio.run_process(["docker", "wait", self._container], check=False)

    def _exit_of(self, state: Mapping[str, Any]) -> Exit:
        code = int(state["ExitCode"])
        # The init process reports a signal as a shell does, as 128 plus its number.
        number = code - 128 if 128 < code <= 192 else None
        reason = self.ended_by or ("signal" if number else "exited")
        return Exit(reason=reason, code=None if number else code, signal=number)

    # --- stop and remove

    async def terminate(self, grace: float) -> None:
        await self._signals.send("TERM")

    async def kill(self) -> None:
        await self._signals.send("KILL")

    async def _send(self, signal: Signal) -> bool:
        done = await docker("kill", "--signal", signal, self._container)
        return done.returncode == 0

    async def remove(self) -> None:
        if why := await remove_container(self._container):
            self.leak(f"container {self._container}", why)


def _free_port() -> int:
    port = choose_port()
    port.close()
    return port.number


async def remove_container(name: str) -> str:
    """Remove a container, running or not; returns the reason if it still exists, else an empty string."""
    done = await docker("rm", "--force", "--volumes", name)
    return "" if done.returncode == 0 or "No such container" in words(done) else words(done)


class DockerCliBackend(BaseBackend):
    """Containers by the `docker` command."""

    name = "docker-cli"

    def __init__(self) -> None:
        self._version = ""
        self._known: set[tuple[str, str]] = set()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            images=True,
            network_isolation=False,
            file_isolation=True,
            memory_limit=False,
            cpu_limit=False,
            pids_limit=False,
            disk_limit=False,
            remote=False,
        )

    async def __aenter__(self) -> Self:
        self._version = await self._ask()
        return self

    async def _ask(self) -> str:
        hint = "Install Docker and start its engine."
        if shutil.which("docker") is None:
            raise BackendUnavailable("There is no docker command on this machine.", hint=hint)
        done = await docker("version", "--format", "{{.Server.Version}}")
        if done.returncode:
            raise BackendUnavailable(f"The docker command has no engine: {words(done)}", hint=hint)
        return done.stdout.decode().strip()

    def engine_version(self) -> str:
        return f"Docker {self._version}, by its command" if self._version else ""

    async def check(self) -> tuple[Issue, ...]:
        try:
            await self._ask()
        except BackendUnavailable as error:
            return (Issue(code=error.code, message=error.message, hint=error.hint),)
        return ()

    async def has_image(self, image: str) -> bool:
        return await inspect("image", image) is not None

    async def ensure_image(
        self, image: str, *, platform: str | None = None, publish: Publish | None = None
    ) -> ImageInfo:
        found = await inspect("image", image)
        if found is None:
            # The engine merges concurrent pulls of one image.
            done = await docker("pull", "--quiet", *(["--platform", platform] if platform else []), image)
            found = await inspect("image", image)
            if found is None:
                hint = "Build it with `coworld build`, or check its name."
                raise ImageError(f"{image} is not to be had: {words(done)}", hint=hint, context={"image": image})
        info = ImageInfo(image=image, digest=found["Id"], platform=f"{found['Os']}/{found['Architecture']}")
        if publish is not None:
            publish(ImageReady(image=image, digest=info.digest, platform=info.platform))
        return info

    def unit(self, spec: UnitSpec, *, publish: Publish, tasks: TaskGroup) -> DockerCliUnit:
        return DockerCliUnit(spec, backend=self, publish=publish, tasks=tasks, known=self._known)

    async def find_units(self, run_id: str | None) -> Sequence[Found]:
        label = RUN if run_id is None else f"{RUN}={run_id}"
        columns = f'{{{{.ID}}}}\t{{{{.Names}}}}\t{{{{.Label "{RUN}"}}}}'
        done = await docker("ps", "--all", "--no-trunc", "--filter", f"label={label}", "--format", columns)
        found: list[Found] = []
        for line in done.stdout.decode().splitlines():
            identifier, name, owner = line.split("\t")
            found.append(Found(kind="container", id=identifier, name=name, run_id=owner, alive=run_is_alive(owner)))
        return found

    async def remove_found(self, found: Found) -> str:
        return await remove_container(found.id)


def make_backend(options: BackendOptions) -> Backend:
    """Create the backend; the function that the entry point names."""
    return DockerCliBackend()
