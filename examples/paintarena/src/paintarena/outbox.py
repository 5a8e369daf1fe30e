"""What one connection still has to be told: the newest state only, so that a slow reader costs nothing."""

from collections import deque
from typing import Final

import anyio

MAX_NOTICES: Final = 8
"""Answers that may wait for one connection; a client that asks faster than it reads loses the rest."""


class Outbox:
    """The pending messages of one connection, filled without ever waiting.

    A state that was not sent before the next one came is replaced by it. Notices (answers to what the client
    sent) are kept in order, up to `MAX_NOTICES`. After `finish` nothing more is taken.
    """

    def __init__(self) -> None:
        self._state: str | None = None
        self._notices: deque[str] = deque(maxlen=MAX_NOTICES)
        self._filled = anyio.Event()
        self._reason: str | None = None

    @property
    def close_reason(self) -> str | None:
        """Why the connection ends once everything is sent, or None while it goes on."""
        return self._reason

    def put(self, state: str) -> None:
        """Make `state` the next state to send."""
        if self._reason is None:
            self._state = state
            self._filled.set()

    def notify(self, notice: str) -> None:
        """Add an answer, unless too many are waiting."""
        if self._reason is None and len(self._notices) < MAX_NOTICES:
            self._notices.append(notice)
            self._filled.set()

    def finish(self, state: str | None, *, reason: str) -> None:
        """Send what is pending, then `state` if given, then close the connection with `reason`."""
        if self._reason is None:
            self._state = state if state is not None else self._state
            self._reason = reason
            self._filled.set()

    async def take(self) -> list[str]:
        """Wait for messages and return them in sending order; an empty list means the end."""
        while not (self._notices or self._state is not None or self._reason is not None):
            self._filled = anyio.Event()
            await self._filled.wait()
        messages = list(self._notices)
        self._notices.clear()
        if self._state is not None:
            messages.append(self._state)
            self._state = None
        return messages
