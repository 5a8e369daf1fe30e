"""What is done with an episode after it has ended: its bundle, which programs that look at episodes get.

An episode is played elsewhere, and nothing here changes what it has left.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
