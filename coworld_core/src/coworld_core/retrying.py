"""When to retry, how long to wait first, and when to give up. Nothing here sleeps: callers do.

Callers decide which failures are temporary, call ``Tries.again`` after each one, and sleep as long as it returns::

    tries = Tries(Backoff(), most=5)
    while True:
        try:
            return await once()
        except Refused as error:
            pause = tries.again(error.retry_after) if says_later(error.status) else None
            if pause is None:
                raise
        await anyio.sleep(pause)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import overload

__all__ = ["Backoff", "Tries", "retry_after", "says_later"]

_LATER = frozenset({408, 425, 429, 502, 503, 504})
"""Temporary statuses, sent before the request was processed or by a proxy in front of the server."""
_LASTING = frozenset({501, 505, 511})
"""Server errors that are permanent."""
_YEAR = 366 * 86400.0
_APART = 0.25
"""Seconds over which to spread clients that were all told to return at the same time."""


def says_later(status: int, *, repeatable: bool = True) -> bool:
    """Whether an HTTP status means that the same request may succeed later.

    Args:
        status: The answer's status.
        repeatable: Whether the request is idempotent. If not, statuses such as 500 are final: the server may have
            failed halfway through the request.
    """
    return status in _LATER or (repeatable and status >= 500 and status not in _LASTING)


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that a ``Retry-After`` header asks to wait, from 0 to a year; None without a valid header.

    Args:
        headers: The answer's headers, with lower-case names or in a case-insensitive mapping.
        now: The current time, for a header that holds a date, if the server does not send its own time; None: read
            from this machine's clock.
    """
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        when = _date(value)
        if when is None:
            return None
        # prefer the server's own clock, if it sends the time
        seconds = (when - (_date(headers.get("date", "")) or now or datetime.now(UTC))).total_seconds()
    if seconds != seconds:  # not a number
        return None
    return min(max(0.0, seconds), _YEAR)


def _date(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime

    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """Pauses between tries: random, below a bound that doubles, so that clients that failed together spread out."""

    base: float = 0.5
    """Bound of the first pause in seconds."""
    cap: float = 8.0
    """Largest bound in seconds."""
    longest_wait: float = 60.0
    """Longest ``Retry-After`` to wait for, in seconds; with a longer one, ``pause`` gives up."""
    draw: Callable[[], float] = field(default=random.random, repr=False, compare=False)
    """Returns random numbers from 0 to 1."""

    def pause(self, attempt: int, asked: float | None = None) -> float | None:
        """Seconds to wait after a failed try, or None to give up.

        Args:
            attempt: Index of the failed try, from 0.
            asked: Seconds the server asked to wait; the pause is this plus a small random amount.
        """
        if asked is None:
            return self._own(attempt)
        return asked + self.draw() * min(self._bound(attempt), _APART) if asked <= self.longest_wait else None

    def pauses(self) -> Iterator[float]:
        """Yield the seconds of each successive pause, endlessly."""
        attempt = 0
        while True:
            yield self._own(attempt)
            attempt += 1

    def _own(self, attempt: int) -> float:
        # never below half the bound: a server that is down gains nothing from an immediate retry
        return self._bound(attempt) * (1 + self.draw()) / 2

    def _bound(self, attempt: int) -> float:
        return min(self.cap, self.base * 2.0 ** min(attempt, 30))


class Tries:
    """Counts the failed tries of one operation, and decides whether to try again.

    Args:
        backoff: The pauses between tries.
        most: Maximum number of tries; None: any number.
        patience: Seconds from now, or from the last progress, during which to retry; None: no limit. The last try is
            made when they end.
        clock: Returns the time in seconds, by the clock that the caller sleeps by (``anyio.current_time``).

    Attributes:
        failures: Number of failures since the beginning, or since the last progress.
    """

    @overload
    def __init__(self, backoff: Backoff, *, most: int | None = None) -> None: ...

    @overload
    def __init__(
        self, backoff: Backoff, *, most: int | None = None, patience: float | None, clock: Callable[[], float]
    ) -> None: ...

    def __init__(
        self,
        backoff: Backoff,
        *,
        most: int | None = None,
        patience: float | None = None,
        # without patience, the time does not matter
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.failures = 0
        self._backoff = backoff
        self._most = most
        self._patience = patience
        self._clock = clock
        self._begun = clock()

    def again(self, asked: float | None = None) -> float | None:
        """Count a failure; return the seconds to wait before the next try, or None to give up.

        Args:
            asked: Seconds the server asked to wait. If that is more than is left of ``patience``, give up.
        """
        self.failures += 1
        if self._most is not None and self.failures >= self._most:
            return None
        pause = self._backoff.pause(self.failures - 1, asked)
        if pause is None or self._patience is None:
            return pause
        left = self._begun + self._patience - self._clock()
        if left <= 0 or (asked is not None and asked > left):
            return None
        return min(pause, left)

    def got_further(self) -> None:
        """Reset the count of failures and the patience, because the failed try made progress."""
        self.failures = 0
        self._begun = self._clock()
