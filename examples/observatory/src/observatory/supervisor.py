"""Supervision of background work, so that it continues after errors.

A database or a store may be back in a moment, and the trouble of one league or episode must not stop the others.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import NoReturn

import anyio
from sqlalchemy.exc import SQLAlchemyError

from coworld_core.errors import CoworldError

__all__ = ["Supervisor", "report"]


def report(log: logging.Logger, what: str, error: Exception) -> None:
    """Log an error: an expected one by its message, any other with its traceback.

    Args:
        log: Where to.
        what: What cannot be done because of it, as the beginning of a sentence.
        error: The error.
    """
    if isinstance(error, SQLAlchemyError | OSError | CoworldError):
        log.warning("%s: %s", what, error)
    else:
        log.error("%s: an unexpected %s.", what, type(error).__name__, exc_info=error)


class Supervisor:
    """Keeps background work running after errors, and logs them.

    Args:
        log: Where to.
        repeats: Whether the same error is logged each time. A step that is repeated every second says so once, until it
            has succeeded or fails in another way.
    """

    def __init__(self, log: logging.Logger, *, repeats: bool = True) -> None:
        self._log = log
        self._repeats = repeats
        self._reported: dict[str, str] = {}

    @contextmanager
    def trying(self, what: str) -> Generator[None]:
        """Log an error of the block, and go on after it.

        Args:
            what: What cannot be done if the block fails, as the beginning of a sentence.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 - background work goes on whatever one step meets
            if self._reported.get(what) != repr(error):
                report(self._log, what, error)
            if not self._repeats:
                self._reported[what] = repr(error)
        else:
            self._reported.pop(what, None)

    async def repeat(self, step: Callable[[], Awaitable[object]], what: str, *, seconds: float) -> NoReturn:
        """Take a step again and again, until cancelled.

        Args:
            step: What to do.
            what: What cannot be done if it fails, as the beginning of a sentence.
            seconds: The pause between two steps.
        """
        while True:
            with self.trying(what):
                await step()
            await anyio.sleep(seconds)
