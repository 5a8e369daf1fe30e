"""Tournaments in a folder: `tournament.toml` has the settings, `events.ndjson` is the log of what has happened.

The evidence of each episode is stored under `episodes`. `coworld_core.tournament` computes the standings from the
log.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
