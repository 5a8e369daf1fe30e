"""Measures players by playing the blocks of a design as episodes until there is enough evidence.

`many` plays the episodes and `coworld_core.evaluation` analyses them. This package connects the two: it plans
episodes for lineups, decides what to play next, and keeps the files of a run.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
