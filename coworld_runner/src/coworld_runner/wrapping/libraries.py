"""The libraries whose games can be wrapped."""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import Any, Final

from coworld_core.errors import UsageError

__all__ = ["DISTRIBUTIONS", "imported", "requirement"]

DISTRIBUTIONS: Final = {"pyspiel": "open_spiel"}
"""The name by which each module is installed."""


def imported(module: str) -> Any:
    """The module of a library.

    Raises:
        UsageError: Code `library_missing`: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        distribution = DISTRIBUTIONS[module]
        raise UsageError(
            f"This needs {distribution}, which is not installed.",
            code="library_missing",
            hint=f"Install it where coworld is: pip install {distribution}.",
        ) from error


def requirement(module: str) -> str:
    """The library as it is installed here, for `pip install`: with its version, so that the game stays the same."""
    distribution = DISTRIBUTIONS[module]
    return f"{distribution}=={importlib.metadata.version(distribution)}"
