"""Downloads from a platform: single files, files of many episodes, and episode bundles."""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
