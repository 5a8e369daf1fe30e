"""Plays any action that the game's type of actions allows: the first opponent."""

import random
from typing import Any

from coworld_core.rules import action_schema, load_rules
from coworld_runner.package.random_player import sample

SCHEMA = action_schema(load_rules("newgame:NewGame"))


def act(observation: Any, legal: Any, rng: random.Random) -> Any:
    """Return numbers within their bounds."""
    return sample(SCHEMA, rng)
