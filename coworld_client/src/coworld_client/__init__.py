"""Talking to a Coworld platform.

The client itself arrives with the platform's commands; until then this distribution holds its name, its place in the
layering (it may import ``coworld_core`` and nothing else of ours) and its version.
"""

from __future__ import annotations

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("coworld-client")
