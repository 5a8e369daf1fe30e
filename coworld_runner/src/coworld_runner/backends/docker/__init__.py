"""The docker backend: containers of a Docker engine, each episode in networks of its own."""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
