"""Errors of the runner, and codes that attribute errors and exits; further errors are in `coworld_core.errors`."""

from __future__ import annotations

from coworld_core.errors import CoworldError, UsageError, leaves, unwrapped

__all__ = ["OWN_DOING", "PLATFORM_ENDS", "BuildError", "TalkError", "extra_missing", "leaves", "unwrapped"]

OWN_DOING = ("program_missing", "no_command", "command_failed", "image_absent", "port_taken")
"""Codes of a `StartError` that the unit to start caused itself."""
PLATFORM_ENDS = ("evicted", "lost", "timeout")
"""Ends of a unit (`Exit.reason`) that its platform caused."""


class BuildError(CoworldError):
    """An image could not be built from its Dockerfile, or its context could not be sent.

    `context` holds the `service`, the `step` that failed, and the last lines of its output as `log_tail`.
    """

    kind = "answer"
    default_code = "build_failed"


class TalkError(CoworldError):
    """A program that serves requests has not done its part; the code is the type of its fault, as in `ErrorType`."""

    kind = "answer"
    default_code = "program_error"


def extra_missing(needs: str, library: str, *, extra: str, code: str) -> UsageError:
    """Return the error for a library of an extra that is not installed.

    Args:
        needs: What needs it: `Metrics need`.
        library: Its name.
        extra: The extra of this package that brings it.
        code: The error's code.
    """
    return UsageError(
        f"{needs} {library}, which is not installed.",
        code=code,
        hint=f'Install it: pip install "coworld-runner[{extra}]".',
    )
