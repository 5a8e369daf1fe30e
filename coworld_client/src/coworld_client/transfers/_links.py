"""Links that need no token are good for a while: one that has run out is asked for again, once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..errors import ApiStatusError, LinkExpired, NotFound

__all__ = ["web_link", "with_fresh_link"]

_L = TypeVar("_L")
_T = TypeVar("_T")

_RUN_OUT = frozenset({400, 401, 403, 410})
"""How storage answers when a link has run out; which of them depends on whose storage it is."""
_STALE = _RUN_OUT | {404, 412}
"""... or when what it led to has been moved or replaced."""


def web_link(text: str | None) -> str | None:
    """A text, if it is an address on the web."""
    return text if text and text.startswith(("http://", "https://")) else None


async def with_fresh_link(
    use: Callable[[_L], Awaitable[_T]], link: _L, renew: Callable[[], Awaitable[_L | None]], *, what: str
) -> _T:
    """Use a link; when storage refuses it, ask for a fresh one and use that.

    Args:
        use: What to do with a link.
        link: The one that is at hand.
        renew: Asks the API for another; None when there is no other.
        what: What it leads to, for the message: "replay".

    Raises:
        LinkExpired: Storage refuses the fresh one too, or there is none.
        ApiStatusError: It is refused for another reason: what it led to is not there.
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
        raise _expired(refused, what, f"and to a fresh one {_words(error)}") from None


def _words(error: ApiStatusError) -> str:
    return f"{error.status} ({str(error.detail).rstrip('.')})" if error.detail else str(error.status)


def _expired(error: ApiStatusError, what: str, then: str) -> ApiStatusError:
    if error.status not in _RUN_OUT:
        return error
    return LinkExpired(
        f"The link to the {what} has run out: storage answered {_words(error)}, {then}.",
        status=error.status,
        detail=error.detail,
        request_id=error.request_id,
        type=error.type,
    )
