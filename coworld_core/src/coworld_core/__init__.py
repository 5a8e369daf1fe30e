"""The data model of a Coworld: manifest, episode, results, events and errors, as typed values and rules.

Nothing here opens a socket. Names are imported on first use, so `import coworld_core` costs next to nothing.
"""

from .lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
