"""The process backend: units are local processes, for code you trust.

There is no daemon and no image: a unit runs the ``run`` of its manifest entry in the build context of its image, with
the interpreter that runs coworld. Each unit lives under a shim (``_shim``) that dies with the runner and takes the
whole tree along.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Literal, Self

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream

from coworld_core.errors import BackendUnavailable, CoworldError, ImageError, StartError, TransferError
from coworld_core.events import (
    ImageReady,
    LeakFound,
    LogTruncated,
    Notice,
    UnitCreated,
    UnitExited,
    UnitReady,
    UnitStarted,
)
from coworld_core.issues import Issue
from coworld_core.outcome import Exit, ExitReason

from .._concurrency import nursery
from .._files import CappedLog, fetch_file, log_tail, watch_directory
from ..backend import (
    Backend,
    Capabilities,
    Endpoint,
    Found,
    HttpProbe,
    ImageInfo,
    Placement,
    Publish,
    Reaped,
    Unit,
    UnitSpec,
)
from ..scratch import find_scratch, open_scratch, owner_is_alive, reap_scratch, remove_tree, scratch_root
from . import _shim
from ._ports import Reservation, choose_port, stranger_on, take_port
from ._probe import wait_until_ready

__all__ = ["ProcessBackend"]

_HOST = "127.0.0.1"
_RUN = "COWORLD_RUN_ID"
_UNIT = "COWORLD_UNIT"
_SCRATCH = "COWORLD_SCRATCH"

_KILL_SECONDS = 5.0
"""How long after SIGKILL something may still be there before it counts as left behind."""
_DRAIN_SECONDS = 2.0
"""How long logs may still flow once the tree is gone; only a descriptor passed to a stranger can keep one open."""

_BOOT = "import os, sys; sys.path.append(sys.argv[1]); import _shim; _shim.main(sys.argv[2:]); os._exit(0)"
"""Imported rather than run as a script, so that its bytecode is cached; ended without tidying up an interpreter."""


# --- units ------------------------------------------------------------------------------------------------------


class _ProcessUnit(Unit):
    def __init__(
        self, spec: UnitSpec, *, backend: ProcessBackend, context: Path, publish: Publish, tasks: TaskGroup
    ) -> None:
        super().__init__(spec)
        self._backend = backend
        self._context = context
        self._publish = publish
        self._tasks = tasks
        self._reservations: list[Reservation] = []
        self._endpoints: dict[str, Endpoint] = {}
        self._environment: dict[str, str] = {}
        self._private: Path | None = None
        self._state: Literal["made", "started", "closed"] = "made"
        self._starting = anyio.Lock()
        self._spawned = anyio.Event()
        self._start_error: CoworldError | None = None
        self._started_at = 0.0
        self._shim: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._pid = 0
        self._scope: anyio.CancelScope | None = None
        self._exit: Exit | None = None
        self._ended = anyio.Event()
        self._truncated = False
        self._never = False

    # -- made

    def prepare(self) -> None:
        """Everything short of running the command: ports, private directories, the shim.

        Raises:
            StartError: The machine has no room for it, or a port is taken.
        """
        spec = self.spec
        listen: dict[str, int] = {}
        for port in spec.ports:
            wanted = port.number if port.fixed else port.host_port
            reservation = take_port(wanted, spec.name, port.name) if wanted else choose_port()
            self._reservations.append(reservation)
            listen[port.name] = reservation.number
            address = f"{_HOST}:{reservation.number}"
            self._endpoints[port.name] = Endpoint(here=address, there=address)
        try:
            self._private = Path(tempfile.mkdtemp(prefix=f".{spec.name}-", dir=scratch_root() / spec.run_id))
            for name in ("home", "tmp"):
                (self._private / name).mkdir(mode=0o700)
        except OSError as error:
            raise StartError(
                f"{spec.name} cannot be given a directory for its temporary files: {error}.",
                hint="Free some room, or set TMPDIR to a directory you can write to.",
                context={"unit": spec.name},
            ) from error
        placement = Placement(
            directory=str(spec.directory.absolute()) if spec.directory is not None else "",
            listen_host=_HOST,
            listen=listen,
            endpoints=dict(self._endpoints),
        )
        self._environment = {
            **_base_environment(self._private),
            **spec.environment(placement),
            **spec.secret_env,
            _RUN: spec.run_id,
            _UNIT: spec.name,
            # where its runner's lock is, for whoever finds the process under another TMPDIR
            _SCRATCH: str(scratch_root() / spec.run_id),
        }
        try:
            logs = self._spawn()
        except (OSError, ValueError) as error:
            raise StartError(
                f"{self.name} cannot be started: {getattr(error, 'strerror', None) or error}.",
                hint="The machine is out of processes, open files or memory, or an argument has a null byte.",
                context={"unit": self.name},
            ) from error
        self._tasks.start_soon(self._supervise, logs, name=f"unit {self.name}")
        self._publish(UnitCreated(unit=self.name, slot=spec.slot))

    @property
    def id(self) -> str:
        return str(self._pid) if self._pid else ""

    @property
    def exit(self) -> Exit | None:
        return self._exit

    @property
    def log_truncated(self) -> bool:
        return self._truncated

    def endpoint(self, port: str = "http") -> Endpoint:
        return self._endpoints[port]

    # -- started

    async def start(self) -> None:
        async with self._starting:
            if self._state == "made":
                self._state = "started"
                self._order(b"G")
            await self._spawned.wait()
            if self._start_error is not None:
                raise self._start_error

    def _spawn(self) -> list[tuple[int, CappedLog]]:
        """Start the shim; returns the descriptors to read logs from, with where they go."""
        spec, limits = self.spec, self.spec.limits
        assert self._private is not None
        directories = [str(path.absolute()) for path in (spec.directory, self._private) if path is not None]
        argv = list(spec.argv)
        if argv[0] in {"python", "python3"}:
            argv[0] = sys.executable
        with contextlib.ExitStack() as opened:
            logs: list[tuple[int, CappedLog]] = []

            def sink(path: Path | None) -> int:
                if path is None:
                    return subprocess.DEVNULL
                read, write = os.pipe()
                opened.callback(os.close, write)
                os.set_blocking(read, False)
                logs.append((read, CappedLog(path, limits.log_bytes, self._log_full)))
                return write

            stdout = sink(spec.stdout)
            # one pipe for both, so that their lines stay in order
            stderr = sink(spec.stderr) if spec.stderr is not None else stdout
            try:
                control, other = socket.socketpair()
                opened.callback(other.close)
                control.setblocking(False)
                self._control = control
                self._shim = subprocess.Popen(
                    [
                        sys.executable,
                        "-I",
                        "-S",
                        "-c",
                        _BOOT,
                        str(Path(__file__).parent),
                        str(other.fileno()),
                        str(limits.memory_bytes or 0),
                        str(limits.pids or 0),
                        str(limits.disk_bytes or 0),
                        str(self._context.absolute()),
                        str(len(directories)),
                        *directories,
                        *argv,
                    ],
                    env=self._environment,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=(other.fileno(),),
                    start_new_session=True,
                )
            except BaseException:
                for read, log in logs:
                    os.close(read)
                    log.close()
                raise
            return logs

    async def _supervise(self, logs: list[tuple[int, CappedLog]]) -> None:
        # shielded: what is cancelled is the body; units are stopped, and this then ends by itself
        with anyio.CancelScope(shield=True) as self._scope:
            said: Exit | None = None
            try:
                async with anyio.create_task_group() as tasks:
                    for read, log in logs:
                        tasks.start_soon(self._pump, read, log)
                    said = await self._listen()
                    await self._bury(said)
                    tasks.cancel_scope.deadline = anyio.current_time() + _DRAIN_SECONDS
            finally:
                if said is None and self._never:
                    said = Exit(reason="stopped", detail="it was never started")
                self._end(said or Exit(reason="lost", detail="its supervising process was killed"))

    async def _listen(self) -> Exit | None:
        """Take what the shim says until it ends; returns how the command ended, if it said so."""
        assert self._control is not None
        said: Exit | None = None
        rest = b""
        while True:
            try:
                data = self._control.recv(4096)
            except BlockingIOError:
                await anyio.wait_readable(self._control)
                continue
            except OSError:
                data = b""
            if not data:
                return said
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                said = self._take(line.decode("utf-8", "replace")) or said

    def _take(self, line: str) -> Exit | None:
        word, _, rest = line.partition(" ")
        if word == "S":
            self._pid = int(rest)
            self._started_at = anyio.current_time()
            self._publish(UnitStarted(unit=self.name, slot=self.spec.slot))
            self._spawned.set()
        elif word == "F":
            number, _, what = rest.partition(" ")
            self._start_error = self._cannot(os.strerror(int(number)), what)
            return Exit(reason="lost", detail="it could not be started")
        elif word == "E":
            status, reason, detail = rest.split(" ", 2)
            return _exit(int(status), reason, detail)
        return None

    def _cannot(self, reason: str, what: str) -> StartError:
        context = {"unit": self.name}
        if what == "directory":
            return StartError(
                f"{self.name} cannot be started in {self._context}: {reason}.",
                hint="The package's compose.yaml names this directory as the image's build context.",
                context=context,
            )
        program = self.spec.argv[0]
        return StartError(
            f"{self.name} cannot be started: {program!r} cannot be run: {reason}.",
            code="program_missing" if reason == os.strerror(2) else None,
            hint=f"Install {program!r} on this machine, or use the docker backend, which brings its own.",
            context={**context, "program": program},
        )

    async def _bury(self, said: Exit | None) -> None:
        """Wait until the shim is gone; when it was killed, kill what it looked after."""
        shim = self._shim
        assert shim is not None
        await _reap_child(shim)
        if said is None:
            await _kill_labelled(self.spec.run_id, self.name)

    async def _pump(self, read: int, log: CappedLog) -> None:
        try:
            while True:
                try:
                    data = os.read(read, 65536)
                except BlockingIOError:
                    await anyio.wait_readable(read)
                    continue
                if not data:
                    return
                log.write(data)
                # a flood must not keep the others waiting
                await anyio.lowlevel.checkpoint()
        finally:
            os.close(read)
            log.close()
            if log.error is not None:
                self._publish(
                    Notice(level="warning", message=f"{log.path} is not complete: {log.error.strerror or log.error}.")
                )

    def _log_full(self) -> None:
        if not self._truncated:
            self._truncated = True
            self._publish(LogTruncated(unit=self.name, slot=self.spec.slot, limit_bytes=self.spec.limits.log_bytes))

    def _end(self, exit: Exit) -> None:
        self._state = "closed"
        self._exit = exit
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._pid:
            self._publish(UnitExited(unit=self.name, slot=self.spec.slot, exit=exit))
        elif self._start_error is None:
            self._start_error = StartError(
                f"{self.name} was ended before it was started.",
                hint="It was stopped meanwhile, or its supervising process was killed.",
                context={"unit": self.name},
            )
        self._spawned.set()
        self._ended.set()

    # -- used

    async def wait(self) -> Exit:
        await self._ended.wait()
        assert self._exit is not None
        return self._exit

    async def wait_ready(self, probe: HttpProbe) -> float:
        number = int(self.endpoint(probe.port).here.rpartition(":")[2])

        def stranger() -> str:
            return stranger_on(number, _below(self._shim.pid)) if self._shim is not None else ""

        since = self._started_at or anyio.current_time()
        seconds = await wait_until_ready(self, probe, since=since, stranger=stranger)
        self._publish(UnitReady(unit=self.name, slot=self.spec.slot, seconds=seconds))
        return seconds

    async def log_tail(self, limit: int = 4000) -> str:
        return log_tail([path for path in (self.spec.stdout, self.spec.stderr) if path is not None], limit)

    async def stop(self, grace: float = 5.0) -> Exit:
        if self._state == "made":
            self._state = "closed"
            self._never = True
            if self._shim is None:
                self._end(Exit(reason="stopped", detail="it was never started"))
        if self._exit is None:
            if grace > 0 and not self._never:
                self._order(b"T")
                with self._backend.patience(grace):
                    return await self.wait()
            self._order(b"K")
        return await self.wait()

    def _order(self, order: bytes) -> None:
        if self._control is not None:
            # a full or closed socket means that the shim is on its way out already
            with contextlib.suppress(OSError):
                self._control.send(order)

    def written(self) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[str]]:
        if self.spec.directory is None:
            raise TransferError(f"{self.name} has no directory of its own to watch.", context={"unit": self.name})
        return watch_directory(self.spec.directory, until=self.wait)

    async def fetch(self, name: str, target: Path, *, limit: int | None = None) -> int:
        if self.spec.directory is None:
            raise FileNotFoundError(f"{self.name} has no directory of its own.")
        return await fetch_file(self.spec.directory, name, target, limit=limit)

    # -- done

    async def close(self) -> None:
        """Give back what the unit had besides its process. What still runs is published as a leak."""
        if self._scope is not None and not self._ended.is_set():
            self._publish(
                LeakFound(
                    what=f"process {self._pid} ({self.name})",
                    reason=f"it was still there {_KILL_SECONDS:g} s after it was killed",
                )
            )
            if self._shim is not None:
                # it goes on killing, and ends by itself; nobody waits for it any more
                self._shim.returncode = 0
        if self._scope is not None:
            self._scope.cancel()
        for reservation in self._reservations:
            reservation.close()
        self._environment.clear()
        if self._private is not None:
            reason = await anyio.to_thread.run_sync(remove_tree, self._private)
            if reason:
                self._publish(LeakFound(what=f"directory {self._private}", reason=reason))


def _base_environment(private: Path) -> dict[str, str]:
    """What every local unit gets; nothing else of the caller's environment, where secrets live."""
    programs = str(Path(sys.executable).parent)
    environment = {
        "PATH": os.pathsep.join((programs, os.environ.get("PATH") or os.defpath)),
        "HOME": str(private / "home"),
        "TMPDIR": str(private / "tmp"),
        "LANG": os.environ.get("LANG") or "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
    }
    if sys.prefix != sys.base_prefix:
        environment["VIRTUAL_ENV"] = sys.prefix
    return environment


