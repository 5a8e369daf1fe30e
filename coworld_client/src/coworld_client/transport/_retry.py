"""Which calls of the API may be made again."""

from __future__ import annotations

from coworld_core.retrying import Backoff, says_later

from ..errors import ApiConnectionError, ApiStatusError

__all__ = ["IDEMPOTENT", "Backoff", "worth_retrying"]

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
"""Methods that do no more when they are done twice."""


def worth_retrying(error: ApiConnectionError | ApiStatusError, method: str, *, keyed: bool) -> bool:
    """Whether the same call may be made again.

    Args:
        error: What happened.
        method: The HTTP method.
        keyed: Whether the call carries an idempotency key.
    """
    repeatable = method in IDEMPOTENT
    if isinstance(error, ApiConnectionError):
        return not error.sent or keyed or repeatable
    if repeatable or keyed:
        return says_later(error.status, repeatable=repeatable)
    return error.rejected and error.status == 429
