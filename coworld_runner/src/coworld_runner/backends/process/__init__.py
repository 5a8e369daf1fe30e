"""The process backend: programs on this machine, each below a shim that dies with the runner."""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
