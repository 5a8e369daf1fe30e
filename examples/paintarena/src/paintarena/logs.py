"""The game log: lines on stdout and, where `COGAME_LOG_URI` asks for it, posted as text.

Whoever may see the episode may read it, so nothing that is said here holds a token.
"""

import sys
from collections import deque
from functools import partial
from http.client import HTTPException
from typing import Final

import anyio
import anyio.to_thread

POST_SECONDS: Final = 2.0
"""Patience with one post; the end of the game waits this long at most."""

MAX_LINES: Final = 1000
"""Lines that may wait for a slow receiver; the oldest are dropped first."""


class Log:
    """Lines for people: printed at once, posted in the background.

    Args:
        uri: Where to post lines, or None to print only.
    """

    def __init__(self, uri: str | None = None) -> None:
        self._uri = uri
        self._waiting: deque[str] = deque(maxlen=MAX_LINES)
        self._filled = anyio.Event()

    def line(self, text: str) -> None:
        """Say one line."""
        print(text, flush=True)
        self.note(text)

    def complain(self, text: str) -> None:
        """Say one line on stderr."""
        print(text, file=sys.stderr, flush=True)
        self.note(text)

    def note(self, text: str) -> None:
        """Post one line that somebody else prints."""
        if self._uri is not None:
            self._waiting.append(text)
            self._filled.set()

    async def ship(self) -> None:
        """Post lines as they come, several in one post when they come fast; returns at once without an address."""
        while self._uri is not None:
            if not self._waiting:
                self._filled = anyio.Event()
                await self._filled.wait()
            await self.flush()

    async def flush(self) -> None:
        """Post what is waiting; also during cancellation, because the last lines matter most."""
        if self._uri is None or not self._waiting:
            return
        from paintarena.artifacts import post_text

        text = "".join(f"{line}\n" for line in self._waiting)
        self._waiting.clear()
        post = partial(post_text, self._uri, text, seconds=POST_SECONDS)
        try:
            with anyio.fail_after(POST_SECONDS, shield=True):
                await anyio.to_thread.run_sync(post, abandon_on_cancel=True)
        except (OSError, ValueError, HTTPException) as error:
            print(f"log lines could not be posted: {error}", file=sys.stderr, flush=True)
