"""What can be wrapped: the games of libraries by name, and why others cannot."""

from __future__ import annotations

import random
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from coworld_core.errors import UsageError

from .libraries import imported
from .openspiel import load_game, pass_chance

__all__ = ["LIBRARIES", "Wrappable", "WrappedGame", "find_game", "list_wrappable"]

LIBRARIES: Final = {"openspiel": "pyspiel"}
"""The name of each library in a source, and its module."""


@dataclass(frozen=True, kw_only=True)
class Wrappable:
    """A game of a library.

    Attributes:
        source: How `coworld wrap` is told of it: `openspiel:hanabi`.
        title: Its name for people.
        refused: Why it cannot be wrapped; None where it can.
    """

    source: str
    title: str
    refused: str | None = None


@dataclass(frozen=True, kw_only=True)
class WrappedGame:
    """What a package says of a game.

    Attributes:
        library: The name of its library in a source.
        game: Its name in the library, with parameters.
        title: Its name for people.
        default_seats: How many seats it has if nothing is said.
        seats: The least.
        most_seats: The most.
        hidden: Whether a seat does not see everything, or several move at once.
        live_scores: Whether scores mean something before the end.
    """

    library: str
    game: str
    title: str
    default_seats: int
    seats: int
    most_seats: int
    hidden: bool
    live_scores: bool

    @property
    def short_name(self) -> str:
        """The name without parameters."""
        return self.game.partition("(")[0]


def list_wrappable(library: str) -> list[Wrappable]:
    """All games of a library.

    Raises:
        UsageError: It is none that can be wrapped, or is not installed.
    """
    spiel = imported(_module(library))
    found: list[Wrappable] = []
    for kind in sorted(spiel.registered_games(), key=lambda kind: kind.short_name):
        refused = None if kind.default_loadable else _needs(kind)
        found.append(
            Wrappable(source=f"{library}:{kind.short_name}", title=kind.long_name, refused=refused or _unsuited(kind))
        )
    return found


def find_game(source: str) -> WrappedGame:
    """The game that a source such as `openspiel:hanabi` names.

    Raises:
        UsageError: Code `library_missing`, or `not_wrappable` with the reason.
    """
    library, _, game = source.partition(":")
    spiel = imported(_module(library))
    if not game:
        raise _not(source, "no game is named", hint=f"`coworld wrap --list {library}` has all names.")
    name = game.partition("(")[0]
    if name not in spiel.registered_names():
        raise _not(source, "OpenSpiel has no such game", hint=f"`coworld wrap --list {library}` has all names.")
    try:
        with _quiet():
            kind, loaded = load_game(game)
    except ValueError as error:
        raise _not(source, str(error), hint="Parameters are given as in openspiel:hanabi(colors=3).") from None
    if reason := _unsuited(kind):
        raise _not(source, reason)
    default = loaded.num_players()
    least = most = default
    with _quiet():
        # Beyond what it says of itself, a game may end the whole process.
        while least > kind.min_num_players and _playable(game, least - 1):
            least -= 1
        while most < kind.max_num_players and _playable(game, most + 1):
            most += 1
    return WrappedGame(
        library=library,
        game=game,
        title=kind.long_name,
        default_seats=default,
        seats=least,
        most_seats=most,
        hidden=_enum(kind.information) != "PERFECT_INFORMATION" or _enum(kind.dynamics) != "SEQUENTIAL",
        live_scores=_enum(kind.reward_model) == "REWARDS",
    )


def _module(library: str) -> str:
    if library not in LIBRARIES:
        raise UsageError(
            f"{library!r} is no library whose games can be wrapped.",
            code="not_wrappable",
            hint=f"There are {', '.join(LIBRARIES)}: coworld wrap {next(iter(LIBRARIES))}:NAME.",
        )
    return LIBRARIES[library]


def _not(source: str, reason: str, *, hint: str | None = None) -> UsageError:
    return UsageError(f"{source} cannot be wrapped: {reason}.", code="not_wrappable", hint=hint)


def _unsuited(kind: Any) -> str | None:
    if _enum(kind.dynamics) == "MEAN_FIELD":
        return "it is about a whole population, and has no players"
    if kind.short_name == "crossword":
        return "it does not list its moves"
    if not (kind.provides_observation_string or kind.provides_information_state_string):
        return "it does not say in words what a seat sees"
    return None


def _needs(kind: Any) -> str:
    return f"its parameters must be given: openspiel:{kind.short_name}(NAME=VALUE)"


def _playable(game: str, seats: int) -> bool:
    """Whether a game of that many seats can be loaded, and begun."""
    try:
        _, loaded = load_game(game, seats)
        pass_chance(loaded.new_initial_state(), random.Random(1))
    except (ValueError, imported("pyspiel").SpielError):
        return False
    return True


def _enum(value: Any) -> str:
    return re.split(r"[.:]", str(value))[-1].strip("<>").split(":")[0]


@contextmanager
def _quiet() -> Generator[None]:
    """OpenSpiel writes what it cannot load to the standard error stream, besides raising it."""
    import os

    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
