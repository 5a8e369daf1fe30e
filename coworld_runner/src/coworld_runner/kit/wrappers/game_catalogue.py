"""Finds the games that can be wrapped, by names of the form `LIBRARY:GAME`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.text.phrases import closest

from .libraries import imported
from .own_modules import is_own
from .wrappable import Wrappable, WrappedGame, not_wrappable

__all__ = ["LIBRARIES", "Library", "find_game", "list_wrappable", "named_game"]


@dataclass(frozen=True, kw_only=True)
class Library:
    """A library whose games can be wrapped.

    Its adapter is the module of this package with the library's name in sources, and in it the class named like the
    title.

    Attributes:
        title: Name for display.
        module: The module to import.
        games: The module of this package with the functions `names`, `listed` and `find`.
        sees: Line about observations and actions, for the docstring of a package's rules.
        reading: Paragraph about moves and observations, for a package's README.
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
        reading="""A move is its name in OpenSpiel. `view` of an observation is the text that the seat sees. In games
where nothing is hidden, `history` has OpenSpiel's number of every move so far, and `game` is the name to load there.
Games with hidden information show spectators only whose turn it is, until the end.""",
    ),
    "pettingzoo": Library(
        title="PettingZoo",
        module="pettingzoo",
        games="pettingzoo",
        sees="A seat sees an array, and its actions are numbers.",
        reading="""An action is its number in PettingZoo, and `legal` lists those that the action mask allows; or, where
actions are not a list, it is a list of numbers, with the bounds of the space, and there is no `legal`. `view` of
an observation is the array that the agent sees, as lists of numbers; `game` is the environment's name there. Scores are
sums of rewards.""",
    ),
    "gymnasium": Library(
        title="Gymnasium",
        module="gymnasium",
        games="gymnasium",
        sees="The only seat sees numbers, and its actions are numbers.",
        reading="""An action is its number in Gymnasium, and `legal` lists them; or, where actions are not a list, it is
a list of numbers, with the bounds of the space, and there is no `legal`. `view` of an observation is what the
environment shows, as lists of numbers; `game` is the environment's name there. The score is the sum of rewards.""",
    ),
    "textarena": Library(
        title="TextArena",
        module="textarena",
        games="textarena",
        sees="A seat reads a text, and answers in words of its own.",
        reading="""An action is any text; most games expect the move in brackets, and say so in `view` of an
observation, which is what the seat reads: the rules, and the messages to it. A second wrong move in a row loses most
games. Spectators see the messages that all seats receive.""",
    ),
}
"""The libraries by their names in sources."""

OWN: Final = frozenset({"gymnasium", "pettingzoo"})
"""The libraries of which environments of one's own can be wrapped."""


def list_wrappable(library: str) -> list[Wrappable]:
    """Return all games of a library.

    Raises:
        UsageError: The library is unknown or not installed.
    """
    return _games(library).listed()


def find_game(source: str) -> WrappedGame:
    """Return the game that a source such as `openspiel:hanabi` names, after trying it in this process.

    Raises:
        UsageError: Code `library_missing`, or `not_wrappable` with the reason.
    """
    games, game = named_game(source)
    return games.find(game)


def named_game(source: str) -> tuple[Any, str]:
    """Return the module with the games of a source's library, and the game's name; does not try the game.

    Raises:
        UsageError: Code `library_missing`, or `not_wrappable`: there is no such game.
    """
    library, _, game = source.partition(":")
    games = _games(library)
    everything = Hint("list_games", "list_wrappable({library!r}) has all names.", library=library)
    if not game:
        raise not_wrappable(source, "no game is named", hint=everything)
    name, known = game.partition("(")[0], games.names()
    if name not in known and not (library in OWN and is_own(name)):
        near = closest(name, known)
        hint = everything
        if near:
            hint = Hint(
                "near_game",
                "Did you mean {library}:{near}? list_wrappable({library!r}) has all names.",
                library=library,
                near=near,
            )
        raise not_wrappable(source, f"{LIBRARIES[library].title} has no such game", hint=hint)
    return games, game


def _games(library: str) -> Any:
    if library not in LIBRARIES:
        raise UsageError(
            f"{library!r} is not a library whose games can be wrapped.",
            code="not_wrappable",
            hint=f"There are {', '.join(LIBRARIES)}, as in {next(iter(LIBRARIES))}:NAME.",
        )
    imported(LIBRARIES[library].module)
    return import_module(f".{LIBRARIES[library].games}", __package__)
