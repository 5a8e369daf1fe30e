"""The game log: lines on stdout and, where `COGAME_LOG_URI` asks for it, posted as text.

Whoever may see the episode may read it, so nothing that is said here holds a token.
"""

import sys
from collections import deque
from typing import Final

import anyio

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
        import httpx2

        text = "".join(f"{line}\n" for line in self._waiting)
        self._waiting.clear()
        try:
            with anyio.fail_after(POST_SECONDS, shield=True):
                async with httpx2.AsyncClient(timeout=POST_SECONDS) as client:
                    kind = {"Content-Type": "text/plain; charset=utf-8"}
                    (await client.post(self._uri, content=text.encode(), headers=kind)).raise_for_status()
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
            reason = str(error).partition("?")[0] or type(error).__name__
            print(f"log lines could not be posted: {reason}", file=sys.stderr, flush=True)
