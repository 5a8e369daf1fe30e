"""A game server's process: how it handles signals, root privileges and errors."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial

from .unprivileged_user import leave_root

__all__ = ["run_server"]


def run_server(
    serve: Callable[[], Awaitable[int]], *, name: str = "", prepare: Callable[[], object] | None = None
) -> int:
    """Serve, and write errors to stderr; must be the first call of the process.

    Args:
        serve: Serves, and returns the exit code. It should import its other dependencies itself.
        name: The program's name, a prefix of its error messages.
        prepare: Imports what `serve` needs. A runner that plays several episodes then starts this program once, if the
            manifest has `COWORLD_SERVES=many` among its variables, and it forks for each of them. None: it cannot.

    Returns:
        The exit code: that of `serve`, 1 failed, 2 wrong arguments or settings, 130 or 143 stopped early.
    """
    if prepare is not None and (control := os.environ.get("COWORLD_AHEAD", "")).isdecimal():
        from .many_games import serve_many

        return serve_many(int(control), prepare=prepare, serve=partial(_serve_one, serve, name))
    return _serve_one(serve, name)


def _serve_one(serve: Callable[[], Awaitable[int]], name: str) -> int:
    # The first process of a container ignores SIGTERM unless it has a handler, and the imports take a moment.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    leave_root(os.environ)
    # Imported objects stay alive: searching them for cycles repeatedly would take a tenth of the start-up time.
    gc.disable()
    import asyncio

    import anyio

    from coworld_core.errors import CoworldError, unwrapped

    async def served() -> int:
        # When `serve` first waits for something, everything is imported
        asyncio.get_running_loop().call_soon(_settled)
        return await serve()

    try:
        with unwrapped():
            return anyio.run(served)
    except CoworldError as error:
        # An error of the rules has the lines of its traceback.
        for line in getattr(error, "lines", ()):
            print(line, file=sys.stderr)
        print(f"{name}: {error}" if name else error, file=sys.stderr)
        return 2 if error.kind == "usage" else 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _settled() -> None:
    gc.freeze()
    gc.enable()
