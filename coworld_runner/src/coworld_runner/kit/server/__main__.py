"""`python -m coworld_runner.kit.server MODULE:CLASS`: play one game or show a replay, depending on the environment."""

from __future__ import annotations

import sys

from .server_process import run_server


def main() -> int:
    """Serve and return the exit code: 0 done, 1 failed, 2 wrong arguments or settings, 130 or 143 stopped early."""
    if len(sys.argv) != 2:
        print("usage: python -m coworld_runner.kit.server MODULE:CLASS", file=sys.stderr)
        return 2
    return run_server(_serve)


async def _serve() -> int:
    from coworld_core.rules import load_rules

    from .game_host import serve_rules

    return await serve_rules(load_rules(sys.argv[1], alone=True))


if __name__ == "__main__":
    sys.exit(main())
