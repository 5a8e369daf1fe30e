"""`python -m coworld_runner.kit.roles FILE.py`: let the function in a file play a supporting role."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Play the role, and return the exit code: 0 done, 1 the function failed, 2 wrong arguments or environment."""
    # The first process of a container ignores SIGTERM unless it installs a handler
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if len(sys.argv) != 2:
        print("usage: python -m coworld_runner.kit.roles FILE.py", file=sys.stderr)
        return 2
    import anyio

    from coworld_core.errors import CoworldError

    from .role_host import play_role

    try:
        anyio.run(play_role, sys.argv[1])
    except CoworldError as error:
        if error.code == "role_failed" and error.__cause__ is not None:
            import traceback

            cause = error.__cause__
            # Without the frame that called the function, which is ours
            traceback.print_exception(cause.with_traceback(cause.__traceback__ and cause.__traceback__.tb_next))
        else:
            print(error, file=sys.stderr)
        return 2 if error.kind == "usage" else 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    sys.exit(main())
