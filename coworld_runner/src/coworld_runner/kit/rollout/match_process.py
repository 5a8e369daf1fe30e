"""A worker process that plays episodes of rules (`match_program`), from the side of who wants them played."""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from mmap import mmap
from pathlib import Path
from typing import Any, Final

from coworld_core.errors import CoworldError, EnvironmentFault
from coworld_core.hints import Hint
from coworld_core.rules import EyeView
from coworld_core.time_limits import RULES_ANSWER

from ...backends.process.child_process import ChildProcess
from .bot_links import BotProgram
from .bot_messages import Frames
from .match_worker import Chunk, Outcome, SeatedGame
from .piped_game import SeatFailure
from .process_pipes import WorkerProgress, memory_file
from .replays_again import ReplayedFile, ReplaysAgain
from .seat_views import ReplayMoment

__all__ = ["PLAY_PROGRAMS", "MatchProcess"]

PLAY_PROGRAMS: Final = Hint("play_programs", 'Play the game and its players as programs (backend="process").')

_LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at a worker that does not answer."""

_LONGER: Final = 10
"""By how much longer anything but a single call of the rules may take."""


class _Lost(EnvironmentFault):
    """A worker process has ended, or does not go on and was killed."""

    code = "process_died"

    def __init__(self, status: int, progress: WorkerProgress, *, why: str = "", hangs: bool = False) -> None:
        self.why = why or f"a worker process has ended with status {status}"
        super().__init__(f"{self.why[0].upper()}{self.why[1:]}.", hint=PLAY_PROGRAMS)
        self.status = status
        _, self.episode, self.seat = progress.read()
        self.hangs = hangs
        """Whether it is certain that the rules do not answer."""

    def outcome(self, game: SeatedGame) -> Outcome:
        """How an episode has ended: whoever was called or waited for then has failed."""
        if self.seat < 0:
            return Outcome(number=game.number, problem=self.why, status=self.status or 1, kept="failed")
        failure = SeatFailure(slot=self.seat, error_type="player_error", status=-signal.SIGKILL)
        words = f"{self.message} It was this player's turn.\n"
        return Outcome(number=game.number, failures=(failure,), printed={self.seat: words}, kept="failed")


class MatchProcess:
    """A process that plays the episodes of chunks, one chunk after the other; its methods wait for it.

    A process that has ended is replaced by another when there is more to play.

    Args:
        rules: The name of the rules, as for `load_rules`.
        directory: The working directory, where they are looked for.
        env: The whole environment.
        grace: Seconds that a game may go on after a player has failed; infinite: to its end.
        timeout: Seconds that the rules may take for what follows from one answer of a player.

    Raises:
        EnvironmentFault: It cannot be started.
    """

    def __init__(
        self,
        rules: str,
        *,
        directory: Path,
        env: Mapping[str, str],
        grace: float = 1.0,
        timeout: float = RULES_ANSWER,
    ) -> None:
        self._command = [sys.executable, "-m", f"{__package__}.match_program", rules, str(grace)]
        self._directory = directory
        self._env = env
        self._timeout = timeout
        self._players: dict[int, BotProgram] = {}
        self._configs: dict[int, Mapping[str, Any]] = {}
        self._anew = False
        self._closed = False
        self._starting = threading.Lock()
        self._talking = threading.Lock()
        """Held while something is said and answered: pipes are closed by nobody else meanwhile."""
        self._child: ChildProcess | None = None
        self._start()

    def _start(self) -> ChildProcess:
        with self._starting:
            if self._closed:
                raise EnvironmentFault("The worker processes have been ended.", code="process_died")
            with memory_file(WorkerProgress.SIZE) as file:
                self._progress = WorkerProgress(mmap(file.fileno(), WorkerProgress.SIZE))
                command = [*self._command, str(file.fileno())]
                try:
                    self._child = ChildProcess(command, directory=self._directory, env=self._env, files=[file.fileno()])
                except OSError as error:
                    raise EnvironmentFault(f"A worker process cannot be started: {error.strerror}.") from error
            self._progress.note(0, WorkerProgress.LONGER)
            self._frames = Frames()
            self._problem: str | None = None
            return self._child

    def problem(self) -> str:
        """Wait until the rules are loaded; returns why they cannot be, or an empty text."""
        if self._problem is None:
            with self._talking:
                self._problem = str(self._received(self._child or self._start()))
        return self._problem

    def load(self, players: Mapping[int, BotProgram]) -> dict[int, Mapping[str, Any]]:
        """Load players, and return what is known of them then (`PlayerHost.description`)."""
        return self._asked(dict(players))

    def play(self, chunk: Chunk) -> list[Outcome]:
        """Play episodes; they may end in any order.

        Returns:
            How they have ended. If a process has died, some or all are missing: it is not certain who has ended it.
            Played again `alone`, none is: the player has failed in whose turn it was, or the rules.

        Raises:
            CoworldError: A config is invalid, or a process cannot be started.
        """
        chunk, self._anew = replace(chunk, anew=self._anew), False
        self._configs.update(chunk.configs)
        self._players.update(chunk.players)
        if self._child is None:
            if problem := self.problem():
                raise EnvironmentFault(f"The rules cannot be loaded any more: {problem}", code="process_died")
            chunk = replace(chunk, configs=self._configs, players=self._players)
        try:
            return self._asked(chunk)
        except _Lost as lost:
            certain = chunk.alone or lost.hangs
            games = [game for game in chunk.games if certain and (chunk.alone or game.number == lost.episode)]
            return [lost.outcome(game) for game in games]

    def begin_anew(self) -> None:
        """Begin with another run, while nothing is played: a process that has ended meanwhile is replaced."""
        self._configs, self._players, self._anew = {}, {}, True
        with self._talking:
            if self._child is not None and self._child.has_ended:
                self._child.close()
                self._child = self._problem = None

    def view(self, moment: ReplayMoment) -> EyeView:
        """What a seat saw in a game that was played.

        Raises:
            ReplayFormatError: The replay is damaged, of other rules, or does not play again.
            EnvironmentFault: The process has died.
        """
        return self._asked(moment)

    def play_again(self, asked: ReplaysAgain) -> list[ReplayedFile]:
        """Play replays again; returns what came of each.

        Raises:
            EnvironmentFault: The process has died, or the rules do not answer.
        """
        return self._asked(asked)

    def close(self) -> None:
        """Kill the process and those that it has started."""
        with self._starting:
            self._closed = True
        child = self._child
        if child is not None:
            # First: whoever waits for an answer then notices the end
            child.kill()
        with self._talking:
            if self._child is not None:
                self._child.close()

    def _asked(self, what: object) -> Any:
        self.problem()
        with self._talking:
            child = self._child
            assert child is not None
            # A process that has already ended is reported when its answer is read
            with suppress(BrokenPipeError):
                child.stdin.write(pickle.dumps(what, pickle.HIGHEST_PROTOCOL))
                child.stdin.flush()
            return self._received(child)

    def _received(self, child: ChildProcess) -> Any:
        """Wait for an answer.

        Raises:
            CoworldError: That is what the process says.
            _Lost: It has ended, was stopped, or has gone on for too long with one and the same; it is killed.
        """
        progress, since = self._progress.read(), time.monotonic()
        own = child.stdout.fileno()
        while True:
            if select.select([own], [], [], min(_LOOK_SECONDS, self._timeout))[0]:
                piece = os.read(own, 1 << 18)
                if not piece:
                    raise self._lost(child)
                for content in self._frames.feed(piece):
                    said: Any = pickle.loads(content)  # noqa: S301 - it is our own process
                    if isinstance(said, CoworldError):
                        raise said
                    return said
                continue
            if child.is_stopped:
                raise self._lost(child, why="the process that plays the game was stopped by a signal")
            now = self._progress.read()
            if now != progress:
                progress, since = now, time.monotonic()
                continue
            hangs = progress[2] == WorkerProgress.RULES
            if time.monotonic() - since > self._timeout * (1 if hangs else _LONGER):
                who = "the rules have" if progress[2] < 0 else "the process that plays the game has"
                why = f"{who} not answered for {self._timeout * (1 if hangs else _LONGER):g} s"
                raise self._lost(child, why=why, hangs=hangs)

    def _lost(self, child: ChildProcess, *, why: str = "", hangs: bool = False) -> _Lost:
        child.kill()
        status = child.wait()
        child.close()
        self._child = self._problem = None
        return _Lost(status, self._progress, why=why, hangs=hangs)
