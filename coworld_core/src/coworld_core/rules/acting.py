"""A player in whichever form it is written, whoever asks it: a seat at a websocket, or a rollout in this process."""

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
"""A player: `act(observation, legal, rng)` returns an action as JSON, or awaits one. `legal` is the list of legal
actions, or None where the game does not list them."""

FORMS: Final = ("act", "Player", "play")
"""What a file may call its player; the first that it has counts."""

PlayerForm = Any
"""A function `act`; a class with `act`, which may have `start(hello)` and `over(over)` too and is made anew for each
game; or a session, `async def play(seat)`."""


def is_session(player: PlayerForm) -> bool:
    """Whether a player is an asynchronous function of one argument, its seat: it speaks for itself."""
    if not inspect.iscoroutinefunction(player):
        return False
    parameters = inspect.signature(player).parameters.values()
    return [parameter.kind for parameter in parameters if parameter.default is parameter.empty] in (
        [inspect.Parameter.POSITIONAL_OR_KEYWORD],
        [inspect.Parameter.POSITIONAL_ONLY],
    )


def seated(player: PlayerForm) -> Any:
    """A player for one game: an object with `act`, which is new where the player is a class."""
    return player() if inspect.isclass(player) else player


def load_player(name: str) -> PlayerForm:
    """The player that a name means: `bot.py`, `bot.py:act`, `package.module` or `package.module:act`.

    Raises:
        UsageError: There is no such file, module or player. Whatever the module itself raises comes through.
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
        hint="A player is that, a class Player with a method act, or async def play(seat).",
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
    # Beside it may be what it imports.
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
