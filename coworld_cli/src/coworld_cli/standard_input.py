"""Standard input for a server that reads it in a thread, which a signal could not end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable

__all__ = ["with_piped_input"]

_CHUNK = 1 << 16


async def with_piped_input(serve: Callable[[], Awaitable[None]]) -> None:
    """Call a function with a pipe in the place of standard input, which ends with it, or when this is cancelled."""
    import anyio

    wire, (out, into) = os.dup(0), os.pipe()
    os.dup2(out, 0)
    os.close(out)
    os.set_blocking(into, False)

    async def pump() -> None:
        try:
            while True:
                # Files and /dev/null are always ready, and cannot be waited for
                with contextlib.suppress(PermissionError):
                    await anyio.wait_readable(wire)
                left = os.read(wire, _CHUNK)
                if not left:
                    return
                while left:
                    await anyio.wait_writable(into)
                    with contextlib.suppress(BlockingIOError):
                        left = left[os.write(into, left) :]
        finally:
            os.close(into)

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pump)
            await serve()
            tasks.cancel_scope.cancel()
    finally:
        os.dup2(wire, 0)
        os.close(wire)
