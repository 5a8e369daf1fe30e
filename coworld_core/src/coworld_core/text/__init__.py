"""Text for people: names and counts in sentences, sizes, tables, addresses without secrets, output safe to print."""

from ..lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
