"""Tries every move in random playouts if nothing is hidden; otherwise practises before its first move."""

from functools import cache

from coworld_core.rules import load_rules
from coworld_runner.kit.wrappers import Practised, load_game, play_on

PLAYOUTS = 60
"""Number of playouts for one turn, shared among the legal moves."""


def act(observation, legal, rng):
    """Make the move with the best result in playouts or practice."""
    game, history = observation["game"], observation["history"]
    if history is None or game.startswith("goofspiel"):
        return practised(game).act(observation, legal, rng)
    each = max(1, PLAYOUTS // len(legal))
    totals = [sum(play_on(game, history, move, rng) for _ in range(each)) for move in legal]
    return legal[totals.index(max(totals))]


@cache
def practised(game):
    """Return a player that has practised a game."""
    seats = load_game(game)[1].num_players()
    return Practised(load_rules("board:Board"), config={"game": game}, seats=seats)
