"""Several replays that a worker process plays again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from coworld_core.rules import ReplayedGame, ReplayFormatError, Rules, check_replay, read_replay
from coworld_core.rules.replay import RulesReplay

from .process_pipes import WorkerProgress

__all__ = ["ReplayedFile", "ReplaysAgain", "play_replays_again"]


@dataclass(frozen=True, kw_only=True)
class ReplaysAgain:
    """Replays to play again.

    Attributes:
        replays: Their bytes.
        watch: Whether the rules are observed in any case.
    """

    replays: Sequence[bytes] = field(repr=False)
    watch: bool = False


@dataclass(frozen=True, kw_only=True)
class ReplayedFile:
    """What came of a replay.

    Attributes:
        game: The game that was played again; None: it was not.
        seed: The seed in its header.
        complete: Whether the replay has its end.
        problem: Why it was not played again: its message.
        code: That error's code.
    """

    game: ReplayedGame | None = None
    seed: int | None = None
    complete: bool = True
    problem: str = ""
    code: str = ""


def play_replays_again(rules: type[Rules], asked: ReplaysAgain, progress: WorkerProgress) -> Iterator[ReplayedFile]:
    """Play replays again one by one."""
    for number, data in enumerate(asked.replays, start=1):
        progress.note(number, WorkerProgress.LONGER)
        try:
            replay: RulesReplay = read_replay(data, source="The replay")
            game = check_replay(rules, replay, watch=asked.watch)
        except ReplayFormatError as error:
            yield ReplayedFile(problem=error.message, code=error.code)
        else:
            yield ReplayedFile(game=game, seed=replay.header.seed, complete=replay.reason is not None)
