"""Loads players in any of their forms, for a seat at a websocket or a rollout in this process."""

from __future__ import annotations

import ast
import inspect
import os
import random
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from ..errors import UsageError
from ..scopes import close_scope, load_alone, load_file, load_module
from ..text.phrases import listed
from .player_source import module_contents, player_form

__all__ = [
    "FORMS",
    "Act",
    "PlayerForm",
    "defines_player",
    "is_session",
    "load_player",
    "open_player",
    "player_entry",
    "player_in",
    "seated",
]

Act = Callable[[Any, Any, random.Random], Any | Awaitable[Any]]
"""A player: `act(observation, legal, rng)` returns an action as JSON, or an awaitable of one. `legal` is the list of
legal actions, or None if the game does not list them."""

FORMS: Final = ("act", "Player", "play")
"""Names under which a file may define its player; the first one found is used."""

ENTRIES: Final = ("main.py", "bot.py", "player.py")
"""Names by which the file of a directory's player is known."""

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

    A file may import what lies beside it. Each load of a file is independent: it shares no modules with other players,
    not even with the same file loaded before, and leaves `sys.path` as it is.

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


def player_entry(directory: Path) -> Path:
    """Return the file of a directory that is its player; what lies beside it belongs to the player, too.

    It is the only one of `main.py`, `bot.py` and `player.py`, or else the only file that defines a player in any of
    the forms.

    Raises:
        UsageError: There is none, or more than one.
    """
    files = sorted(entry for entry in directory.iterdir() if entry.suffix == ".py" and entry.is_file())
    found = [file for file in files if file.name in ENTRIES] or [file for file in files if defines_player(file)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(
            f"{directory} has no file that is its player: none is called {listed(ENTRIES, word='or')}, and none "
            f"defines {listed(FORMS, word='or')}.",
            code="player_not_runnable",
            hint="Give one of its files that name, or name a directory with a Dockerfile or a pyproject.toml.",
        )
    names = listed((f"{directory.name}/{file.name}" for file in found), limit=4, word="or")
    raise UsageError(
        f"{directory} has {len(found)} files that could be its player.",
        code="player_not_runnable",
        hint=f"Name the file: {names}.",
    )


def defines_player(file: Path) -> bool:
    """Whether a file of Python defines a player in one of the forms; it is not run."""
    try:
        names, _ = module_contents(ast.parse(file.read_bytes()))
    except (SyntaxError, ValueError, RecursionError):
        return False
    # One that is only imported has a file of its own
    defined = {name: by for name, by in names.items() if not isinstance(by, ast.ImportFrom)}
    return bool(player_form(defined))


def _file_of(name: str) -> Path | None:
    """The file that a player's name stands for; None if it is that of a module."""
    place = name.partition(":")[0]
    if place.endswith(".py"):
        return Path(place)
    if os.sep in place and Path(place).is_dir():
        return player_entry(Path(place))
    return None


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
