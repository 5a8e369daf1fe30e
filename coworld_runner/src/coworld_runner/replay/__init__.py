"""Replays: finding them, showing them with the game that wrote them, and checking them."""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
