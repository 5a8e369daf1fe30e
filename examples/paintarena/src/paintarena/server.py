"""The game server: `python -m paintarena.server`.

With `COGAME_CONFIG_URI` it plays one game, writes results and replay, and exits 0. With
`COGAME_LOAD_REPLAY_URI` it shows a replay until it is told to stop; with `COGAME_REPLAY_SERVER=1`, the older
way, each request names its replay. This module only starts and ends the process; `hosting` does the rest.
"""

import os
import signal
import sys
import threading
import traceback
from typing import cast

from paintarena.user import leave_root


def main() -> None:
    """Run the server that the environment describes, and end the process with its exit code."""
    # The first process of a container ignores SIGTERM until it says otherwise, and the imports take a moment.
    signal.signal(signal.SIGTERM, _stop)
    leave_root(os.environ)
    code = run()
    sys.stdout.flush()
    sys.stderr.flush()
    if threading.active_count() > 1:
        # A transfer that was given up sits in a thread that knows nothing of it; nobody waits for that.
        os._exit(code)
    sys.exit(code)


def run() -> int:
    """Run the server and return the exit code: 0 done, 1 failed, 130 or 143 stopped before the end."""
    import anyio

    from paintarena.artifacts import ArtifactError
    from paintarena.config import ConfigError
    from paintarena.hosting import UsageError, serve

    try:
        return anyio.run(serve)
    except (UsageError, ConfigError, ArtifactError) as error:
        # Said before anything was running: the message is the whole story.
        print(f"paintarena: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception as error:  # noqa: BLE001 - the last line of a program: say what happened and exit 1
        cause = _only(error)
        traceback.print_exception(cause)
        print(f"paintarena: the game failed: {cause}", file=sys.stderr)
    return 1


def _stop(number: int, _frame: object) -> None:
    sys.exit(128 + number)


def _only(error: Exception) -> Exception:
    """Return the one error that a group of groups holds, or the group when there are several."""
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        return _only(group.exceptions[0]) if len(group.exceptions) == 1 else group
    return error


if __name__ == "__main__":
    main()
