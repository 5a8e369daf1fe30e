"""Loads players in any of their forms, for a seat at a websocket or a rollout in this process."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from ..errors import UsageError

__all__ = ["FORMS", "Act", "PlayerForm", "is_session", "load_player", "seated"]

Act = Callable[[Any, Any, random.Random], Any | Awaitable[Any]]
"""A player: `act(observation, legal, rng)` returns an action as JSON, or an awaitable of one. `legal` is the list of
legal actions, or None if the game does not list them."""

FORMS: Final = ("act", "Player", "play")
"""Names under which a file may define its player; the first one found is used."""

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


def load_player(name: str) -> PlayerForm:
    """Load a player by name: `bot.py`, `bot.py:act`, `package.module` or `package.module:act`.

    Raises:
        UsageError: If there is no such file, module or player. Errors raised by the module itself are passed on.
    """
    place, _, named = name.partition(":")
    module = _loaded(place, name)
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


def _loaded(place: str, name: str) -> ModuleType:
    if not place.endswith(".py"):
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise UsageError(f"There is no module {error.name!r} for {name!r}.", code="no_player") from error
    path = Path(place).resolve()
    if not path.is_file():
        raise UsageError(f"There is no player at {place}.", code="no_player")
    # The player may import modules from its own directory.
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
