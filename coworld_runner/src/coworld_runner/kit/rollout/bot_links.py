"""Processes of players, from the side of the rules: started, asked, watched and killed."""

from __future__ import annotations

import json
import marshal
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from coworld_core.errors import EnvironmentFault

from .bot_messages import MAX_ANSWER, Frames, framed

__all__ = ["BotLink", "BotProgram", "PlayerHost"]

LOAD_SECONDS: Final = 120.0
"""How long the file of a player may take to load."""


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
        process: The number of the process at the other end.
        host: What has started it.
        shared: Whether it plays in many episodes.

    Attributes:
        asked: What was asked and has not been answered yet, oldest first.
    """

    def __init__(self, own: socket.socket, process: int, host: PlayerHost, *, shared: bool) -> None:
        self.own = own
        self.host = host
        self.shared = shared
        self.process = process
        self.asked: deque[Any] = deque()
        self._queue: list[tuple[Any, ...]] = []
        self._about: list[Any] = []
        self._frames = Frames(MAX_ANSWER)
        self._since = 0.0
        self._waited = 0.0

    def fileno(self) -> int:
        """The file descriptor of the connection."""
        return self.own.fileno()

    def ask(self, request: tuple[Any, ...], about: Any) -> None:
        """Add a request to the next message; `about` comes back with its answer."""
        self._queue.append(request)
        self._about.append(about)

    def send(self) -> bool:
        """Send what was asked, unless the last message has not been answered yet; returns whether anything was sent."""
        if self.asked or not self._queue:
            return False
        with suppress(BrokenPipeError, ConnectionResetError):
            self.own.sendall(framed(marshal.dumps(self._queue)))
        self.asked.extend(self._about)
        self._queue, self._about = [], []
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
        except ConnectionResetError:
            return None
        if not piece:
            return None
        found: list[Any] = []
        for content in self._frames.feed(piece):
            found += json.loads(content)
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
        """Close the connection and kill the process."""
        self.own.close()
        with suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)


class PlayerHost:
    """The process that loads a player: it plays itself if the player is plain, otherwise it forks.

    Args:
        program: The player.
        apart: Whether to fork for each episode whatever the player is.

    Attributes:
        told: What it has said about the player.

    Raises:
        EnvironmentFault: The process cannot be started.
    """

    def __init__(self, program: BotProgram, *, apart: bool = False) -> None:
        self._control, other = socket.socketpair()
        command = [sys.executable, "-m", f"{__package__}.bot_process", str(other.fileno())]
        command += ["apart" if apart else "plain", program.name]
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
                    process_group=0,
                )
        except OSError as error:
            self._control.close()
            raise EnvironmentFault(f"The process of a player cannot be started: {error.strerror}.") from error
        self._frames = Frames(MAX_ANSWER)
        self._control.settimeout(LOAD_SECONDS)
        answer = self._answer()
        told: dict[str, Any] = json.loads(answer) if answer is not None else {}
        self.told: dict[str, Any] = told or {"status": self._process.wait(), "said": ""}
        self._control.settimeout(None)
        self.shared: BotLink | None = None
        if self.told.get("plain"):
            self.shared = BotLink(self._control, self._process.pid, self, shared=True)

    @property
    def status(self) -> int | None:
        """The status with which the player's program ends as soon as it starts; None if it does not."""
        return self.told.get("status")

    def link(self) -> BotLink:
        """The connection to the player for an episode, which is that of all its episodes if the player is plain."""
        if self.shared is not None:
            return self.shared
        own, other = socket.socketpair()
        with other:
            socket.send_fds(self._control, [b"fork"], [other.fileno()])
        answer = self._answer()
        if answer is None:
            own.close()
            raise EnvironmentFault("The process that loads a player has ended.", code="process_died")
        return BotLink(own, int(answer), self, shared=False)

    def exit_status(self, link: BotLink) -> int:
        """The status with which the process of one episode has ended, or the number of a signal, negative."""
        self._control.sendall(b"%d" % link.process)
        return int(self._answer() or 0)

    def close(self) -> None:
        """Kill the process."""
        self._control.close()
        self._process.kill()
        self._process.wait()

    def _answer(self) -> bytes | None:
        try:
            while piece := self._control.recv(1 << 16):
                for content in self._frames.feed(piece):
                    return content
        except (TimeoutError, ConnectionResetError):
            self._process.kill()
        return None
