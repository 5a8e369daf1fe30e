"""The game server: `python -m paintarena.server`.

With `COGAME_CONFIG_URI` the server plays one game, writes results and replay, and exits with 0. With
`COGAME_LOAD_REPLAY_URI` it shows a replay until it is stopped; with the older `COGAME_REPLAY_SERVER=1`, each
request names its replay. This module only starts and ends the process; `hosting` does the rest.
"""

import sys

from coworld_runner.kit.server import run_server


def main() -> int:
    """Run the server that the environment describes; return 0 if done, 1 or 2 if failed, 130 or 143 if stopped."""
    return run_server(_serve, name="paintarena", prepare=_prepare)


def _prepare() -> None:
    import paintarena.hosting

    _ = paintarena.hosting


async def _serve() -> int:
    from paintarena.hosting import serve

    return await serve()


if __name__ == "__main__":
    sys.exit(main())
