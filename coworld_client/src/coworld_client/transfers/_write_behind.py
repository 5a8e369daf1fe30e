"""Store received data while more arrives, within bounded memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from coworld_core.errors import leaves

__all__ = ["WriteBehind", "write_behind"]

_BATCH = 2 << 20
"""Bytes per batch: large enough to make the cost of the worker thread negligible, and small in memory."""
_MOST_PIECES = 512
"""Maximum pieces per batch, however small."""


class WriteBehind:
    """Collects pieces into batches. At most three exist: one being filled, one waiting and one being stored."""

    def __init__(self, stream: MemoryObjectSendStream[list[bytes]]) -> None:
        self._stream = stream
        self._held = 0
        self.batch: list[bytes] = []
        """The pieces that have not been passed on yet."""

    async def put(self, piece: bytes) -> None:
        """Add a piece; waits while a full batch cannot be passed on."""
        self.batch.append(piece)
        self._held += len(piece)
        if self._held >= _BATCH or len(self.batch) >= _MOST_PIECES:
            await self._stream.send(self.batch)
            self.batch, self._held = [], 0


@asynccontextmanager
async def write_behind(store: Callable[[list[bytes]], Awaitable[None]]) -> AsyncGenerator[WriteBehind]:
    """Store the pieces that the block puts, in order, in the background.

    On exit all pieces are stored, even if the block fails or is cancelled. If storing fails, the block is cancelled and
    that error is raised.

    Args:
        store: Stores a batch of pieces.
    """
    stream, batches = anyio.create_memory_object_stream[list[bytes]](1)
    behind = WriteBehind(stream)
    failures: list[Exception] = []

    async def storing() -> None:
        with batches, anyio.CancelScope(shield=True):
            try:
                async for pieces in batches:
                    await store(pieces)
                    # A cancelled sender cannot tell whether its batch was received; a batch that was is now empty
                    pieces.clear()
                if behind.batch:
                    await store(behind.batch)
            except Exception as error:
                failures.append(error)
                raise

    raised: BaseException | None = None
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(storing)
            with stream:
                yield behind
    except BaseExceptionGroup as errors:
        raised = [*failures, *leaves(errors)][0]
    # Raised outside the except block, so that it keeps its own cause and context
    if raised is not None:
        raise raised
