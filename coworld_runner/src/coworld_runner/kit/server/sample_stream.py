"""The samples of a running game, for the runner that records them."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import anyio
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from ..table.sample_lines import SampleLines

if TYPE_CHECKING:
    from coworld_core.rules import Play

__all__ = ["SampleStream"]

BATCH_SECONDS: Final = 0.05
"""Lines are sent together, because each message wakes the reader up."""

READ_SECONDS: Final = 20.0


class SampleStream(SampleLines):
    """Collects samples and sends them to one reader.

    Args:
        token: What the reader must know.
    """

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token
        self._being_read = False
        self._filled, self._ended, self._read = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def admits(self, token: str) -> bool:
        """Whether somebody may read: only one may, who knows the token."""
        return not self._being_read and hmac.compare_digest(token.encode(errors="replace"), self._token.encode())

    def add(
        self,
        tick: int,
        views: Mapping[int, str],
        done: Mapping[int, Any],
        by: Mapping[int, str | None],
        rewards: Sequence[float | None] | None = None,
    ) -> None:
        """Add the samples of a tick, as `SampleLines.add`, and wake the sender up."""
        super().add(tick, views, done, by, rewards)
        self._filled.set()

    def finish(self, play: Play, *, reason: str, scores: list[float] | None) -> None:
        """Add the end, as `SampleLines.finish`, and let the sender end."""
        super().finish(play, reason=reason, scores=scores)
        self._ended.set()
        self._filled.set()

    async def send_to(self, connection: ServerConnection) -> None:
        """Send everything to a reader, to the end; a reader that goes away ends the collecting."""
        self._being_read = True
        try:
            while self._lines or not self._ended.is_set():
                await self._filled.wait()
                with anyio.move_on_after(BATCH_SECONDS):
                    await self._ended.wait()
                self._filled.clear()
                if lines := self.take():
                    await connection.send("".join(lines))
            await connection.close()
        except ConnectionClosed:
            self.give_up()
        finally:
            self._read.set()

    async def wait_read(self) -> None:
        """Wait until the reader, if there is one, has everything; at most `READ_SECONDS`."""
        if self._being_read:
            with anyio.move_on_after(READ_SECONDS):
                await self._read.wait()
