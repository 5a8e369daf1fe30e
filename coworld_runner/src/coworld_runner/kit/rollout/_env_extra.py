"""The error for a missing library that environments need."""

from __future__ import annotations

from coworld_core.errors import UsageError

__all__ = ["env_missing"]


def env_missing(error: ModuleNotFoundError) -> UsageError:
    """Return the error for a library of the extra `env` that is not installed."""
    return UsageError(
        f"Environments need {error.name}, which is not installed.",
        code="env_missing",
        hint='Install it: pip install "coworld-runner[env]".',
    )
