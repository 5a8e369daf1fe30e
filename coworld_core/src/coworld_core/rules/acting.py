"""A player as one function, whoever asks it: a seat at a websocket, or a rollout in the same process."""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from ..errors import UsageError

__all__ = ["Act", "load_act"]

Act = Callable[[Any, Any, random.Random], Any | Awaitable[Any]]
"""A player: `act(observation, legal, rng)` returns an action as JSON, or awaits one. `legal` is the list of legal
actions, or None where the game does not list them."""


def load_act(name: str) -> Act:
    """The function that a name means: `bot.py`, `bot.py:act`, `package.module` or `package.module:act`.

    Raises:
        UsageError: There is no such file, module or function. Whatever the module itself raises comes through.
    """
    place, _, function = name.partition(":")
    function = function or "act"
    if place.endswith(".py"):
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
    else:
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise UsageError(f"There is no module {error.name!r} for {name!r}.", code="no_player") from error
    found = getattr(module, function, None)
    if not callable(found):
        raise UsageError(f"{place} has no function {function}(observation, legal, rng).", code="no_player")
    return cast("Act", found)
