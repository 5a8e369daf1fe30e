"""Gates: a version of a bot is measured against its last accepted one and its opponents, and accepted or rejected.

Here is what is played, and what a folder of bots keeps of it; `coworld_core.evaluation` decides. Everything is measured
by `compare` and `scrimmage`, and nothing here plays an episode itself.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
