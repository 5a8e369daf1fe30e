"""Playing from a seat of a game, with a player that is a function, a class or a session.

This package implements the player's end of `coworld.seat/1` for each form of player, without the client of a platform.
A player's container needs only `coworld_core`, websockets and this package.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
