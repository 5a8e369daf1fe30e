"""The places units run in; each is imported on first use, so that none costs anything until it is wanted."""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
