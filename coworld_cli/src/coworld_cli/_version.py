"""The version of this distribution."""

from __future__ import annotations

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("coworld-cli")
