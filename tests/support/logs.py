"""Waits for messages that the code under test logs in this process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

__all__ = ["logged"]


@asynccontextmanager
async def logged(words: str) -> AsyncGenerator[anyio.Event]:
    """Yield an event that is set once any logger of this process logs a message that contains these words."""
    loop = asyncio.get_running_loop()
    event = anyio.Event()

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if words in record.getMessage():
                # Any thread may log.
                loop.call_soon_threadsafe(event.set)

    handler = Heard()
    logging.getLogger().addHandler(handler)
    try:
        yield event
    finally:
        logging.getLogger().removeHandler(handler)
