"""Hosts commissioners: starts their program on a backend and talks to it over a websocket.

`coworld_core.commissioner` parses their messages; this package does not interpret them.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