def _exit(status: int, reason: str, detail: str) -> Exit:
    code = os.waitstatus_to_exitcode(status)
    number = -code if code < 0 else None
    ended: dict[str, ExitReason] = {"oom": "oom", "pids": "pids", "disk": "disk", "stopped": "stopped"}
    named = ended.get(reason)
    if named is None:
        named = "signal" if number is not None else "exited"
        if number is not None and number == getattr(signal, "SIGXFSZ", None):
            named = "disk"
    return Exit(reason=named, code=code if code >= 0 else None, signal=number, detail=detail)


def _below(root: int) -> list[int]:
    """Every process below one."""
    if sys.platform == "linux":
        return list(_shim.descendants(root))
    import psutil

    try:
        return [child.pid for child in psutil.Process(root).children(recursive=True)]
    except psutil.Error:
        return []


async def _reap_child(child: subprocess.Popen[bytes]) -> None:
    """Wait for a child without a thread."""
    if hasattr(os, "pidfd_open"):
        try:
            descriptor = os.pidfd_open(child.pid)
        except OSError:
            pass
        else:
            try:
                await anyio.wait_readable(descriptor)
            finally:
                os.close(descriptor)
    pause = 0.001
    while child.poll() is None:
        await anyio.sleep(pause)
        pause = min(0.05, pause * 2)


