"""Pending messages of a connection: only the newest state is kept, so that a slow reader costs nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import anyio

__all__ = ["MAX_NOTICES", "Outbox"]

MAX_NOTICES: Final = 8
"""Maximum number of notices waiting for one connection; further ones are dropped."""


class Outbox:
    """The pending messages of one connection, filled without ever waiting.

    Notices (a greeting, replies) are kept in order, up to `MAX_NOTICES`. An unsent state is replaced by the next one.
    After `finish` nothing more is accepted.

    Attributes:
        at_once: Sends the pending messages without waiting, and returns whether it did. If it did not, or is None,
            messages stay until they are taken.
    """

    def __init__(self) -> None:
        self.at_once: Callable[[], bool] | None = None
        self._state: str | None = None
        self._taken: Callable[[], None] | None = None
        self._notices: deque[str] = deque()
        self._filled = anyio.Event()
        self._reason: str | None = None

    @property
    def close_reason(self) -> str | None:
        """Why the connection closes once everything is sent; None while it stays open."""
        return self._reason

    def put(self, state: str, taken: Callable[[], None] | None = None) -> None:
        """Make `state` the next state to send; `taken` is called once it is removed to be sent, if it ever is."""
        if self._reason is None:
            self._state, self._taken = state, taken
            self._fill()

    def notify(self, notice: str) -> None:
        """Add a notice, unless too many are waiting."""
        if self._reason is None and len(self._notices) < MAX_NOTICES:
            self._notices.append(notice)
            self._fill()

    def finish(self, state: str | None, *, reason: str) -> None:
        """Send pending notices, then `state`, then close the connection with `reason`."""
        if self._reason is None:
            self._state, self._taken = state, None
            self._reason = reason
            self._filled.set()

    async def take(self) -> list[str]:
        """Wait for messages and return them in sending order; an empty list means the end."""
        while not (self._notices or self._state is not None or self._reason is not None):
            self._filled = anyio.Event()
            await self._filled.wait()
        return self.pending()

    def pending(self) -> list[str]:
        """Remove and return the messages to send now, in sending order."""
        messages = [*self._notices, *([] if self._state is None else [self._state])]
        self._notices.clear()
        if self._taken is not None and self._state is not None:
            self._taken()
        self._state = self._taken = None
        return messages

    def _fill(self) -> None:
        if self.at_once is None or not self.at_once():
            self._filled.set()
