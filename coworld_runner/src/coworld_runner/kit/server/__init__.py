"""Serves rules as a game: the runtime contract, with its routes, clocks, pages, results and replays.

This package contains everything between `coworld_core.rules` and the network, and no rules of any game. A game's
container needs coworld-core, websockets, anyio and this package, which imports neither backends nor the episode runner.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
