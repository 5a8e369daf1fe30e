"""Compose files, Dockerfiles and build contexts.

Backends, packages and builds use this package; it uses none of them.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
