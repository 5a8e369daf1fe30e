"""`python -m coworld_runner.kit.server MODULE:CLASS`: play one game or show a replay, depending on the environment."""

from __future__ import annotations

import sys
from functools import cache, partial
from typing import TYPE_CHECKING

from .server_process import run_server

if TYPE_CHECKING:
    from coworld_core.rules import Rules


def main() -> int:
    """Serve and return the exit code: 0 done, 1 failed, 2 wrong arguments or settings, 130 or 143 stopped early."""
    if len(sys.argv) != 2:
        print("usage: python -m coworld_runner.kit.server MODULE:CLASS", file=sys.stderr)
        return 2
    rules = cache(partial(_load, sys.argv[1]))

    async def serve() -> int:
        from .game_host import serve_rules

        return await serve_rules(rules())

    return run_server(serve, prepare=rules)


def _load(name: str) -> type[Rules]:
    from coworld_core.rules import load_rules

    from . import game_host

    _ = game_host
    return load_rules(name, alone=True)


if __name__ == "__main__":
    sys.exit(main())
