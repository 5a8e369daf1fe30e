"""What can be wrapped: `LIBRARY:GAME`, for each library that there is."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from coworld_core.errors import UsageError
from coworld_core.wording import closest

from .libraries import imported
from .wrappable import Wrappable, WrappedGame, not_wrappable

__all__ = ["LIBRARIES", "Library", "find_game", "list_wrappable", "named_game"]


@dataclass(frozen=True, kw_only=True)
class Library:
    """A library whose games can be wrapped.

    The adapter is the module beside this one that has the library's name in a source, and in it the class that has its
    title.

    Attributes:
        title: Its name for people.
        module: What is imported.
        games: The module beside this one that has their `names`, `listed` with what keeps one from being wrapped, and
            `find` for one.
        sees: What the rules of a package say of it in a line.
        reading: What its README says of moves and observations.
    """

    title: str
    module: str
    games: str
    sees: str
    reading: str


LIBRARIES: Final = {
    "openspiel": Library(
        title="OpenSpiel",
        module="pyspiel",
        games="openspiel_games",
        sees="A seat sees a text, and its moves have names.",
        reading="""A move is the name that OpenSpiel has for it. `view` of an observation is what the seat sees, as
text; where nothing is hidden, `history` has every move so far, by its number in OpenSpiel, and `game` is what to load
there. Games in which something is hidden show spectators only whose turn it is, until the end.""",
    ),
    "pettingzoo": Library(
        title="PettingZoo",
        module="pettingzoo",
        games="pettingzoo",
        sees="A seat sees an array, and its actions are numbers.",
        reading="""An action is its number in PettingZoo, and `legal` has those that the action mask allows. `view` of
an observation is the array that the agent sees, as lists of numbers; `game` is the environment's name there. Scores are
sums of rewards.""",
    ),
    "textarena": Library(
        title="TextArena",
        module="textarena",
        games="textarena",
        sees="A seat reads a text, and answers in words of its own.",
        reading="""An action is any text; most games want the move in brackets, and say so in `view` of an
observation, which is what the seat reads: the rules, and what has been said and shown to it. A second wrong move in
turn loses most games. Spectators see what all seats were told alike.""",
    ),
}
"""By the name that each has in a source."""


def list_wrappable(library: str) -> list[Wrappable]:
    """All games of a library.

    Raises:
        UsageError: It is none that can be wrapped, or is not installed.
    """
    return _games(library).listed()


def find_game(source: str) -> WrappedGame:
    """The game that a source such as `openspiel:hanabi` names; it is tried in this process.

    Raises:
        UsageError: Code `library_missing`, or `not_wrappable` with the reason.
    """
    games, game = named_game(source)
    return games.find(game)


def named_game(source: str) -> tuple[Any, str]:
    """The module that knows the games of a source's library, and which game it names; it is not tried yet.

    Raises:
        UsageError: Code `library_missing`, or `not_wrappable`: there is no such game.
    """
    library, _, game = source.partition(":")
    games = _games(library)
    everything = f"`coworld wrap --list {library}` has all names."
    if not game:
        raise not_wrappable(source, "no game is named", hint=everything)
    name, known = game.partition("(")[0], games.names()
    if name not in known:
        near = closest(name, known)
        hint = f"Did you mean {library}:{near}? {everything}" if near else everything
        raise not_wrappable(source, f"{LIBRARIES[library].title} has no such game", hint=hint)
    return games, game


def _games(library: str) -> Any:
    if library not in LIBRARIES:
        raise UsageError(
            f"{library!r} is no library whose games can be wrapped.",
            code="not_wrappable",
            hint=f"There are {', '.join(LIBRARIES)}: coworld wrap {next(iter(LIBRARIES))}:NAME.",
        )
    imported(LIBRARIES[library].module)
    return import_module(f".{LIBRARIES[library].games}", __package__)
