"""One local process as a unit, under the shim that supervises it."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup

from coworld_core.episode.outcome import Exit, ExitReason
from coworld_core.errors import CoworldError, StartError
from coworld_core.hints import Hint

from ...backend import Backend, Endpoint, Publish, UnitSpec, missing_module
from ...runs._tree_removal import remove_tree
from ...runs.scratch import REMOVE_SECONDS, scratch_root
from .._kernel_connections import held_sockets
from ..base import BaseUnit, CappedLog, HostPorts, kill_processes, process_labels
from ..collector.listening_ports import listens_elsewhere
from ._cgroup import new_group, remove_group
from ._image_interpreter import older_here
from .child_environment import child_environment
from .child_process import KILL_SECONDS, SHIM_SECONDS, below, is_stopped, send_signal, shim_arguments, shim_command

if TYPE_CHECKING:
    from ._program_ahead import ForkedShim, ProgramAhead
    from ._python_environment import PythonEnvironment

__all__ = ["ProcessUnit", "run_by"]


_DRAIN_SECONDS = 2.0
"""How long logs are still read once the tree is gone; only a process outside the tree can keep one open."""

_AWAKE_SECONDS = 1.0
"""Seconds between checks whether a shim was stopped; the kernel reports that only through SIGCHLD."""


# --- units ------------------------------------------------------------------------------------------------------


class ProcessUnit(BaseUnit):
    kill_seconds: ClassVar[float] = KILL_SECONDS

    def __init__(
        self,
        spec: UnitSpec,
        *,
        backend: Backend,
        context: Path,
        installs: Sequence[str] = (),
        interpreter: tuple[str, str] = ("", ""),
        environment: PythonEnvironment | None = None,
        ahead: ProgramAhead | None = None,
        publish: Publish,
        tasks: TaskGroup,
    ) -> None:
        super().__init__(spec, backend=backend, publish=publish)
        self._ports = HostPorts(spec, self.processes)
        self._context = context
        self._installs = installs
        """What its image has that is not in its files: arguments of `pip install`."""
        self._image_interpreter = interpreter
        """The interpreter of its image, and the version there."""
        self._python = environment
        """The environment with these packages; None: that of this process."""
        self._ahead = ahead
        """A program that may fork it; None: it is started."""
        self._tasks = tasks
        self._environment: dict[str, str] = {}
        self._private: Path | None = None
        self._group = new_group(spec.run_id, spec.name)
        self._spawned = anyio.Event()
        """Set when the command runs, or never will."""
        self._buried = anyio.Event()
        """Set when the shim and its whole tree are gone."""
        self._start_error: CoworldError | None = None
        self._shim: subprocess.Popen[bytes] | ForkedShim | None = None
        self._control: socket.socket | None = None
        self._pid = 0

    # -- made

    async def make(self) -> None:
        """Prepare everything but the command: ports, private directories, the shim.

        Raises:
            StartError: The machine lacks the resources, or a port is taken.
        """
        spec = self.spec
        placement = self._ports.take()
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
            **process_labels(spec),
            **child_environment(self._private, self._python),
            **self.variables(placement),
            # First and last: others see the beginning, and nothing in between may change them
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

    def endpoint(self, port: str = "http") -> Endpoint:
        return self._ports.endpoint(port)

    def stranger(self, port: str) -> str:
        return self._ports.stranger(port)

    def missed(self, port: str) -> str:
        """Where its programs listen instead, on Linux."""
        sockets = {inode for pid in self.processes() for inode in held_sockets(pid)}
        return listens_elsewhere(int(self.endpoint(port).here.rpartition(":")[2]), sockets=sockets)

    def missing_hint(self, tail: str) -> str:
        missing = missing_module(tail, here=self._python is None)
        if not missing:
            return super().missing_hint(tail)
        if self._python is not None:
            return f"What its files install has no {missing}: name it there, as its image would need it, too."
        told = f" (the Dockerfile installs {' '.join(self._installs)})" if self._installs else ""
        return Hint(
            "install_packages",
            "Local processes run with the Python that runs coworld, which has no {module}: install it there{told}, "
            "pass install=True for an environment of the package's own, or use the docker backend.",
            module=missing,
            told=told,
        )

    async def unlike_image(self, tail: str) -> str:
        name, version = self._image_interpreter
        return await anyio.to_thread.run_sync(older_here, name, version, run_by(name, self._python), tail)

    def processes(self) -> Iterable[int]:
        return below(self._shim.pid) if self._shim is not None else ()

    # -- started

    async def launch(self) -> None:
        self._order(b"G")
        await self._spawned.wait()
        if self._start_error is not None:
            raise self._start_error

    def _spawn(self) -> list[tuple[int, CappedLog]]:
        """Start the shim; return the descriptors to read logs from, each with its log."""
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
                logs.append((read, self.logs.open(path)))
                return write

            stdout = sink(spec.stdout)
            # One pipe for both, so that their lines stay in order
            stderr = sink(spec.stderr) if spec.stderr is not None else stdout
            try:
                control, other = socket.socketpair()
                opened.callback(other.close)
                control.setblocking(False)
                self._control = control
                arguments = self._shim_arguments()
                if self._ahead is not None and stdout != subprocess.DEVNULL:
                    self._shim = self._ahead.fork(arguments, self._environment, (other.fileno(), stdout, stderr))
                if self._shim is not None and self._ahead is not None:
                    self._ahead.units += 1
                    return logs
                self._ahead = None
                self._shim = subprocess.Popen(
                    shim_command(arguments, control=other.fileno()),
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

    def _shim_arguments(self) -> list[str]:
        spec, limits = self.spec, self.spec.limits
        first, *arguments = spec.argv
        most = (limits.memory_bytes, limits.pids, limits.disk_bytes, limits.disk_entries)
        return shim_arguments(
            [run_by(first, self._python), *arguments],
            directory=self._context,
            limits=[limit or 0 for limit in most],
            group=self._group,
            counted=[path for path in (spec.directory, self._private) if path is not None],
        )

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
        """Read the shim's messages until it ends; return how the command ended, if the shim reported it."""
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
        """Wake the shim when a process in its tree stops it: a stopped shim notices no exit and enforces no limit."""
        assert self._shim is not None
        while hasattr(os, "waitid"):
            await anyio.sleep(_AWAKE_SECONDS)
            if self._ahead is not None:
                # Not our child
                if is_stopped(self._shim.pid):
                    self._wake()
                continue
            try:
                # It does not block
                stopped = os.waitid(os.P_PID, self._shim.pid, os.WSTOPPED | os.WNOHANG)  # noqa: ASYNC222
            except ChildProcessError:
                return
            if stopped is not None:
                self._wake()

    async def _bury(self, reported: Exit | None) -> None:
        """Wait until the shim is gone; if it was killed, kill the processes that it supervised."""
        shim = self._shim
        assert shim is not None
        await _reap_child(shim)
        if reported is None:
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
                # A flood must not keep the others waiting
                await anyio.lowlevel.checkpoint()
        finally:
            os.close(read)
            self.logs.close(log)

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
        """Tell the shim to kill the tree; kill it directly if that fails, since the tree can keep stopping the shim."""
        self._order(b"K")
        assert self._shim is not None
        for last in (False, True):
            self._wake()
            with anyio.move_on_after(SHIM_SECONDS):
                await self._buried.wait()
                return
            self.ended_by = "stopped"
            if self._shim.poll() is None:
                for pid in [*below(self._shim.pid), *([self._shim.pid] if last else [])]:
                    send_signal(pid, signal.SIGKILL)

    def _order(self, order: bytes) -> None:
        if self._control is not None:
            # A full or closed socket means that the shim is already ending
            with contextlib.suppress(OSError):
                self._control.send(order)

    def _wake(self) -> None:
        """Continue the shim if it was stopped."""
        if self._shim is not None and self._shim.poll() is None:
            send_signal(self._shim.pid, signal.SIGCONT)

    def _hang_up(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None

    # -- done

    async def remove(self) -> None:
        """Release the unit's ports, group and directories. A process that still runs is published as a leak."""
        if self._shim is not None and not self._buried.is_set():
            self.leak(self.label, f"it was still there {self.kill_seconds:g} s after it was killed")
            # The shim keeps killing and ends by itself: do not wait for it
            self._shim.returncode = 0
        if self._ahead is not None:
            self._ahead.units -= 1
        self.stop_watching()
        self._hang_up()
        self._ports.give_back()
        if self._group:
            remove_group(Path(self._group))
        self._environment.clear()
        if self._private is not None:
            private = self._private
            reason = await anyio.to_thread.run_sync(lambda: remove_tree(private, timeout=REMOVE_SECONDS))
            if reason:
                self.leak(f"directory {self._private}", reason)


def run_by(program: str, python: PythonEnvironment | None) -> str:
    """What is run for the first word of a command: for an interpreter of Python, that of an environment, or ours."""
    if program not in {"python", "python3"}:
        return program
    return python.python if python is not None else sys.executable


def _cannot_run(spec: UnitSpec, number: int, directory: Path | None) -> StartError:
    """Build the error for a unit that cannot start because of its directory or, if None, its program."""
    reason = os.strerror(number)
    context = {"unit": spec.name}
    if directory is not None:
        return StartError(
            f"{spec.name} cannot be started in {directory}: {reason}.",
            hint="The package's compose.yaml names this directory as the image's build context.",
            context=context,
        )
    program = spec.argv[0]
    # In an image's layout, programs are links to the package's files
    real = os.path.realpath(program) if program.startswith("/") else program
    code, hint = {
        errno.ENOENT: ("program_missing", f"Install {real} on this machine, or use the docker backend."),
        errno.EACCES: ("command_failed", f"It is not executable: chmod +x {real}"),
        errno.ENOEXEC: (
            "command_failed",
            "It is machine code for another architecture, or a script whose first line names no interpreter.",
        ),
    }.get(number, (None, f"Install {real} on this machine, or use the docker backend."))
    return StartError(
        f"{spec.name} cannot be started: {real} cannot be run: {reason}.",
        code=code,
        hint=hint,
        context={**context, "program": program},
    )


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


async def _reap_child(child: subprocess.Popen[bytes] | ForkedShim) -> None:
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
