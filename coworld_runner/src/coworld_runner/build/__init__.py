"""Builds the images of a package, and the manifest that names them by content."""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
