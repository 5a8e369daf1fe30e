"""The game server: `python -m paintarena.server`.

With `COGAME_CONFIG_URI` it plays one game, writes results and replay, and exits 0. With
`COGAME_LOAD_REPLAY_URI` it shows a replay until it is told to stop; with `COGAME_REPLAY_SERVER=1`, the older
way, each request names its replay. This module only starts and ends the process; `hosting` does the rest.
"""

import sys

from coworld_runner.serving.program import run_program


def main() -> int:
    """Run the server that the environment describes; returns 0 done, 1 or 2 failed, 130 or 143 stopped."""
    return run_program(_serve, name="paintarena")


async def _serve() -> int:
    from paintarena.hosting import serve

    return await serve()


if __name__ == "__main__":
    sys.exit(main())
