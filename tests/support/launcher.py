"""Starts commands without delay, each as a fork of a Python process that has already imported them.

A second of imports for each of hundreds of commands would add minutes to every run. Otherwise a command is as usual: a
process with its own streams, working directory and environment.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Command", "Done", "Launcher", "heed_signals", "launcher"]

_PROGRAM = """
import gc, importlib, json, os, pkgutil, re, runpy, select, signal, socket, sys, traceback
from importlib.metadata import entry_points

modules, address = json.loads(sys.argv[1])
programs = {}
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(address)
listener.listen(64)
heard, told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
signal.set_wakeup_fd(told)
signal.signal(signal.SIGCHLD, lambda *_: None)
children = {}
print("ready", flush=True)


def build(model):
    # Otherwise each command would build its models again, on first use.
    for each in model.__subclasses__():
        each.model_rebuild(raise_errors=False)
        build(each)


def load(name):
    package, _, left_out = name.partition(".* but ")
    module = importlib.import_module(package)
    if left_out:
        for below in pkgutil.walk_packages(module.__path__, f"{package}."):
            if not re.search(left_out, below.name):
                importlib.import_module(below.name)


def prepare(name):
    # Import on a program's first command only, because many test runs have none.
    [point] = entry_points(group="console_scripts", name=name)
    programs[name] = point.load()
    for module in modules[name]:
        load(module)
    if "pydantic" in sys.modules:
        build(sys.modules["pydantic"].BaseModel)
    # A collection in a fork would write to, and so copy, all memory that it shares with this process.
    gc.collect()
    gc.freeze()


def run(order, streams):
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if order["session"]:
            os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, 65536)
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["env"])
        sys.stdin = open(0, encoding="utf-8", closefd=False)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
        sys.argv = order["words"]
        first = order["words"][0]
        if first in programs:
            sys.exit(programs[first]())
        sys.path[:0] = [os.path.dirname(first), *os.environ["PYTHONPATH"].split(os.pathsep)]
        runpy.run_path(first, run_name="__main__")
        status = 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


while True:
    ready = select.select([0, heard, listener, *children.values()], [], [])[0]
    if 0 in ready:
        break
    if heard in ready:
        os.read(heard, 4096)
        while children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            caller = children.pop(pid)
            try:
                caller.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())
            except OSError:
                pass
            caller.close()
    for pid, caller in [*children.items()]:
        if caller in ready:
            os.kill(pid, signal.SIGKILL)  # the caller is gone
    if listener in ready:
        caller, _ = listener.accept()
        order, streams, _, _ = socket.recv_fds(caller, 1 << 20, 3)
        order = json.loads(order)
        # Scripts find what the first program imports.
        name = order["words"][0] if order["words"][0] in modules else next(iter(modules))
        if name not in programs:
            prepare(name)
        child = os.fork()
        if not child:
            run(order, streams)
        children[child] = caller
        for stream in streams:
            os.close(stream)
        caller.send(json.dumps(child).encode())
for pid in children:
    os.kill(pid, signal.SIGKILL)
"""

_STAND_IN = """#!{python} -IS
import json, os, signal, socket, sys
if "PYTHONPATH" in os.environ:
    # The modules that the launcher has imported may be the wrong ones.
    os.execv({program!r}, [{program!r}, *sys.argv[1:]])
to = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
to.connect({address!r})
words = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
order = {{"words": words, "env": dict(os.environ), "cwd": os.getcwd(), "session": False}}
told = []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, lambda number, _: told.append(number) if pid is None else os.kill(pid, number))
pid = None
socket.send_fds(to, [json.dumps(order).encode()], [0, 1, 2])
pid = json.loads(to.recv(4096))
for number in told:
    os.kill(pid, number)
status = json.loads(to.recv(4096))
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


@dataclass(frozen=True)
class Done:
    """The result of a command that has ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The JSON value on standard output; fails if there is anything else."""
        return json.loads(self.stdout)


