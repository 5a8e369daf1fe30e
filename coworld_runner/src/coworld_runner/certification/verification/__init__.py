"""Verification: whether a run is what its record says, by its files, its signature, and playing it again.

Nothing that comes with a run is executed.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
