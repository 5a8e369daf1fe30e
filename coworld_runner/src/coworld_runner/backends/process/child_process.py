"""How every local process is started: below a shim, with the environment that it is given and a session of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, cast

from ...runs._open_files import of_units
from . import _shim

__all__ = [
    "KILL_SECONDS",
    "SHIM_SECONDS",
    "ChildProcess",
    "below",
    "is_stopped",
    "send_signal",
    "shim_arguments",
    "shim_command",
]

KILL_SECONDS: Final = 5.0
"""How long a process may remain after SIGKILL before it counts as left behind."""

SHIM_SECONDS: Final = 1.0
"""How long a shim may take to kill its tree before the runner kills it."""

_BOOT = "import os, sys; sys.path += sys.argv[1:3]; import _shim; _shim.main(sys.argv[3:]); os._exit(0)"
"""Imports the shim rather than running it as a script, so that its bytecode is cached; exits without cleanup."""


def shim_command(arguments: Sequence[str], *, control: int) -> list[str]:
    """The command line of a shim.

    Args:
        arguments: What it runs and supervises, and how; see `shim_arguments`.
        control: The socket that tells it when to run the command.
    """
    here = Path(__file__)
    places = map(str, (here.parents[0], here.parents[1]))
    return [*(sys.executable, "-I", "-S", "-c", _BOOT, *places), str(control), *arguments]


def shim_arguments(
    argv: Sequence[str],
    *,
    directory: Path,
    limits: Sequence[int] = (0, 0, 0, 0),
    group: str = "",
    counted: Sequence[Path] = (),
) -> list[str]:
    """The arguments of a shim, after its control socket.

    Args:
        argv: The command that it runs and supervises.
        directory: Where to run it.
        limits: Bytes of memory, processes, bytes on disk and entries of directories; 0: no limit.
        group: The control group to create; empty: none.
        counted: Directories that count as the command's.
    """
    return [
        *map(str, (*limits, of_units())),
        *(group, str(directory.absolute()), str(len(counted)), *(str(path.absolute()) for path in counted)),
        *argv,
    ]


class ChildProcess:
    """A process that runs code of others for this one, which talks to it through pipes.

    It ends with all that it has started when it is killed, and when this process ends, in whatever way. Ctrl-C in a
    terminal does not reach it.

    Args:
        command: Its command line.
        env: Its whole environment.
        directory: Its working directory; None: ours.
        files: Open files that it gets under the same numbers.
        stderr: Its standard error, as for `Popen`; None: ours.

    Attributes:
        stdin: What it reads from.
        stdout: What it writes to. It ends when all that the process has started has ended, too.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        directory: Path | None = None,
        files: Sequence[int] = (),
        stderr: int | None = None,
    ) -> None:
        self._control, other = socket.socketpair()
        try:
            with other:
                self._shim = subprocess.Popen(
                    shim_command(shim_arguments(command, directory=directory or Path.cwd()), control=other.fileno()),
                    env=env,
                    cwd="/",
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    pass_fds=(other.fileno(), *files),
                    start_new_session=True,
                )
        except BaseException:
            self._control.close()
            raise
        self.stdin = cast("BinaryIO", self._shim.stdin)
        self.stdout = cast("BinaryIO", self._shim.stdout)
        self._control.setblocking(False)
        self._received = b""
        self._order(b"G")

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_stopped(self) -> bool:
        """Whether something has stopped it, so that it would never answer; False where that cannot be seen."""
        return any(word == "S" and is_stopped(int(rest)) for word, rest in self._lines())

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self._shim.poll() is not None

    def wait(self) -> int:
        """Wait until it has ended, with all that it has started; returns its status, or that of a signal, negative."""
        self._shim.wait()
        for word, rest in self._lines():
            if word == "E":
                return os.waitstatus_to_exitcode(int(rest.partition(" ")[0]))
            if word == "F":
                return 127
        # What it has started may have killed the shim
        return -signal.SIGKILL

    def kill(self) -> None:
        """Kill it and all that it has started, and wait for that."""
        self._order(b"K")
        for last in (False, True):
            # Something may have stopped the shim
            self._shim.send_signal(signal.SIGCONT)
            with suppress(subprocess.TimeoutExpired):
                self._shim.wait(SHIM_SECONDS)
                return
            for pid in [*below(self._shim.pid), *([self._shim.pid] if last else [])]:
                send_signal(pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._shim.wait(KILL_SECONDS)

    def close(self) -> None:
        """Kill it, and close the pipes only then: another thread may wait for one of them."""
        self.kill()
        for pipe in (self.stdin, self.stdout):
            # What could not be written to it any more is still in the buffer
            with suppress(OSError):
                pipe.close()
        self._control.close()

    def _order(self, order: bytes) -> None:
        # A closed socket means that the shim is already ending
        with suppress(OSError):
            self._control.send(order)

    def _lines(self) -> list[tuple[str, str]]:
        """What the shim has said so far: words, and the rest of their lines."""
        with suppress(OSError):
            while piece := self._control.recv(4096):
                self._received += piece
        lines = self._received.decode("utf-8", "replace").split("\n")[:-1]
        return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def below(root: int) -> list[int]:
    """All descendants of a process."""
    if sys.platform == "linux":
        return list(_shim.descendants(root))
    import psutil

    try:
        return [child.pid for child in psutil.Process(root).children(recursive=True)]
    except psutil.Error:
        return []


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped a process; False where that cannot be seen."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except (OSError, IndexError):
        return False


def send_signal(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
