"""Presigned links expire: when one has expired, request a fresh link once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..errors import ApiStatusError, LinkExpired, NotFound

__all__ = ["web_link", "with_fresh_link"]

_L = TypeVar("_L")
_T = TypeVar("_T")

_RUN_OUT = frozenset({400, 401, 403, 410})
"""Statuses for an expired link; storage providers differ."""
_STALE = _RUN_OUT | {404, 412}
"""The same, and statuses for a file that has been moved or replaced."""


def web_link(text: str | None) -> str | None:
    """Return the text if it is an http or https URL, else None."""
    return text if text and text.startswith(("http://", "https://")) else None


async def with_fresh_link(
    use: Callable[[_L], Awaitable[_T]], link: _L, renew: Callable[[], Awaitable[_L | None]], *, what: str
) -> _T:
    """Use a link; if storage refuses it, request a fresh one and use that.

    Args:
        use: Uses a link.
        link: The link at hand.
        renew: Requests a fresh link from the API; returns None if there is none.
        what: A noun for the linked file in messages, such as "replay".

    Raises:
        LinkExpired: The link has expired, and the fresh one is refused too or there is none.
        ApiStatusError: Storage refused for another reason, such as a missing file.
    """
    try:
        return await use(link)
    except ApiStatusError as error:
        if error.status not in _STALE:
            raise
        refused = error
    try:
        fresh = await renew()
    except NotFound:
        fresh = None
    if fresh is None:
        raise _expired(refused, what, "and the API gives no other") from None
    try:
        return await use(fresh)
    except ApiStatusError as error:
        if error.status not in _STALE or refused.status not in _RUN_OUT:
            raise
        raise _expired(refused, what, f"and to a fresh one {_status_text(error)}") from None


def _status_text(error: ApiStatusError) -> str:
    return f"{error.status} ({str(error.detail).rstrip('.')})" if error.detail else str(error.status)


def _expired(error: ApiStatusError, what: str, then: str) -> ApiStatusError:
    if error.status not in _RUN_OUT:
        return error
    return LinkExpired(
        f"The link to the {what} has expired: storage answered {_status_text(error)}, {then}.",
        status=error.status,
        detail=error.detail,
        request_id=error.request_id,
        type=error.type,
    )
