"""Runs the user's own games and players on this machine, while the user develops them or tries them out.

Implements `coworld game serve`, `coworld game join` and `coworld dev` with local processes. Keeps no episode record and
assigns no blame.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
