"""Practises against itself before its first answer, then plays the moves that scored best."""

import random
from typing import Any

from coworld_core.rules import load_rules
from coworld_runner.kit.wrappers import Practised

PLAYER = Practised(load_rules("newgame:NewGame"))


def act(observation: Any, legal: Any, rng: random.Random) -> Any:
    """Return the move that scored best in practice."""
    return PLAYER.act(observation, legal, rng)
