"""Runs Coworlds: backends behind one contract, and everything that runs on them.

Names are imported when they are first used, so `import coworld_runner` costs almost nothing.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
