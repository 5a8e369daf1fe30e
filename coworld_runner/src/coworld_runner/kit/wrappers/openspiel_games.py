"""Lists the games of OpenSpiel, and says why some cannot be wrapped."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from .libraries import imported
from .openspiel import load_game, pass_chance
from .wrappable import Wrappable, WrappedGame, not_wrappable

__all__ = ["find", "listed", "names"]


def names() -> list[str]:
    """Return the names of all games."""
    return imported("pyspiel").registered_names()


def listed() -> list[Wrappable]:
    """Return all games, with the reason for each that cannot be wrapped."""
    found: list[Wrappable] = []
    for kind in sorted(imported("pyspiel").registered_games(), key=lambda kind: kind.short_name):
        refused = None if kind.default_loadable else _needs(kind)
        source = f"openspiel:{kind.short_name}"
        found.append(Wrappable(source=source, title=kind.long_name, refused=refused or _unsuited(kind)))
    return found


def find(game: str) -> WrappedGame:
    """Return one game, given its name with parameters if there are any.

    Raises:
        UsageError: Code `not_wrappable` with the reason.
    """
    source = f"openspiel:{game}"
    try:
        with _quiet():
            kind, loaded = load_game(game)
    except ValueError as error:
        raise not_wrappable(source, str(error), hint="Parameters are given as in openspiel:hanabi(colors=3).") from None
    if reason := _unsuited(kind):
        raise not_wrappable(source, reason)
    default = loaded.num_players()
    least = most = default
    with _quiet():
        # Stay within the range that the game declares: beyond it, the library may end the whole process.
        while least > kind.min_num_players and _playable(game, least - 1):
            least -= 1
        while most < kind.max_num_players and _playable(game, most + 1):
            most += 1
    hidden = _enum(kind.information) != "PERFECT_INFORMATION" or _enum(kind.dynamics) != "SEQUENTIAL"
    return WrappedGame(
        library="openspiel",
        game=game,
        title=kind.long_name,
        default_seats=default,
        seats=least,
        most_seats=most,
        live_scores=_enum(kind.reward_model) == "REWARDS",
        second="practised" if hidden else "searcher",
    )


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
    """Whether a game can be loaded and started with this number of seats."""
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
    """Silence the standard error stream, to which OpenSpiel also writes the errors that it raises."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
