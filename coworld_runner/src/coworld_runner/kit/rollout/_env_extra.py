"""The error for a missing library that environments need."""

from __future__ import annotations

from coworld_core.errors import UsageError

from ...errors import extra_missing

__all__ = ["env_missing"]


def env_missing(error: ModuleNotFoundError) -> UsageError:
    """Return the error for a library of the extra `env` that is not installed."""
    return extra_missing("Environments need", str(error.name), extra="env", code="env_missing")
