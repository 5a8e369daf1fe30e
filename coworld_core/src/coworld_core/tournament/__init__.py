"""Tournaments: the events of a log, pairings, and standings as pure functions of both.

Nothing here plays an episode or writes a file (`coworld_runner.evaluation.tournament` does).
"""

from ..lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
