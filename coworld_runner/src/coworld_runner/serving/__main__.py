"""`python -m coworld_runner.serving MODULE:CLASS`: play one game, or show a replay, as the environment says."""

from __future__ import annotations

import os
import signal
import sys

from .user import leave_root


def main() -> int:
    """Serve, and return the exit code: 0 done, 1 failed, 2 not to be started so, 130 or 143 stopped before the end."""
    # The first process of a container ignores SIGTERM until it says otherwise, and the imports take a moment.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if len(sys.argv) != 2:
        print("usage: python -m coworld_runner.serving MODULE:CLASS", file=sys.stderr)
        return 2
    leave_root(os.environ)
    import anyio

    from coworld_core.errors import CoworldError, unwrapped
    from coworld_core.rules import load_rules

    from .hosting import serve_rules

    try:
        with unwrapped():
            return anyio.run(serve_rules, load_rules(sys.argv[1]))
    except CoworldError as error:
        # An error of the rules has the lines that led to it.
        for line in getattr(error, "lines", ()):
            print(line, file=sys.stderr)
        hint = f" {error.hint}" if error.hint else ""
        print(f"{error.message}{hint}", file=sys.stderr)
        return 2 if error.kind == "usage" else 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
