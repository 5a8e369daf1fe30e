"""Processes of players, from the side of the rules: started, asked, watched and killed."""

from __future__ import annotations

import json
import marshal
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from coworld_core.errors import EnvironmentFault

from ...backends.process._shim import kill_descendants, kill_group
from ...backends.process.child_process import is_stopped, send_signal
from .bot_messages import MAX_ANSWER, Frames, framed

__all__ = ["BotLink", "BotProgram", "PlayerHost"]

LOAD_SECONDS: Final = 120.0
"""How long the file of a player may take to load."""

ANSWER_SECONDS: Final = 30.0
"""How long a process of a player may take for what our own program does there."""

LOOK_SECONDS: Final = 0.5
"""Seconds between two looks whether a process that does not answer was stopped."""

_KNOWN: Final = frozenset({"plain", "session", "starts", "ends"})
"""What is told of a player that was loaded."""


@dataclass(frozen=True, kw_only=True)
class BotProgram:
    """A player that the kit can load.

    Attributes:
        name: As for `load_player`; empty: the player `random`, which plays among the rules.
        directory: Its working directory.
        env: Its whole environment.
    """

    name: str
    directory: Path = Path()
    env: Mapping[str, str] = field(default_factory=dict[str, str])


class BotLink:
    """A connection to the process of a player.

    Args:
        own: This end of it.
        process: The number of the process at the other end; 0: there is none.
        host: What has started it.
        shared: Whether it plays in many episodes.

    Attributes:
        asked: What was asked and has not been answered yet, oldest first.
        unsent: What is still to be asked.
    """

    def __init__(self, own: socket.socket, process: int, host: PlayerHost, *, shared: bool) -> None:
        self.own = own
        self.host = host
        self.shared = shared
        self.process = process
        self.asked: deque[Any] = deque()
        self._queue: list[tuple[Any, ...]] = []
        self.unsent: list[Any] = []
        self._frames = Frames(MAX_ANSWER)
        self._since = 0.0
        self._waited = 0.0

    def fileno(self) -> int:
        """The file descriptor of the connection."""
        return self.own.fileno()

    def ask(self, request: tuple[Any, ...], about: Any) -> None:
        """Add a request to the next message; `about` comes back with its answer."""
        self._queue.append(request)
        self.unsent.append(about)

    def send(self) -> bool:
        """Send what was asked, unless the last message has not been answered yet; returns whether anything was sent."""
        if self.asked or not self._queue:
            return False
        # If it is gone, or reads nothing, that is seen when it is to answer
        with suppress(OSError):
            self.own.sendall(framed(marshal.dumps(self._queue)))
        self.asked.extend(self.unsent)
        self._queue, self.unsent = [], []
        self.progress()
        return True

    @property
    def idle(self) -> bool:
        """Whether nothing is to be answered or sent."""
        return not self.asked and not self._queue

    def progress(self) -> None:
        """Note that the player begins with the oldest request now."""
        self._since = time.monotonic()
        if not self.shared:
            self._waited = self._wait()

    def receive(self) -> list[Any] | None:
        """Return the answers that have arrived; None if the connection is closed.

        Raises:
            ValueError: They are no answers.
        """
        try:
            piece = self.own.recv(1 << 18)
        except OSError:
            return None
        if not piece:
            return None
        found: list[Any] = []
        try:
            for content in self._frames.feed(piece):
                found += json.loads(content)
        except (TypeError, RecursionError) as error:
            raise ValueError("no list of answers") from error
        if found:
            # Not for a piece of an answer: whoever sends one byte after the other has not answered
            self.progress()
        return found

    @property
    def passed(self) -> float:
        """Seconds since the player began with what it is asked."""
        return time.monotonic() - self._since

    def left(self, limit: float) -> float:
        """Seconds that the player has left of a limit for what it is asked; negative if it has used more.

        What it has used is the time since then, less the time that it was ready to run and another process ran.
        """
        passed = self.passed
        if passed >= limit and not self.shared:
            passed -= max(self._wait() - self._waited, 0.0)
        return limit - passed

    def _wait(self) -> float:
        try:
            with open(f"/proc/{self.process}/schedstat", "rb") as file:  # noqa: PTH123 - it is read often
                return int(file.read(100).split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0

    def close(self) -> None:
        """Close the connection; a process that plays a single episode then ends."""
        self.own.close()

    def kill(self) -> None:
        """Kill the process, and close the connection only then: at its end the process would leave with status 0."""
        if self.process:
            send_signal(self.process, signal.SIGKILL)
        self.own.close()


class PlayerHost:
    """The process that loads a player: it plays itself if the player is plain, otherwise it forks.

    Args:
        program: The player.
        apart: Whether to fork for each episode whatever the player is.
        timeout: Seconds that the process may take to fork, and to say how a process has ended.

    Attributes:
        description: What it has said about the player.
        shared: The connection to a player that plays itself.

    Raises:
        EnvironmentFault: The process cannot be started.
    """

    def __init__(self, program: BotProgram, *, apart: bool = False, timeout: float = ANSWER_SECONDS) -> None:
        self._program = program
        self._apart = apart
        self._timeout = timeout
        self._start()

    def _start(self) -> None:
        program = self._program
        self._control, other = socket.socketpair()
        command = [sys.executable, "-m", f"{__package__}.bot_process", str(other.fileno())]
        command += ["apart" if self._apart else "plain", program.name]
        try:
            with other:
                self._process = subprocess.Popen(
                    command,
                    cwd=program.directory,
                    env=program.env,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(other.fileno(),),
                    # A session of its own: nothing of another player can join its group
                    start_new_session=True,
                )
        except OSError as error:
            self._control.close()
            raise EnvironmentFault(f"The process of a player cannot be started: {error.strerror}.") from error
        _limit_sending(self._control)
        self._frames = Frames(MAX_ANSWER)
        told = _read_description(self._answer(LOAD_SECONDS))
        if told is None:
            self.close()
        self.description: dict[str, Any] = told or {"status": self.exit_code, "said": ""}
        self.shared: BotLink | None = None
        if self.description.get("plain"):
            self.shared = BotLink(self._control, self._process.pid, self, shared=True)

    @property
    def status(self) -> int | None:
        """The status with which the player's program ends as soon as it starts; None if it does not."""
        return self.description.get("status")

    @property
    def exit_code(self) -> int:
        """The status of this process, which has ended."""
        return self._process.wait()

    def link(self) -> BotLink:
        """The connection to the player for an episode, which is that of all its episodes if the player is plain.

        If the process has ended since the last episode, another one is started. If that ends, too, the connection is
        one whose other end is closed.
        """
        if self.shared is not None:
            return self.shared
        own, other = socket.socketpair()
        _limit_sending(own)
        with other:
            process = self._fork(other)
            if process is None:
                told = self.description
                self.close()
                self._start()
                process = self._fork(other)
                if process is None:
                    self.description = told
        return BotLink(own, process or 0, self, shared=False)

    def _fork(self, other: socket.socket) -> int | None:
        try:
            socket.send_fds(self._control, [b"fork"], [other.fileno()])
        except OSError:
            return None
        return _number(self._answer(self._timeout))

    def exit_status(self, link: BotLink) -> int | None:
        """The status with which the process of an episode has ended, or the number of a signal, negative.

        None: This process itself has ended, or does not answer, and is killed.
        """
        try:
            self._control.sendall(b"%d" % link.process)
        except OSError:
            answer = None
        else:
            answer = _number(self._answer(self._timeout)) if link.process else None
        if answer is None:
            self.close()
        return answer

    def close(self) -> None:
        """Kill the process, and all that it has started."""
        if self._process.poll() is None:
            kill_descendants(self._process.pid)
            kill_group(self._process.pid)
            self._process.wait()
        self._control.close()

    def _answer(self, seconds: float) -> bytes | None:
        """What the process says next; None if it has ended, was stopped, or says nothing for that long."""
        until = time.monotonic() + seconds
        try:
            while (left := until - time.monotonic()) > 0:
                if not select.select([self._control], [], [], min(left, LOOK_SECONDS))[0]:
                    if is_stopped(self._process.pid):
                        return None
                    continue
                piece = self._control.recv(1 << 16)
                if not piece:
                    return None
                for content in self._frames.feed(piece):
                    return content
        except (OSError, ValueError):
            pass
        return None


def _limit_sending(own: socket.socket) -> None:
    """Let no process hold this one up for ever by not reading what it is sent."""
    own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(ANSWER_SECONDS), 0))


def _read_description(answer: bytes | None) -> dict[str, Any] | None:
    """What the process of a player says about it; None if it is nothing."""
    try:
        told: Any = json.loads(answer or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    known = cast("dict[str, Any]", told)
    return known if known.keys() >= _KNOWN or isinstance(known.get("status"), int) else None


def _number(answer: bytes | None) -> int | None:
    try:
        return int(answer or b"")
    except ValueError:
        return None
