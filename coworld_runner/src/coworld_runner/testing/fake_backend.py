"""A backend without processes: units are tasks in this process, with real sockets and real directories.

For tests of code that runs *on* a backend: a program is a coroutine function, so a game that misbehaves in a particular
way takes three lines, and an episode a few milliseconds. Capabilities that need processes are not claimed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import traceback
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Never

import anyio
import anyio.abc
import anyio.lowlevel
from anyio.abc import TaskGroup

from coworld_core.episode.events import ImageReady
from coworld_core.episode.outcome import Exit
from coworld_core.errors import ImageError, StartError
from coworld_core.files.locks import flock

from ..backend import Capabilities, Endpoint, Found, ImageInfo, Publish, UnitSpec
from ..backends.base import BaseBackend, BaseUnit, CappedLog, HostPorts
from ..backends.collector.disk_usage import disk_usage, too_much

__all__ = ["FakeBackend", "FakeContext", "FakeProgram", "subject"]

_DISK_TICK = 0.02


class _Ended(Exception):
    """Unwinds a program that has ended."""


class FakeContext:
    """What a program uses in place of a process: its arguments, environment, directory and output streams.

    Attributes:
        name: The unit's name.
        argv: The unit's command, program included.
        env: The unit's whole environment, secrets included.
        directory: The unit's own directory, or None.
        inputs: The directory of its read-only inputs, or None.
    """

    def __init__(self, unit: _FakeUnit, env: Mapping[str, str]) -> None:
        self.name = unit.name
        self.argv = unit.spec.argv
        self.env = env
        self.directory = unit.spec.directory
        self.inputs = unit.spec.inputs
        self._unit = unit

    @property
    def stopping(self) -> anyio.Event:
        """Set when the unit is asked to stop.

        A program that reads this property handles TERM. One that never does is ended by TERM at once, like a process
        without a handler.
        """
        self._unit.handles_term = True
        return self._unit.stopping

    def out(self, text: str | bytes) -> None:
        """Write to standard output."""
        self._unit.write(text.encode() if isinstance(text, str) else text, error=False)

    def err(self, text: str | bytes) -> None:
        """Write to standard error."""
        self._unit.write(text.encode() if isinstance(text, str) else text, error=True)

    def spawn(self, work: Callable[[], Awaitable[object]]) -> None:
        """Run something concurrently, as a child process would run; it ends with the unit at the latest."""
        self._unit.spawn(work)

    def end(self, how: int | Exit) -> None:
        """End the whole unit; may be called from any of its tasks."""
        self._unit.end_as(how)


FakeProgram = Callable[[FakeContext], Awaitable[int | Exit]]
"""The program of an image. It returns its exit status, or an `Exit` for an end that a coroutine cannot have (a
signal, out of memory, ...). An exception becomes status 1, with the traceback on standard error."""


_numbers = itertools.count(1)
_living: dict[str, _FakeUnit] = {}


class _FakeUnit(BaseUnit):
    def __init__(
        self,
        spec: UnitSpec,
        *,
        backend: FakeBackend,
        program: FakeProgram,
        executables: Container[str] | None,
        publish: Publish,
        tasks: TaskGroup,
    ) -> None:
        super().__init__(spec, backend=backend, publish=publish)
        self._ports = HostPorts(spec, self.processes)
        self._executables = executables
        self._id = f"fake-{next(_numbers)}"
        self._program = program
        self._tasks = tasks
        self._env: dict[str, str] = {}
        self._logs: list[CappedLog] = []
        self._life = anyio.CancelScope(shield=True)
        self._tree: TaskGroup | None = None
        self._how: Exit | None = None
        self.stopping = anyio.Event()
        self.handles_term = False

    async def make(self) -> None:
        """Reserve ports, build the environment, and register the unit so that it can be found."""
        self._env = self.variables(self._ports.take())
        _living[self._id] = self
        program = self.spec.argv[0] if self.spec.argv else ""
        if self._executables is not None and program and program not in self._executables:
            raise StartError(
                f"{self.name} cannot be started: there is no {program!r}.",
                code="program_missing",
                hint="Name one of the backend's executables.",
                context={"unit": self.name, "program": program},
            )

    async def remove(self) -> None:
        """Release the ports, and unregister the unit."""
        self._ports.give_back()
        self._env.clear()
        _living.pop(self._id, None)

    # -- called by the program

    def write(self, data: bytes, *, error: bool) -> None:
        """Write the program's output to its log."""
        if self._logs:
            self._logs[-1 if error else 0].write(data)

    def spawn(self, work: Callable[[], Awaitable[object]]) -> None:
        """Run something in the unit's tree."""
        assert self._tree is not None

        async def child() -> None:
            try:
                await work()
            except Exception:  # noqa: BLE001 - a child's failure does not end the unit
                self.write(traceback.format_exc().encode(), error=True)

        self._tree.start_soon(child)

    def end_as(self, how: int | Exit) -> None:
        """End the unit now; only the first call decides how it ended."""
        if self._how is None:
            self._how = how if isinstance(how, Exit) else Exit(reason="exited", code=how)
        self._life.cancel()

    async def _run(self) -> None:
        spec = self.spec
        for path in (spec.stdout, spec.stderr):
            if path is not None:
                self._logs.append(self.logs.open(path))
        context = FakeContext(self, dict(self._env))
        # Shielded: cancelling the body stops the unit, and stopping it cancels this scope
        with self._life:
            async with anyio.create_task_group() as self._tree:
                if spec.limits.of_disk:
                    self._tree.start_soon(self._watch_disk)
                self.end_as(await self._result(context))
        exit = self._how
        assert exit is not None
        if exit.reason in {"exited", "signal"} and self._over_disk():
            exit = Exit(reason="disk", code=exit.code, signal=exit.signal)
        for log in self._logs:
            self.logs.close(log)
        self.finish(exit)

    async def _result(self, context: FakeContext) -> int | Exit:
        try:
            return await self._program(context)
        except _Ended:
            return self._how or 0
        except Exception:  # noqa: BLE001 - an uncaught exception, as in any program
            self.write(traceback.format_exc().encode(), error=True)
            return 1

    async def _watch_disk(self) -> None:
        while not (over := self._over_disk()):  # noqa: ASYNC110 - nothing reports disk usage
            await anyio.sleep(_DISK_TICK)
        self.end_as(Exit(reason="disk", detail=over))

    def _over_disk(self) -> str:
        limits, directory = self.spec.limits, self.spec.directory
        used = disk_usage([str(directory)] if directory is not None else [])
        return too_much(used, limits.disk_bytes, limits.disk_entries)

    # -- the unit

    @property
    def id(self) -> str:
        return self._id

    def endpoint(self, port: str = "http") -> Endpoint:
        return self._ports.endpoint(port)

    def stranger(self, port: str) -> str:
        return self._ports.stranger(port)

    def processes(self) -> Iterable[int]:
        return [os.getpid()]

    async def launch(self) -> None:
        self._tasks.start_soon(self._run, name=f"unit {self.name}")

    async def terminate(self, grace: float) -> None:
        self.stopping.set()
        if not self.handles_term:
            self.end_as(Exit(reason="stopped", signal=int(signal.SIGTERM)))

    async def kill(self) -> None:
        self.stopping.set()
        number = signal.SIGKILL if self.handles_term else signal.SIGTERM
        self.end_as(Exit(reason="stopped", signal=int(number)))


