"""Loads players in any of their forms, for a seat at a websocket or a rollout in this process."""

from __future__ import annotations

import inspect
import os
import random
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import UsageError
from ..scopes import close_scope, load_alone, load_file, load_module
from .player_directories import checkpoint_of, player_entry
from .player_source import FORMS

__all__ = [
    "Act",
    "PlayerForm",
    "is_session",
    "load_player",
    "open_player",
    "player_in",
    "seated",
]

Act = Callable[[Any, Any, random.Random], Any | Awaitable[Any]] | Callable[[Any, Any, random.Random, Any], Any]
"""A player: `act(observation, legal, rng)` returns an action as JSON, or an awaitable of one. `legal` is the list of
legal actions, or None if the game does not list them. A player with a fourth argument, `talk`, hears other seats and
speaks to them (`SeatTalk`)."""

PlayerForm = Any
"""A function `act`; a class with `act` and optionally `start(hello)` and `over(over)`, instantiated for each game; or a
session, `async def play(seat)`."""


def is_session(player: PlayerForm) -> bool:
    """Whether a player is a session: an asynchronous function of one argument, its seat."""
    if not inspect.iscoroutinefunction(player):
        return False
    parameters = inspect.signature(player).parameters.values()
    return [parameter.kind for parameter in parameters if parameter.default is parameter.empty] in (
        [inspect.Parameter.POSITIONAL_OR_KEYWORD],
        [inspect.Parameter.POSITIONAL_ONLY],
    )


def seated(player: PlayerForm) -> Any:
    """The player for one game: a new instance if it is a class, otherwise the player itself."""
    return player() if inspect.isclass(player) else player


def load_player(name: str, *, alone: bool = False) -> PlayerForm:
    """Load a player by name: `bot.py`, `bot.py:act`, `./directory`, `package.module` or `package.module:act`.

    `./run` and `./run@NAME` are checkpoints of a training run (`player_directories`). A file may import what lies
    beside it. Each load of a file is independent: it shares no modules with other players, not even with the same file
    loaded before, and leaves `sys.path` as it is.

    Args:
        name: The player.
        alone: Whether the process is for this player alone. It is then loaded as its program, with its directory on
            `sys.path`.

    Raises:
        UsageError: If there is no such file, module or player. Errors raised by the module itself are passed on.
    """
    return player_in(_loaded(name, _file_of(name), alone=alone), name)


@contextmanager
def open_player(name: str) -> Generator[PlayerForm]:
    """Load a player as `load_player` does, and forget its modules at the end of the block."""
    file = _file_of(name)
    module = _loaded(name, file, alone=False)
    try:
        yield player_in(module, name)
    finally:
        # A module by name may be that of a caller in the same scope.
        if file is not None:
            close_scope(module)


def player_in(module: ModuleType, name: str) -> PlayerForm:
    """Return the player in a module that was loaded by name.

    Args:
        module: The module.
        name: As for `load_player`.

    Raises:
        UsageError: It has no such player.
    """
    place, _, named = name.partition(":")
    for form in (named,) if named else FORMS:
        found: Any = getattr(module, form, None)
        if callable(getattr(found, "act", None)) or (callable(found) and not inspect.isclass(found)):
            return found
    wanted = named or "act"
    raise UsageError(
        f"{place} has no function {wanted}(observation, legal, rng).",
        code="no_player",
        hint="A player is this function, a class Player with a method act, or async def play(seat).",
    )


def _file_of(name: str) -> Path | None:
    """The file that a player's name stands for; None if it is that of a module."""
    place = name.partition(":")[0]
    if place.endswith(".py"):
        return Path(place)
    if os.sep not in place and "@" not in place:
        return None
    if checkpoint := checkpoint_of(place):
        return player_entry(checkpoint.path)
    return player_entry(Path(place)) if Path(place).is_dir() else None


def _loaded(name: str, file: Path | None, *, alone: bool) -> ModuleType:
    place = name.partition(":")[0]
    if file is None:
        try:
            return load_alone(place) if alone else load_module(place)
        except ModuleNotFoundError as error:
            raise UsageError(f"There is no module {error.name!r} for {name!r}.", code="no_player") from error
    if not file.is_file():
        raise UsageError(f"There is no player at {place}.", code="no_player")
    return load_alone(str(file)) if alone else load_file(file)
