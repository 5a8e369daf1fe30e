"""One controller for the episodes of this machine: it starts them, finds those of other processes, and stops both.

Nothing here knows how an episode is played (`episode`) or what its files say (`records`).
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
