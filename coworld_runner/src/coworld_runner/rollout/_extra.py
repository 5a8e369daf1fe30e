"""What environments need beside the default install."""

from __future__ import annotations

from coworld_core.errors import UsageError

__all__ = ["env_missing"]


def env_missing(error: ModuleNotFoundError) -> UsageError:
    """What is said where a library of the extra `env` is not installed."""
    return UsageError(
        f"Environments need {error.name}, which is not installed.",
        code="env_missing",
        hint='Install it: pip install "coworld-runner[env]".',
    )