class FakeBackend(BaseBackend):
    """Runs programs that are coroutine functions, by image name, inside this process.

    Args:
        programs: The program of each image, in addition to `subject`, which the conformance checks run.
        executables: Allowed first elements of a command; units with another one are refused. None: any.
    """

    name = "fake"

    def __init__(
        self, programs: Mapping[str, FakeProgram] | None = None, *, executables: Container[str] | None = None
    ) -> None:
        self._programs: dict[str, FakeProgram] = {"subject": subject, **(programs or {})}
        self._executables = executables

    def __reduce__(self) -> Never:
        raise TypeError("the units of a fake backend live in the process that made it")

    @property
    def capabilities(self) -> Capabilities:
        """Only the disk limit: a coroutine cannot be isolated or limited in any other way."""
        return Capabilities(
            images=False,
            network_isolation=False,
            file_isolation=False,
            memory_limit=False,
            cpu_limit=False,
            pids_limit=False,
            disk_limit=True,
            remote=False,
        )

    def _find_program(self, image: str) -> FakeProgram:
        if image not in self._programs:
            raise ImageError(
                f"{image!r} is not one of this fake backend's programs.",
                hint=f"It has {', '.join(sorted(self._programs))}.",
                context={"image": image},
            )
        return self._programs[image]

    async def ensure_image(
        self, image: str, *, platform: str | None = None, publish: Publish | None = None
    ) -> ImageInfo:
        """Check that there is a program for the image.

        Raises:
            ImageError: There is none.
        """
        self._find_program(image)
        if publish is not None:
            publish(ImageReady(image=image))
        return ImageInfo(image=image)

    def unit(self, spec: UnitSpec, *, publish: Publish, tasks: TaskGroup) -> _FakeUnit:
        """Create a unit that runs a program as a task.

        Raises:
            ImageError: There is no program for its image.
        """
        program = self._find_program(spec.image)
        return _FakeUnit(
            spec, backend=self, program=program, executables=self._executables, publish=publish, tasks=tasks
        )

    async def find_units(self, run_id: str | None) -> Sequence[Found]:
        """Find the running units of one run, or of all."""
        return [
            Found(kind="process", id=unit.id, name=unit.name, run_id=unit.spec.run_id, alive=True)
            for unit in _living.values()
            if unit.exit is None and run_id in {None, unit.spec.run_id}
        ]

    async def remove_found(self, found: Found) -> str:
        """End a unit. Its runner is this process and so alive: only reaping with `force` gets here."""
        unit = _living.get(found.id)
        if unit is not None:
            unit.end_as(Exit(reason="signal", signal=int(signal.SIGKILL)))
            await unit.wait()
        return ""


