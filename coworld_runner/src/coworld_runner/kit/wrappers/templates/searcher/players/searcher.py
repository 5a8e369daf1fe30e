"""Plays every move out at random a few times, and makes the one with the best results."""

import random
from typing import Any

from coworld_runner.kit.wrappers import play_on

PLAYOUTS = 60
"""Games to play out for one answer; at least one for each move."""


def act(observation: Any, legal: Any, rng: random.Random) -> Any:
    """Return the move with the best results."""
    game, history = observation["game"], observation["history"]
    each = max(1, PLAYOUTS // len(legal))
    totals = [sum(play_on(game, history, move, rng) for _ in range(each)) for move in legal]
    return legal[totals.index(max(totals))]
