"""Which API calls may be retried."""

from __future__ import annotations

from coworld_core.retrying import Backoff, says_later

from ..errors import ApiConnectionError, ApiError, ApiStatusError

__all__ = ["IDEMPOTENT", "Backoff", "worth_retrying"]

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
"""Methods whose repetition has no further effect."""


def worth_retrying(error: ApiError, method: str, *, keyed: bool) -> bool:
    """Whether a call may be retried after an error.

    Args:
        error: The error.
        method: The HTTP method.
        keyed: Whether the call carries an idempotency key.
    """
    repeatable = method in IDEMPOTENT
    if isinstance(error, ApiConnectionError):
        return not error.sent or keyed or repeatable
    if not isinstance(error, ApiStatusError):
        return False
    if repeatable or keyed:
        return says_later(error.status, repeatable=repeatable)
    return error.rejected and error.status == 429
