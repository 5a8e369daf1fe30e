"""The game log: lines on stdout, also posted as text to `COGAME_LOG_URI` if that is set.

Everyone who may see the episode may read the log, so log lines must not contain tokens.
"""

import sys
from collections import deque
from typing import Final

import anyio

POST_SECONDS: Final = 2.0
"""Time limit of one post, and so the longest delay at the end of a game."""

MAX_LINES: Final = 1000
"""Maximum of lines that wait for a slow receiver; the oldest are dropped first."""


class Log:
    """Prints lines at once and posts them in the background.

    Args:
        uri: Where to post lines, or None to print only.
    """

    def __init__(self, uri: str | None = None) -> None:
        self._uri = uri
        self._waiting: deque[str] = deque(maxlen=MAX_LINES)
        self._filled = anyio.Event()

    def line(self, text: str) -> None:
        """Print a line on stdout and post it."""
        print(text, flush=True)
        self.note(text)

    def complain(self, text: str) -> None:
        """Print a line on stderr and post it."""
        print(text, file=sys.stderr, flush=True)
        self.note(text)

    def note(self, text: str) -> None:
        """Post a line without printing it."""
        if self._uri is not None:
            self._waiting.append(text)
            self._filled.set()

    async def ship(self) -> None:
        """Post lines as they arrive, several in one post if they arrive fast; return at once without an address."""
        while self._uri is not None:
            if not self._waiting:
                self._filled = anyio.Event()
                await self._filled.wait()
            await self.flush()

    async def flush(self) -> None:
        """Post all waiting lines, even during cancellation, because the last lines matter most."""
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
