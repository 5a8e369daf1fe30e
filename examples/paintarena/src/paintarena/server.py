"""The game server: `python -m paintarena.server`.

With `COGAME_CONFIG_URI` it plays one game, writes results and replay, and exits 0. With
`COGAME_LOAD_REPLAY_URI` it shows a replay until it is told to stop; with `COGAME_REPLAY_SERVER=1`, the older
way, each request names its replay. This module only starts and ends the process; `hosting` does the rest.
"""

import os
import signal
import sys


def main() -> int:
    """Run the server that the environment describes; returns 0 done, 1 failed, 130 or 143 stopped before the end."""
    # The first process of a container ignores SIGTERM until it says otherwise, and the imports take a moment.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    from coworld_runner.serving.user import leave_root

    leave_root(os.environ)
    import anyio

    from coworld_core.errors import CoworldError, unwrapped
    from paintarena.config import ConfigError
    from paintarena.hosting import serve

    try:
        with unwrapped():
            return anyio.run(serve)
    except (ConfigError, CoworldError) as error:
        print(f"paintarena: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 1


if __name__ == "__main__":
    sys.exit(main())