class Command:
    """A started command, with the methods of a `subprocess.Popen`.

    Args:
        launcher: The connection to the launcher, closed when the command ends; closing it earlier kills the command.
        words: The program's name and its arguments.
    """

    def __init__(self, launcher: socket.socket, words: Sequence[str]) -> None:
        self._launcher = launcher
        self._words = words
        self.pid = int(launcher.recv(4096) or -1)
        assert self.pid > 0, f"the launcher ended at {words[:2]}"
        self.returncode: int | None = None

    def fileno(self) -> int:
        """A descriptor that becomes readable when the command ends."""
        return self._launcher.fileno()

    def poll(self) -> int | None:
        """The exit status, or None while the command runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the command to end.

        Raises:
            subprocess.TimeoutExpired: It is still running.
        """
        if self.returncode is None:
            if not select.select([self._launcher], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self._words[:2], timeout or 0)
            status = self._launcher.recv(4096)
            self._launcher.close()
            assert status, f"the launcher ended at {self._words[:2]}"
            self.returncode = int(status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the command has ended."""
        if self.poll() is None:
            # The launcher may have reaped it, and not have said so yet.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class Launcher:
    """Starts commands.

    Args:
        python: The Python of the environment where the programs are installed.
        address: The address of the launcher's socket.
    """

    def __init__(self, python: str | Path, address: str) -> None:
        self._python = python
        self._address = address

    def start(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        streams: tuple[int, int, int],
        session: bool = False,
    ) -> Command:
        """Start a command.

        Args:
            words: The program's name and its arguments; or the path of a script, for which `env` must have a
                `PYTHONPATH`, and its arguments.
            env: The whole environment.
            cwd: The working directory.
            streams: Descriptors of the standard streams, which the caller must still close.
            session: Whether to start a new session.
        """
        order = {"words": list(words), "env": dict(env), "cwd": str(cwd), "session": session}
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(self._address)
        socket.send_fds(connection, [json.dumps(order).encode()], streams)
        return Command(connection, words)

    def run(
        self, words: Sequence[str], *, env: Mapping[str, str], cwd: Path, stdin: str = "", timeout: float = 300.0
    ) -> Done:
        """Run a command to its end.

        Args:
            words: The program's name and its arguments.
            env: The whole environment.
            cwd: The working directory.
            stdin: The standard input.
            timeout: Time limit in seconds.
        """
        with ExitStack() as files:
            given, out, err = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
            given.write(stdin.encode())
            given.seek(0)
            command = self.start(words, env=env, cwd=cwd, streams=(given.fileno(), out.fileno(), err.fileno()))
            # Arguments may contain tokens, which the output of a failed test must not show.
            try:
                status = command.wait(timeout)
            except subprocess.TimeoutExpired:
                command.kill()
                raise AssertionError(f"{words[:2]} took over {timeout:g} s") from None
            for stream in (out, err):
                stream.seek(0)
            return Done(status, out.read().decode(), err.read().decode())

    def stand_in(self, directory: Path, program: str) -> None:
        """Write an executable that runs a program by this launcher and passes on streams, signals and exit status."""
        directory.mkdir(exist_ok=True)
        itself = str(Path(self._python).with_name(program))
        text = _STAND_IN.format(python=self._python, address=self._address, program=itself)
        (directory / program).write_text(text)
        (directory / program).chmod(0o755)


def heed_signals() -> None:
    """Restore default signal handlers: SIGINT and SIGQUIT are ignored in the background, and SIGHUP under nohup."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def launcher(
    python: str | Path, programs: Mapping[str, Sequence[str]], *, env: Mapping[str, str] | None = None
) -> Generator[Launcher]:
    """Run a launcher while the context is open.

    Args:
        python: The Python of the environment where the programs are installed.
        programs: The names of the programs, each with further modules to import; `NAME.* but PATTERN` stands for a
            package with all its modules except those that match a regular expression.
        env: The launcher's own environment; by default, that of this process.
    """
    # An abstract address, because a path in the file system may be too long for a socket.
    address = f"\0coworld-tests-{os.urandom(16).hex()}"
    with subprocess.Popen(
        [python, "-c", _PROGRAM, json.dumps([dict(programs), address])],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        preexec_fn=heed_signals,
        # A separate session, so that everything an aborted test leaves behind can be killed with it.
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield Launcher(python, address)
        finally:
            process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
