"""Finds a package and reads its manifest, its sources and its replay viewer."""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
