"""Tries a library's game in a separate process, because the game may never return, or may end its process.

`python -m coworld_runner.kit.wrappers.trial` reads the names of games, one per line, and answers each with a line.
"""

from __future__ import annotations

import json
import select
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from subprocess import DEVNULL
from sys import executable
from typing import Any, Final

from coworld_core.errors import UsageError
from coworld_core.hints import hint_fields, hint_from

from ...backends.process.child_environment import child_environment
from ...backends.process.child_process import ChildProcess
from ..rollout.process_pipes import own_pipes
from .game_catalogue import find_game, named_game
from .wrappable import Wrappable, WrappedGame, not_wrappable

__all__ = ["TRIAL_SECONDS", "Trials", "tried_games"]

TRIAL_SECONDS: Final = 60.0
"""Time limit to make one game and play its first moves."""


class Trials:
    """A process that tries games, one after the other; a process that a game has ended is replaced.

    Args:
        seconds: Time limit for one game.
    """

    def __init__(self, *, seconds: float = TRIAL_SECONDS) -> None:
        self._seconds = seconds
        self._process: ChildProcess | None = None

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def find(self, source: str) -> WrappedGame:
        """Return the game that a source such as `openspiel:hanabi` names, after trying it.

        Raises:
            UsageError: As for `find_game`; or the trial took too long, or ended its process.
        """
        named_game(source)
        answer = self._answer(source)
        if (reason := answer.get("reason")) is not None:
            raise not_wrappable(source, reason, hint=hint_from(answer))
        answer["needs"] = tuple(answer["needs"])
        return WrappedGame(**answer)

    def refusal(self, source: str) -> str | None:
        """Return why a game cannot be wrapped; None if it can.

        Raises:
            UsageError: As for `named_game`.
        """
        named_game(source)
        return self._answer(source).get("reason")

    def _answer(self, source: str) -> dict[str, Any]:
        if self._process is None:
            command = [executable, "-m", __spec__.name]
            self._process = ChildProcess(command, env=child_environment(None), stderr=DEVNULL)
        asked, answers = self._process.stdin, self._process.stdout
        # If the process has ended, reading its answer below shows that.
        with suppress(BrokenPipeError):
            asked.write(f"{source}\n".encode())
            asked.flush()
        in_time = bool(select.select([answers], [], [], self._seconds)[0])
        if in_time and (line := answers.readline()):
            return json.loads(line)
        status = self._process.wait() if in_time else None
        self._end()
        lost = f"it has ended the process that tried it, with status {status}"
        return {"reason": lost if in_time else f"it has not begun within {self._seconds:g} s"}

    def _end(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


def tried_games(library: str, titles: Mapping[str, str]) -> list[Wrappable]:
    """Try all games of a library, and return them with the reason for each that cannot be wrapped.

    Args:
        library: Its name in sources.
        titles: Names of its games, and their names for display.
    """
    with Trials() as trials:
        return [
            Wrappable(source=source, title=titles[name], refused=trials.refusal(source))
            for name in sorted(titles)
            for source in (f"{library}:{name}",)
        ]


def main() -> None:
    """Try games until the input ends."""
    with own_pipes() as (told, out):
        for line in told:
            source = line.decode().strip()
            try:
                answer = asdict(find_game(source))
            except UsageError as refused:
                answer = {"reason": refused.context["reason"], **hint_fields(refused.hint)}
            out.write(f"{json.dumps(answer)}\n".encode())
            out.flush()


if __name__ == "__main__":
    main()