# --- by label ---------------------------------------------------------------------------------------------------


def _labelled(run_id: str | None = None) -> list[Found]:
    """Processes of this user that carry a run's label, in our own process namespace."""
    import psutil

    found: list[Found] = []
    mine = _user()
    space = _namespace("self")
    pending = list(psutil.process_iter())
    for last in (False, False, False, True):
        bare: list[psutil.Process] = []
        for process in pending:
            with contextlib.suppress(psutil.Error, OSError):
                if process.uids().real != mine or process.status() == psutil.STATUS_ZOMBIE:
                    continue  # a zombie is its parent's to take
                environment = process.environ()
                if not environment and not last and process.exe():
                    bare.append(process)
                    continue
                run = environment.get(_RUN)
                if not run or (run_id is not None and run != run_id) or _namespace(str(process.pid)) != space:
                    continue  # what is in a container is its engine's to remove
                found.append(
                    Found(
                        kind="process",
                        id=str(process.pid),
                        name=environment.get(_UNIT, ""),
                        run_id=run,
                        alive=owner_is_alive(Path(environment.get(_SCRATCH) or scratch_root() / run)),
                        age_seconds=max(0.0, time.time() - process.create_time()),
                    )
                )
        if not bare:
            break
        # a program that is just being executed has no environment for a moment, then it has all of it
        pending = bare
        time.sleep(0.005)
    return found


