"""When to try again, how long to wait before, and when it is enough. No clock is waited for here: callers sleep.

Callers say which failures are temporary, ask ``Tries.again`` after each one, and sleep as long as it says::

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
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

__all__ = ["Backoff", "Tries", "retry_after", "says_later"]

_LATER = frozenset({408, 425, 429, 502, 503, 504})
"""Said of this moment alone, before anything was done or by somebody in front of the server."""
_LASTING = frozenset({501, 505, 511})
"""Failures of a server that stay what they are."""
_YEAR = 366 * 86400.0
_APART = 0.25
"""Seconds over which those are spread who were all told the same time to come back."""


def says_later(status: int, *, repeatable: bool = True) -> bool:
    """Whether an HTTP status means that the same request may go better another time.

    Args:
        status: The answer's status.
        repeatable: Whether doing it twice does no more than doing it once. Otherwise a 500, and whatever else a
            server says when it broke off in the middle, may have left half of it behind, and is an answer.
    """
    return status in _LATER or (repeatable and status >= 500 and status not in _LASTING)


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that a ``Retry-After`` header asks to wait, from 0 to a year; None without one that can be read.

    Args:
        headers: The answer's headers, by their names in lower case or in a mapping that minds no case.
        now: What a date counts from, when the server does not tell the time itself; None: this machine's clock.
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
        # by the server's own clock, where it tells the time
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
    """Pauses between tries: random, below a bound that doubles, so that many who failed do not come back as one."""

    base: float = 0.5
    """Bound of the first pause in seconds."""
    cap: float = 8.0
    """Largest bound in seconds."""
    longest_wait: float = 60.0
    """Longest ``Retry-After`` that is waited for, in seconds; a longer one is the caller's to decide about."""
    draw: Callable[[], float] = field(default=random.random, repr=False, compare=False)
    """Gives random numbers from 0 to 1."""

    def pause(self, attempt: int, asked: float | None = None) -> float | None:
        """Seconds to wait after a try, or None to give up.

        Args:
            attempt: Which try has failed, from 0.
            asked: What the server asked for; it is obeyed, with a little on top.
        """
        if asked is None:
            return self._own(attempt)
        return asked + self.draw() * min(self._bound(attempt), _APART) if asked <= self.longest_wait else None

    def pauses(self) -> Iterator[float]:
        """The seconds of one pause after another, without end."""
        attempt = 0
        while True:
            yield self._own(attempt)
            attempt += 1

    def _own(self, attempt: int) -> float:
        # never below half the bound: one that is away is not helped by being asked at once
        return self._bound(attempt) * (1 + self.draw()) / 2

    def _bound(self, attempt: int) -> float:
        return min(self.cap, self.base * 2.0 ** min(attempt, 30))


class Tries:
    """The tries of one thing: how many have failed, and whether there is to be another.

    Args:
        backoff: The pauses between them.
        most: How many there may be; None: any number.
        patience: Seconds after which no more is begun, from now; None: no end. The last is made at that moment.
        clock: Tells seconds.

    Attributes:
        failures: How many have failed since the beginning, or since one got further.
    """

    def __init__(
        self,
        backoff: Backoff,
        *,
        most: int | None = None,
        patience: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.failures = 0
        self._backoff = backoff
        self._most = most
        self._patience = patience
        self._clock = clock
        self._begun = clock()

    def again(self, asked: float | None = None) -> float | None:
        """Count a failure; returns the seconds to wait before the next try, or None when it was the last.

        Args:
            asked: What the server asked for. One that asks for longer than there is left is not tried again.
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
        """Start over with all tries and all patience, because the failed try made progress."""
        self.failures = 0
        self._begun = self._clock()
