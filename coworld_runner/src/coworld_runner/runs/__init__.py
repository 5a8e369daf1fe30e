"""The parts that every run has, whatever it plays: a workspace, a scratch directory, events, unit files and a reaper.

Nothing in this package depends on what is played.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
