"""The data of one episode: its request, its events, its faults, and the files it leaves.

Nothing here plays an episode; `coworld_runner.episode` does.
"""

from ..lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
