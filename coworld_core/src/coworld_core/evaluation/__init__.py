"""Measuring players: the lineups (designs), which blocks count (judging), and which conclusions hold.

Pure functions over the rows of `episodes.jsonl`: the same rows always give the same answer. Nothing
here plays an episode (`coworld_runner.evaluation` does) or draws a table.
"""

from ..lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
