"""Files: written whole or not at all, and compressed data of others, read within limits."""

from ..lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
