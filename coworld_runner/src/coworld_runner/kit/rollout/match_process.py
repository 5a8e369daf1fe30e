"""A worker process that plays episodes of rules (`match_program`), from the side of who wants them played."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from typing import Any, Final

from coworld_core.errors import CoworldError, EnvironmentFault
from coworld_core.hints import Hint

from .bot_links import BotProgram
from .match_worker import Chunk, Outcome
from .seat_views import ReplayMoment, SeatView

__all__ = ["PLAY_PROGRAMS", "MatchProcess"]

PLAY_PROGRAMS: Final = Hint("play_programs", 'Play the game and its players as programs (backend="process").')


CLOSE_SECONDS: Final = 2.0
"""How long it may take to kill the players; its rules may hang."""


class MatchProcess:
    """A process that plays the episodes of chunks, one chunk after the other; its methods wait for it.

    Args:
        rules: The name of the rules, as for `load_rules`.
        directory: The working directory, where they are looked for.
        env: The whole environment.
        grace: Seconds that a game may go on after a player has failed; infinite: to its end.

    Raises:
        EnvironmentFault: It cannot be started.
    """

    def __init__(self, rules: str, *, directory: Path, env: Mapping[str, str], grace: float = 1.0) -> None:
        command = [sys.executable, "-m", f"{__package__}.match_program", rules, str(grace)]
        try:
            # In a group of its own, so that Ctrl-C in a terminal reaches only the process that started it
            self._process = Popen(command, cwd=directory, env=env, stdin=PIPE, stdout=PIPE, process_group=0)
        except OSError as error:
            raise EnvironmentFault(f"A worker process cannot be started: {error.strerror}.") from error
        self._problem: str | None = None

    def problem(self) -> str:
        """Wait until the rules are loaded; returns why they cannot be, or an empty text."""
        if self._problem is None:
            self._problem = str(self._received())
        return self._problem

    def told(self, players: Mapping[int, BotProgram]) -> dict[int, Mapping[str, Any]]:
        """Load players, and return what is known of them then (`PlayerHost.told`)."""
        return self._asked(dict(players))

    def play(self, chunk: Chunk) -> list[Outcome]:
        """Play episodes; they may end in any order.

        Raises:
            CoworldError: A config is invalid, or a process cannot be started.
            EnvironmentFault: The process has died.
        """
        return self._asked(chunk)

    def view(self, moment: ReplayMoment) -> SeatView:
        """What a seat saw in a game that was played.

        Raises:
            ReplayFormatError: The replay is damaged, of other rules, or does not play again.
            EnvironmentFault: The process has died.
        """
        return self._asked(moment)

    def close(self) -> None:
        """End the process and those that it has started; if it does not end at once, kill it."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
        try:
            self._process.wait(CLOSE_SECONDS)
        except TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _asked(self, what: object) -> Any:
        assert self._process.stdin is not None
        # A process that has already ended is reported when its answer is read
        with suppress(BrokenPipeError):
            self._process.stdin.write(pickle.dumps(what, pickle.HIGHEST_PROTOCOL))
            self._process.stdin.flush()
        return self._received()

    def _received(self) -> Any:
        assert self._process.stdout is not None
        try:
            said: Any = pickle.load(self._process.stdout)  # noqa: S301 - it is our own process
        except (EOFError, pickle.UnpicklingError, ValueError):
            raise EnvironmentFault(
                f"A worker process has ended with status {self._process.wait()}.",
                code="process_died",
                hint=PLAY_PROGRAMS,
            ) from None
        if isinstance(said, CoworldError):
            raise said
        return said
