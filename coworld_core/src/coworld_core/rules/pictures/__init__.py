"""Pictures of games, made of blocks: what `Rules.draw` returns, with shapes that people click."""

from ...lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
