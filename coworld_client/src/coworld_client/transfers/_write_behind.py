"""Storing what has arrived while more arrives, within bounded memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from coworld_core.errors import leaves

__all__ = ["WriteBehind", "write_behind"]

_BATCH = 2 << 20
"""Bytes stored at a time: large enough that the worker thread costs nothing, small enough to be no memory."""
_MOST_PIECES = 512
"""Pieces of a batch, however small they are."""


class WriteBehind:
    """Takes pieces one by one and passes them on in batches: one fills, one waits, one is being stored."""

    def __init__(self, stream: MemoryObjectSendStream[list[bytes]]) -> None:
        self._stream = stream
        self._held = 0
        self.batch: list[bytes] = []
        """What has not been passed on."""

    async def put(self, piece: bytes) -> None:
        """Take a piece; waits while more waits to be stored than may."""
        self.batch.append(piece)
        self._held += len(piece)
        if self._held >= _BATCH or len(self.batch) >= _MOST_PIECES:
            await self._stream.send(self.batch)
            self.batch, self._held = [], 0


@asynccontextmanager
async def write_behind(store: Callable[[list[bytes]], Awaitable[None]]) -> AsyncGenerator[WriteBehind]:
    """Store what the block puts, in order, while it goes on.

    On leaving everything is stored, also when the block fails or is cancelled. When storing fails the block is
    cancelled, and that failure is raised.

    Args:
        store: Stores pieces.
    """
    stream, batches = anyio.create_memory_object_stream[list[bytes]](1)
    behind = WriteBehind(stream)
    failures: list[Exception] = []

    async def storing() -> None:
        with batches, anyio.CancelScope(shield=True):
            try:
                async for pieces in batches:
                    await store(pieces)
                    # a cancelled sender cannot tell whether its batch went through; one that did is empty now
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
    # raised out here, so that it keeps what it was caused by
    if raised is not None:
        raise raised
