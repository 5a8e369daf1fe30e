"""Commissioners: the messages between a commissioner and its host, and their validation.

This package is independent of tournaments and opens no connections; `coworld_runner.evaluation.commissioner` does.
"""

from ..lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
