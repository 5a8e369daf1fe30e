"""`python -m coworld_runner.kit.rollout.match_program MODULE:CLASS SECONDS FD`: a worker process that plays rules.

What to play arrives on stdin, a `Chunk` at a time, and outcomes leave on stdout. SECONDS is how long a game may go on
after a player has failed, FD a file in memory where it notes its progress.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Mapping
from mmap import mmap
from typing import BinaryIO

from coworld_core.errors import CoworldError
from coworld_core.rules import eye_view, load_rules, read_replay

from .bot_links import BotProgram
from .bot_messages import framed
from .match_worker import Chunk, MatchWorker, PlayerLost
from .process_pipes import WorkerProgress, own_pipes
from .replays_again import ReplaysAgain, play_replays_again
from .seat_views import ReplayMoment

__all__ = ["main"]


def _serve(rules: str, grace: float, progress: WorkerProgress, commands: BinaryIO, out: BinaryIO) -> None:
    """Play what arrives until the pipe is closed."""

    def say(what: object) -> None:
        out.write(framed(pickle.dumps(what, pickle.HIGHEST_PROTOCOL)))
        out.flush()

    try:
        game = load_rules(rules, alone=True)
        worker = MatchWorker(game, commands.fileno(), progress=progress, grace=grace)
    except Exception as error:  # noqa: BLE001 - whatever a game's module raises
        say(f"{type(error).__name__}: {error}")
        return
    say("")
    try:
        while True:
            try:
                asked: Chunk | ReplayMoment | ReplaysAgain | Mapping[int, BotProgram] = pickle.load(commands)  # noqa: S301 - it is our own process
            except EOFError:
                return
            progress.note(0, WorkerProgress.LONGER)
            try:
                if isinstance(asked, ReplayMoment):
                    say(eye_view(game, read_replay(asked.replay), asked.slot, tick=asked.tick))
                elif isinstance(asked, ReplaysAgain):
                    say(list(play_replays_again(game, asked, progress)))
                else:
                    say(worker.play(asked) if isinstance(asked, Chunk) else worker.load(asked))
            except PlayerLost:
                return
            except CoworldError as error:
                say(error)
    finally:
        worker.close()


def main() -> None:
    """Play until the parent closes the pipe."""
    # The rules get a command line of their own
    name, grace, file = sys.argv[1:]
    sys.stdout = sys.stderr
    progress = WorkerProgress(mmap(int(file), WorkerProgress.SIZE))
    os.close(int(file))
    with own_pipes() as (told, out):
        try:
            _serve(name, float(grace), progress, told, out)
        except BrokenPipeError:
            os._exit(0)


if __name__ == "__main__":
    main()
