"""A server that sends prepared bytes, whether or not they are valid HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc

__all__ = ["Asked", "answering"]


class Asked(list[bytes]):
    """The requests so far."""

    def __init__(self) -> None:
        super().__init__()
        self.first = anyio.Event()
        """Set once there is one."""


@asynccontextmanager
async def answering(
    path: Path | anyio.abc.Listener[anyio.abc.ByteStream], *answers: bytes
) -> AsyncGenerator[Asked, None]:
    """Serve each connection the next of ``answers``, or nothing once there are none left; yields the requests."""
    asked = Asked()
    left = list(answers)

    async def serve(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            data = await stream.receive()
            while b"chunked" in data and not data.endswith(b"0\r\n\r\n"):
                data += await stream.receive()
            asked.append(data)
            asked.first.set()
            if not left:
                await anyio.sleep_forever()
            await stream.send(left.pop(0))

    place = await anyio.create_unix_listener(path) if isinstance(path, Path) else path
    async with place as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield asked
        tasks.cancel_scope.cancel()
