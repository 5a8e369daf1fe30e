"""A game server's process: what signals, root and errors mean to it."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable

from .user import leave_root

__all__ = ["run_program"]


def run_program(serve: Callable[[], Awaitable[int]], *, name: str = "") -> int:
    """Serve, and say on stderr why not; to be the first thing that the process does.

    Args:
        serve: Serves, and returns the exit code; what it needs besides is best imported in it.
        name: Whose errors these are, said before them.

    Returns:
        The exit code: that of ``serve``, 1 failed, 2 not to be started so, 130 or 143 stopped before the end.
    """
    # The first process of a container ignores SIGTERM until it says otherwise, and the imports take a moment.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    leave_root(os.environ)
    # What is imported stays: looking through it for cycles, again and again, takes a tenth of the start.
    gc.disable()
    import asyncio

    import anyio

    from coworld_core.errors import CoworldError, unwrapped

    async def served() -> int:
        # once `serve` waits for something, everything is there
        asyncio.get_running_loop().call_soon(_settled)
        return await serve()

    try:
        with unwrapped():
            return anyio.run(served)
    except CoworldError as error:
        # An error of the rules has the lines that led to it.
        for line in getattr(error, "lines", ()):
            print(line, file=sys.stderr)
        print(f"{name}: {error}" if name else error, file=sys.stderr)
        return 2 if error.kind == "usage" else 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _settled() -> None:
    gc.freeze()
    gc.enable()
