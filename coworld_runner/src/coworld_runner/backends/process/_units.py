"""One local process as a unit, under the shim that looks after it."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import ClassVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup

from coworld_core.episode.outcome import Exit, ExitReason
from coworld_core.errors import CoworldError, StartError

from ..._descriptors import of_units
from ...backend import Backend, Publish, UnitSpec
from ...runs._trees import remove_tree
from ...runs.scratch import REMOVE_SECONDS, scratch_root
from ..base import CappedLog, LocalUnit, kill_processes, process_labels
from . import _shim
from ._cgroup import new_group, remove_group
from ._found import KILL_SECONDS

__all__ = ["ProcessUnit"]


_DRAIN_SECONDS = 2.0
"""How long logs may still flow once the tree is gone; only a descriptor passed to a stranger can keep one open."""

_SHIM_SECONDS = 1.0
"""How long a shim may take to kill its tree before that is done from here."""
_AWAKE_SECONDS = 1.0
"""Between two looks whether a shim was stopped, of which the kernel tells nobody but a handler of SIGCHLD."""

_BOOT = "import os, sys; sys.path += sys.argv[1:3]; import _shim; _shim.main(sys.argv[3:]); os._exit(0)"
"""Imported rather than run as a script, so that its bytecode is cached; ended without tidying up an interpreter."""


# --- units ------------------------------------------------------------------------------------------------------


class ProcessUnit(LocalUnit):
    kill_seconds: ClassVar[float] = KILL_SECONDS

    def __init__(self, spec: UnitSpec, *, backend: Backend, context: Path, publish: Publish, tasks: TaskGroup) -> None:
        super().__init__(spec, backend=backend, publish=publish)
        self._context = context
        self._tasks = tasks
        self._environment: dict[str, str] = {}
        self._private: Path | None = None
        self._group = new_group(spec.run_id, spec.name)
        self._spawned = anyio.Event()
        """Set when the command runs, or never will."""
        self._buried = anyio.Event()
        """Set when its shim is gone, and with it the whole tree."""
        self._start_error: CoworldError | None = None
        self._shim: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._pid = 0

    # -- made

    async def make(self) -> None:
        """Everything short of running the command: ports, private directories, the shim.

        Raises:
            StartError: The machine has no room for it, or a port is taken.
        """
        spec = self.spec
        placement = self.take_ports()
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
        self._environment = {
            **_base_environment(self._private),
            **spec.environment(placement),
            **spec.secret_env,
            **process_labels(spec),
        }
        try:
            logs = self._spawn()
        except (OSError, ValueError) as error:
            raise StartError(
                f"{self.name} cannot be started: {getattr(error, 'strerror', None) or error}.",
                hint="The machine is out of processes, open files or memory, or an argument has a null byte.",
                context={"unit": self.name},
            ) from error
        self.follow(self._tasks, partial(self._supervise, logs))

    @property
    def id(self) -> str:
        return str(self._pid) if self._pid else ""

    @property
    def label(self) -> str:
        return f"process {self._pid} ({self.name})"

    def processes(self) -> Iterable[int]:
        return _below(self._shim.pid) if self._shim is not None else ()

    # -- started

    async def launch(self) -> None:
        self._order(b"G")
        await self._spawned.wait()
        if self._start_error is not None:
            raise self._start_error

    def _spawn(self) -> list[tuple[int, CappedLog]]:
        """Start the shim; returns the descriptors to read logs from, with where they go."""
        spec = self.spec
        assert self._private is not None
        with contextlib.ExitStack() as opened:
            logs: list[tuple[int, CappedLog]] = []

            def sink(path: Path | None) -> int:
                if path is None:
                    return subprocess.DEVNULL
                read, write = os.pipe()
                opened.callback(os.close, write)
                os.set_blocking(read, False)
                logs.append((read, self.open_log(path)))
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
                    _shim_command(spec, self._context, self._group, self._private, other.fileno()),
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
        said: Exit | None = None
        try:
            async with anyio.create_task_group() as tasks:
                for read, log in logs:
                    tasks.start_soon(self._pump, read, log)
                async with anyio.create_task_group() as watch:
                    watch.start_soon(self._keep_awake)
                    said = await self._listen()
                    await self._bury(said)
                    watch.cancel_scope.cancel()
                tasks.cancel_scope.deadline = anyio.current_time() + _DRAIN_SECONDS
        finally:
            lost = Exit(reason=self.ended_by or "lost", detail="its supervising process was killed")
            self._end(said or lost)

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
            self.mark_started()
            self._spawned.set()
        elif word == "F":
            number, _, what = rest.partition(" ")
            self._start_error = _cannot_run(self.spec, int(number), self._context if what == "directory" else None)
            return Exit(reason="lost", detail="it could not be started")
        elif word == "E":
            status, reason, detail = rest.split(" ", 2)
            return _exit(int(status), (reason == "-" and self.ended_by) or reason, detail)
        return None

    async def _keep_awake(self) -> None:
        """Wake the shim whenever something in its tree has stopped it: it would neither see an end nor keep a limit."""
        assert self._shim is not None
        while hasattr(os, "waitid"):
            await anyio.sleep(_AWAKE_SECONDS)
            try:
                # it does not block
                stopped = os.waitid(os.P_PID, self._shim.pid, os.WSTOPPED | os.WNOHANG)  # noqa: ASYNC222
            except ChildProcessError:
                return
            if stopped is not None:
                self._wake()

    async def _bury(self, said: Exit | None) -> None:
        """Wait until the shim is gone; when it was killed, kill what it looked after."""
        shim = self._shim
        assert shim is not None
        await _reap_child(shim)
        if said is None:
            await kill_processes(self.spec.run_id, self.name)

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
            self.close_log(log)

    def _end(self, exit: Exit) -> None:
        self._hang_up()
        if not self._pid and self._start_error is None:
            self._start_error = StartError(
                f"{self.name} was ended before it was started.",
                hint="It was stopped meanwhile, or its supervising process was killed.",
                context={"unit": self.name},
            )
        self._spawned.set()
        self.finish(exit)
        self._buried.set()

    # -- ended

    async def discard(self) -> None:
        if self._shim is not None:
            self._order(b"K")
            with anyio.move_on_after(self.kill_seconds):
                await self._buried.wait()

    async def terminate(self, grace: float) -> None:
        self._order(b"T")
        self._wake()

    async def kill(self) -> None:
        """Have its shim kill the tree; do it from here when the shim does not, which its tree can stop all the time."""
        self._order(b"K")
        assert self._shim is not None
        for last in (False, True):
            self._wake()
            with anyio.move_on_after(_SHIM_SECONDS):
                await self._buried.wait()
                return
            self.ended_by = "stopped"
            if self._shim.poll() is None:
                for pid in [*_below(self._shim.pid), *([self._shim.pid] if last else [])]:
                    _signal(pid, signal.SIGKILL)

    def _order(self, order: bytes) -> None:
        if self._control is not None:
            # a full or closed socket means that the shim is on its way out already
            with contextlib.suppress(OSError):
                self._control.send(order)

    def _wake(self) -> None:
        """Have its shim go on if it was stopped."""
        if self._shim is not None and self._shim.poll() is None:
            _signal(self._shim.pid, signal.SIGCONT)

    def _hang_up(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None

    # -- done

    async def remove(self) -> None:
        """Give back what the unit had besides its process. What still runs is published as a leak."""
        if self._shim is not None and not self._buried.is_set():
            self.leak(self.label, f"it was still there {self.kill_seconds:g} s after it was killed")
            # it goes on killing, and ends by itself; nobody waits for it any more
            self._shim.returncode = 0
        self.forsake()
        self._hang_up()
        self.give_ports_back()
        if self._group:
            remove_group(Path(self._group))
        self._environment.clear()
        if self._private is not None:
            private = self._private
            reason = await anyio.to_thread.run_sync(lambda: remove_tree(private, within=REMOVE_SECONDS))
            if reason:
                self.leak(f"directory {self._private}", reason)


def _shim_command(spec: UnitSpec, context: Path, group: str, private: Path, control: int) -> list[str]:
    """How a unit's shim is started, to be told by ``control`` when to run the unit's own command."""
    limits = spec.limits
    directories = [str(path.absolute()) for path in (spec.directory, private) if path is not None]
    first, *arguments = spec.argv
    here = Path(__file__)
    most = (limits.memory_bytes, limits.pids, limits.disk_bytes, limits.disk_entries)
    numbers = (control, *(limit or 0 for limit in most), of_units())
    return [
        *(sys.executable, "-I", "-S", "-c", _BOOT, *map(str, (here.parents[0], here.parents[2]))),
        *map(str, numbers),
        *(group, str(context.absolute()), str(len(directories)), *directories),
        *(sys.executable if first in {"python", "python3"} else first, *arguments),
    ]


def _cannot_run(spec: UnitSpec, number: int, directory: Path | None) -> StartError:
    """Why a unit cannot be started, by the system's error number: for its directory, or else for its program."""
    reason = os.strerror(number)
    context = {"unit": spec.name}
    if directory is not None:
        return StartError(
            f"{spec.name} cannot be started in {directory}: {reason}.",
            hint="The package's compose.yaml names this directory as the image's build context.",
            context=context,
        )
    program = spec.argv[0]
    return StartError(
        f"{spec.name} cannot be started: {program!r} cannot be run: {reason}.",
        code="program_missing" if number == errno.ENOENT else None,
        hint=f"Install {program!r} on this machine, or use the docker backend, which brings its own.",
        context={**context, "program": program},
    )


def python_path() -> str:
    """The caller's PYTHONPATH, for programs that run in another directory; empty when there is none."""
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(str(Path(place).absolute()) for place in places if place)


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
    if path := python_path():
        environment["PYTHONPATH"] = path
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


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


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
