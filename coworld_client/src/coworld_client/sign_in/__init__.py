"""Signing in, tokens, and the file on this machine that stores them."""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
