"""Errors in rules, which are the game's fault, and errors in actions, which are a player's."""

from __future__ import annotations

import inspect
import linecache
import os
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import scopes
from ..errors import CoworldError

__all__ = ["ActionRefused", "ReplayFormatError", "RulesError", "own_lines", "pointed_out"]

_PACKAGE = __name__.rpartition(".")[0]


class ActionRefused(CoworldError):
    """An action that is malformed or not legal now; the message is for its sender."""

    kind = "answer"
    default_code = "action_refused"


class ReplayFormatError(CoworldError):
    """A replay that is damaged, belongs to other rules, or is not a replay of rules at all."""

    kind = "answer"
    default_code = "replay_invalid"


class RulesError(CoworldError):
    """Rules raised an exception or returned something invalid: a fault of the game.

    Args:
        problem: What is wrong, without the location.
        where: The method, such as `step`.
        tick: Number of ticks played so far.
        seat: The seat that the method was called for, if any.
        cause: The exception that the rules raised, if any.
        at: The method, if it raised nothing.
        code: Stable code of the kind of problem, if it has one of its own.

    Attributes:
        where: As given.
        tick: As given.
        seat: As given.
        lines: The formatted traceback of `cause`, innermost frame last, without frames of this package; or the place of
            the method.
        replay: The replay up to that point, if one was recorded.
    """

    kind = "answer"
    default_code = "rules_failed"

    def __init__(
        self,
        problem: str,
        *,
        where: str,
        tick: int,
        seat: int | None = None,
        cause: Exception | None = None,
        code: str | None = None,
        at: Any = None,
    ) -> None:
        place = f"{where}, tick {tick}" + ("" if seat is None else f", seat {seat}")
        super().__init__(f"{place}: {problem}", code=code, context={"where": where, "tick": tick, "seat": seat})
        self.where = where
        self.tick = tick
        self.seat = seat
        self.replay: bytes | None = None
        self.lines = _first_line(at) if cause is None else own_lines(cause)

    @classmethod
    def raised(cls, cause: Exception, *, where: str, tick: int, seat: int | None = None) -> RulesError:
        """Create the error for an exception that the rules raised."""
        said = str(cause)
        problem = type(cause).__name__ + (f": {said}" if said else "")
        return cls(scopes.bare_names(problem), where=where, tick=tick, seat=seat, cause=cause)


def own_lines(error: BaseException, *, without: str = _PACKAGE) -> tuple[str, ...]:
    """Format the traceback of an error in an author's code, innermost frame last.

    Args:
        error: The exception.
        without: Package whose frames are left out, as are those of imports; by default this one.
    """
    trace = error.__traceback__
    # By module: the file names of compiled modules are those of the machine that compiled them.
    lines = [
        line
        for line, (frame, _) in zip(traceback.extract_tb(trace), traceback.walk_tb(trace), strict=False)
        if (name := frame.f_globals.get("__name__")) != scopes.__name__ and not f"{name}.".startswith(f"{without}.")
    ]
    return tuple(line.rstrip("\n") for line in traceback.format_list(lines))


def _first_line(function: Any) -> tuple[str, ...]:
    """Where a function begins, in the form of a traceback; nothing if that is not known."""
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    if code is None:
        return ()
    text = linecache.getline(code.co_filename, code.co_firstlineno).strip()
    return (f'  File "{code.co_filename}", line {code.co_firstlineno}, in {code.co_name}\n    {text}\n    ^',)


def pointed_out(error: BaseException, *, directory: Path, at: Any = None) -> str:
    """Say in what line of an author's files an error is: `FILE:LINE: PROBLEM`, then that line, then a caret below it.

    Args:
        error: The exception.
        directory: The directory of the files; the innermost frame in one of them counts.
        at: The class or function whose first line it is if there is no such frame.

    Returns:
        The text; only the problem if there is no such line.
    """
    said = str(error.msg if isinstance(error, SyntaxError) else getattr(error, "message", error))
    kind = "" if isinstance(error, CoworldError) else type(error).__name__
    problem = scopes.bare_names(": ".join(part for part in (kind, " ".join(said.split())) if part))
    file, line, column = "", 0, None
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        file, line, column = error.filename, error.lineno, (error.offset or 1) - 1
    else:
        root = os.path.realpath(directory)
        for frame in traceback.extract_tb(error.__traceback__):
            mine = Path(frame.filename).is_file() and "site-packages" not in frame.filename
            if mine and os.path.realpath(frame.filename).startswith(f"{root}{os.sep}") and frame.lineno:
                file, line, column = frame.filename, frame.lineno, frame.colno
        if not file:
            with suppress(OSError, TypeError):
                file, line = inspect.getsourcefile(at) or "", inspect.getsourcelines(at)[1]
    if not file:
        return problem
    linecache.checkcache(file)
    text = linecache.getline(file, line).rstrip()
    before = text[:column] if isinstance(error, SyntaxError) else text.encode()[:column].decode(errors="replace")
    space = len(before) if column is not None else len(text) - len(text.lstrip())
    return f"{os.path.relpath(file, directory)}:{line}: {problem}\n{text}\n{' ' * space}^"