def _user() -> int:
    """Whose processes are ours."""
    return os.getuid()


def _namespace(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115
    except OSError:
        return ""


def _our_own() -> set[int]:
    """This process and those it runs in, which it must not kill."""
    import psutil

    me = psutil.Process()
    return {me.pid, *(parent.pid for parent in me.parents())}


def _still_labelled(pid: int, run_id: str) -> bool:
    """Whether a process is (still) one of that run: the number may belong to another by now."""
    import psutil

    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(_RUN) == run_id
    except (psutil.Error, OSError):
        return False


async def _kill_labelled(run_id: str, unit: str) -> None:
    """Kill what is left of a unit whose shim was killed."""
    with anyio.move_on_after(_KILL_SECONDS):
        while left := [item for item in _labelled(run_id) if item.name == unit]:
            for item in left:
                with contextlib.suppress(OSError):
                    os.kill(int(item.id), signal.SIGKILL)
            await anyio.sleep(0.01)


# --- the backend ------------------------------------------------------------------------------------------------


class ProcessBackend(Backend):
    """Runs units as local processes. For code you trust: it keeps nothing from them but the caller's environment.

    Limits are watched rather than enforced by the kernel: a few times a second the memory of a unit's whole tree is
    added up (what processes share counts once), its processes and threads are counted, and the bytes in its own
    directory, its home and its temporary files. Who is over is killed. No single file grows beyond the disk limit.

    Args:
        contexts: Directory to run in, by image reference (the build contexts of the package's compose file).
        default_context: Directory for images that ``contexts`` does not name; None refuses them.
    """

    name = "process"

    def __init__(self, *, contexts: Mapping[str, Path] | None = None, default_context: Path | None = None) -> None:
        # kept as given: a mapping may know an image under another tag than it lists
        self._contexts: Mapping[str, Path] = contexts or {}
        self._default_context = default_context

    @property
    def capabilities(self) -> Capabilities:
        """Memory and processes are watched where the platform lists them, disk everywhere; nothing is isolated."""
        listed = sys.platform == "linux"
        return Capabilities(
            images=False,
            network_isolation=False,
            file_isolation=False,
            memory_limit=listed,
            cpu_limit=False,
            pids_limit=listed,
            disk_limit=True,
            remote=False,
        )

    async def __aenter__(self) -> Self:
        if os.name != "posix":
            raise BackendUnavailable(
                "The process backend needs Linux or macOS.",
                hint="Use the docker backend, or run coworld inside WSL.",
                context={"platform": sys.platform},
            )
        if not sys.executable:
            raise BackendUnavailable(
                "The process backend cannot tell which Python interpreter runs it.",
                hint="Run coworld from an ordinary Python installation.",
            )
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    async def check(self) -> tuple[Issue, ...]:
        """Say what this backend does not do here, and which build contexts are missing."""
        issues = [
            Issue(
                code="trusted_code_only",
                severity="info",
                message="Local processes can read and change whatever you can: run only packages you trust.",
                hint="Use the docker backend for anybody else's.",
            )
        ]
        if os.name != "posix":
            issues.append(
                Issue(
                    code="platform_unsupported",
                    message="The process backend needs Linux or macOS.",
                    hint="Use the docker backend, or run coworld inside WSL.",
                )
            )
        elif sys.platform != "linux":
            issues.append(
                Issue(
                    code="limits_unsupported",
                    severity="info",
                    message="Memory and process limits need Linux, as does ending children that left their session.",
                    hint="Use the docker backend where that matters.",
                )
            )
        issues.extend(
            Issue(
                code="context_missing",
                message=f"The build context of {image!r} is not a directory: {context}.",
                hint="Correct the image's build context in the package's compose.yaml.",
            )
            for image, context in self._contexts.items()
            if not context.is_dir()
        )
        return tuple(issues)

    def _context(self, image: str) -> Path:
        context = self._contexts.get(image, self._default_context)
        if context is None:
            unpublished = re.fullmatch(r"img_[0-9a-f-]{36}", image) is not None
            raise ImageError(
                f"{image!r} has no directory to run in on the process backend.",
                code="image_unreachable" if unpublished else "context_unknown",
                hint="It is the id of an unpublished image and stands for nothing here; name the image instead."
                if unpublished
                else "Name the image with a build context in the package's compose.yaml, or use the docker backend.",
                context={"image": image},
            )
        if not context.is_dir():
            raise ImageError(
                f"The directory that {image!r} runs in does not exist: {context}.",
                code="context_missing",
                hint="Correct the image's build context in the package's compose.yaml.",
                context={"image": image, "directory": str(context)},
            )
        return context

    async def ensure_image(
        self, image: str, *, platform: str | None = None, publish: Publish | None = None
    ) -> ImageInfo:
        """Find the directory an image's command runs in.

        Raises:
            ImageError: The image has none, or it does not exist.
        """
        context = self._context(image)
        here = f"{sys.platform}/{os.uname().machine}"
        if publish is not None:
            publish(ImageReady(image=image, platform=here))
        return ImageInfo(image=image, platform=here, context=context)

    @asynccontextmanager
    async def units(
        self, specs: Sequence[UnitSpec], *, publish: Publish, start: bool = True, grace: float = 5.0
    ) -> AsyncGenerator[tuple[Unit, ...], None]:
        """Start local processes; kill them, their children and their children's children on leaving.

        Raises:
            CapabilityError: A spec asks for what this backend cannot enforce.
            ImageError: An image has no directory to run in.
            StartError: A spec has no command, a port is taken, or a program cannot be run.
        """
        self.refuse_unenforceable(specs)
        contexts = [self._context(spec.image) for spec in specs]
        for spec in specs:
            if not spec.argv:
                raise StartError(
                    f"{spec.name} names no command, and a local process has no image to take one from.",
                    code="no_command",
                    hint="Give the runnable a `run` in the manifest, or use the docker backend.",
                    context={"unit": spec.name, "image": spec.image},
                )
        async with AsyncExitStack() as stack:
            for run_id in dict.fromkeys(spec.run_id for spec in specs):
                # the run's own directory marks it as alive; a caller who made none gets one for the time being
                if not (scratch_root() / run_id).is_dir():
                    stack.enter_context(open_scratch(run_id, on_leak=_leak(publish)))
            tasks = await stack.enter_async_context(nursery())
            units = tuple(
                _ProcessUnit(spec, backend=self, context=context, publish=publish, tasks=tasks)
                for spec, context in zip(specs, contexts, strict=True)
            )
            try:
                for unit in units:
                    unit.prepare()
                if start:
                    await _start(units)
                yield units
            finally:
                await _close(units, grace)

    async def find(self, run_id: str | None = None) -> tuple[Found, ...]:
        """This user's processes whose environment carries a run's label, and the directories of runs."""
        processes = await anyio.to_thread.run_sync(_labelled, run_id)
        return (*processes, *find_scratch(run_id))

    async def reap(self, found: Sequence[Found], *, force: bool = False) -> tuple[Reaped, ...]:
        """Kill processes and then remove directories; never this process itself or one it runs in."""
        processes = [item for item in found if item.kind == "process"]
        refused = {item.id: "its runner is still running" for item in processes if item.alive and not force}
        own = {str(pid) for pid in _our_own()} if processes else set[str]()
        refused |= {item.id: "it is this very process, or one it runs in" for item in processes if item.id in own}
        doomed = [item for item in processes if item.id not in refused]
        left = {item.id: item for item in doomed}
        with anyio.move_on_after(_KILL_SECONDS):
            while left := {key: item for key, item in left.items() if _still_labelled(int(key), item.run_id)}:
                for key in left:
                    try:
                        os.kill(int(key), signal.SIGKILL)
                    except ProcessLookupError:
                        continue
                    except PermissionError:
                        refused[key] = "it belongs to another user"
                left = {key: item for key, item in left.items() if key not in refused}
                await anyio.sleep(0.005)
        reasons = dict.fromkeys(left, f"it is still there {_KILL_SECONDS:g} s after it was killed") | refused
        reaped = [
            Reaped(found=item, removed=item.id not in reasons, reason=reasons.get(item.id, "")) for item in processes
        ]
        # directories last: who still wrote into them is gone now
        directories = await anyio.to_thread.run_sync(lambda: reap_scratch(found, force=force))
        return (*reaped, *directories)


def _leak(publish: Publish) -> Callable[[Path, str], None]:
    def told(path: Path, reason: str) -> None:
        publish(LeakFound(what=f"directory {path}", reason=reason))

    return told


async def _start(units: Sequence[_ProcessUnit]) -> None:
    """Start all at once; the first to fail, in their own order, is the one that is raised."""
    errors: dict[str, CoworldError] = {}

    async def one(unit: _ProcessUnit) -> None:
        try:
            await unit.start()
        except CoworldError as error:
            errors[unit.name] = error

    async with anyio.create_task_group() as tasks:
        for unit in units:
            tasks.start_soon(one, unit)
    for unit in units:
        if unit.name in errors:
            raise errors[unit.name]


async def _close(units: Sequence[_ProcessUnit], grace: float) -> None:
    """Stop and remove all at once, whatever is cancelled, within a deadline."""
    with anyio.CancelScope(shield=True, deadline=anyio.current_time() + grace + _KILL_SECONDS):
        async with anyio.create_task_group() as tasks:
            for unit in units:
                tasks.start_soon(unit.stop, grace)
    with anyio.CancelScope(shield=True):
        async with anyio.create_task_group() as tasks:
            for unit in units:
                tasks.start_soon(unit.close)
