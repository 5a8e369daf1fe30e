"""What is wrong with rules, and what is wrong with an action: the first is the game's fault, the second a player's."""

from __future__ import annotations

import traceback
from pathlib import Path

from ..errors import CoworldError

__all__ = ["ActionRefused", "ReplayFormatError", "RulesError", "own_lines"]

_HERE = str(Path(__file__).parent)


class ActionRefused(CoworldError):
    """An action that is none, or is not legal now; the message is for whoever sent it."""

    kind = "answer"
    default_code = "action_refused"


class ReplayFormatError(CoworldError):
    """What was to be read is no replay of rules, or is damaged, or is of other rules."""

    kind = "answer"
    default_code = "replay_invalid"


class RulesError(CoworldError):
    """Rules that raised, or returned what no rules may: a fault of the game.

    Args:
        problem: What is wrong, without its place.
        where: The method, such as `step`.
        tick: The ticks that had been played.
        seat: The seat that it was asked about, if it was asked about one.
        cause: What the rules raised, if they did.

    Attributes:
        where: As given.
        tick: As given.
        seat: As given.
        lines: The lines of the rules that lead to it, as a traceback has them, innermost last; without ours.
        replay: The game up to there, where one was kept.
    """

    kind = "answer"
    default_code = "rules_failed"

    def __init__(
        self, problem: str, *, where: str, tick: int, seat: int | None = None, cause: Exception | None = None
    ) -> None:
        place = f"{where}, tick {tick}" + ("" if seat is None else f", seat {seat}")
        super().__init__(f"{place}: {problem}", context={"where": where, "tick": tick, "seat": seat})
        self.where = where
        self.tick = tick
        self.seat = seat
        self.replay: bytes | None = None
        self.lines = () if cause is None else own_lines(cause)

    @classmethod
    def raised(cls, cause: Exception, *, where: str, tick: int, seat: int | None = None) -> RulesError:
        """The error for an exception of the rules."""
        said = str(cause)
        problem = type(cause).__name__ + (f": {said}" if said else "")
        return cls(problem, where=where, tick=tick, seat=seat, cause=cause)


def own_lines(error: BaseException, *, without: str = _HERE) -> tuple[str, ...]:
    """The lines of an author's code that lead to an error, as a traceback has them, innermost last.

    Args:
        error: What was raised.
        without: The directory whose lines are ours.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(without)]
    return tuple(line.rstrip("\n") for line in traceback.format_list(frames))