# --- the subject, as a coroutine --------------------------------------------------------------------------------


async def subject(context: FakeContext) -> int | Exit:
    """Perform the steps of `subject.py`, except those that need a real process."""
    player = _Subject(context)
    steps = context.argv[1:]
    if steps and steps[0].endswith(".py"):
        steps = steps[1:]
    for step in steps:
        verb, *arguments = step.split(":")
        taken = [context.env[item[1:]] if item.startswith("$") else item for item in arguments]
        result = getattr(player, f"do_{verb}")(*taken)
        if result is not None:
            await result
        await anyio.lowlevel.checkpoint()
    return 0


class _Subject:
    def __init__(self, context: FakeContext) -> None:
        self._context = context

    def _path(self, name: str) -> Path:
        return Path(self._context.env["SUBJECT_DIR"]) / name

    def _end(self, how: int | Exit) -> Never:
        self._context.end(how)
        raise _Ended

    def do_print(self, *text: str) -> None:
        self._context.out(":".join(text) + "\n")

    def do_error(self, *text: str) -> None:
        self._context.err(":".join(text) + "\n")

    def do_bytes(self, text: str) -> None:
        self._context.out(bytes.fromhex(text))

    async def do_flood(self, count: str) -> None:
        block = (b"0123456789" * 6 + b"abc\n") * 1024
        left = int(count)
        while left > 0:
            self._context.out(block[:left])
            left -= len(block)
            await anyio.lowlevel.checkpoint()

    def do_exit(self, status: str) -> None:
        self._end(int(status))

    def do_die(self, number: str) -> None:
        self._end(Exit(reason="signal", signal=int(number)))

    async def do_hang(self) -> None:
        await anyio.sleep_forever()

    async def do_wait(self, name: str) -> None:
        while not self._path(name).exists():  # noqa: ASYNC110 - polls like the real subject
            await anyio.sleep(0.005)

    def do_stubborn(self) -> None:
        _ = self._context.stopping

    def do_polite(self, status: str) -> None:
        self._on_term("", int(status))

    def do_linger(self, name: str) -> None:
        self._on_term(name, 0)

    def _on_term(self, name: str, status: int) -> None:
        stopping = self._context.stopping

        async def leave() -> None:
            await stopping.wait()
            self.do_print("goodbye")
            if name:
                await self.do_wait(name)
            self._context.end(Exit(reason="stopped", code=status))

        self._context.spawn(leave)

    def do_write(self, name: str, *text: str) -> None:
        self._path(name).write_text(":".join(text), encoding="utf-8")

    def do_rename(self, name: str, text: str) -> None:
        part = self._path(f".{name}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(self._path(name))

    async def do_slow(self, name: str, text: str, go: str) -> None:
        half = len(text) // 2
        with self._path(name).open("wb", buffering=0) as file:
            file.write(text[:half].encode())
            self.do_print(f"half {name}")
            await self.do_wait(go)
            file.write(text[half:].encode())
        self.do_print(f"whole {name}")

    async def do_size(self, name: str, count: str) -> None:
        left = int(count)
        with self._path(name).open("wb", buffering=0) as file:
            while left:
                left -= file.write(bytes(min(left, 1 << 20)))
                await anyio.lowlevel.checkpoint()

    def do_link(self, name: str, target: str) -> None:
        self._path(name).symlink_to(target)

    def do_pipe(self, name: str) -> None:
        os.mkfifo(self._path(name))

    def do_lock(self, name: str) -> None:
        self.do_child(name)

    def do_child(self, name: str) -> None:
        path = self._path(name)

        async def live() -> None:
            # A lock belongs to the open file, so other files opened by this process see it too
            with path.open("wb") as file:
                while not flock(file.fileno()):  # noqa: ASYNC110 - a blocking lock would block every unit
                    await anyio.sleep(0.005)
                await anyio.sleep_forever()

        self._context.spawn(live)

    def do_daemon(self, name: str) -> None:
        self.do_child(name)

    async def do_serve(self, status: str, go: str = "") -> None:
        async def answer(stream: anyio.abc.SocketStream) -> None:
            async with stream:
                with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                    await stream.receive()
                    code = status if not go or self._path(go).exists() else "503"
                    head = f"HTTP/1.1 {code} Subject\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
                    await stream.send(head.encode())

        await self._listen(answer)

    async def do_mute(self) -> None:
        async def swallow(stream: anyio.abc.SocketStream) -> None:
            async with stream:
                await anyio.sleep_forever()

        await self._listen(swallow)

    async def _listen(self, answer: Callable[[anyio.abc.SocketStream], Awaitable[None]]) -> None:
        host, port = self._context.env["SUBJECT_HOST"], int(self._context.env["SUBJECT_PORT"])
        listener = await anyio.create_tcp_listener(local_host=host, local_port=port, reuse_port=False)

        async def serve() -> None:
            async with listener:
                await listener.serve(answer)

        self._context.spawn(serve)

    def do_env(self) -> None:
        self.do_print(json.dumps(dict(self._context.env)))

    def do_arguments(self) -> None:
        self.do_print(repr(self._context.argv))

    def do_read(self, *parts: str) -> None:
        path = ":".join(parts)
        try:
            self.do_print(f"read {path}: {Path(path).read_text(encoding='utf-8', errors='replace')[:1000]}")
        except OSError as error:
            self.do_print(f"cannot read {path}: {error.strerror}")
