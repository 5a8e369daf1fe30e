"""Improves players: a program changes a player's files, and a comparison decides whether the change is kept.

Here is the loop, and what it keeps on disk; the programs are roles, and the comparisons evaluations.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
