"""`python -m coworld_runner.rollout.worker NUMBER COUNT`: a process of `rollouts`; reads its jobs from stdin."""

from __future__ import annotations

import os
import pickle
import runpy
import sys
from types import ModuleType


def main() -> None:
    """Play until all episodes are played, or the parent has closed the pipe."""
    number, count = map(int, sys.argv[1:])
    # Policies print to standard error, and read nothing.
    with os.fdopen(os.dup(1), "wb") as out, os.fdopen(os.dup(0), "rb") as told:
        os.dup2(2, 1)
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a device
            os.dup2(nothing.fileno(), 0)
        path, script = pickle.load(told)  # noqa: S301 - of the process that has started this one
        sys.path[:] = path
        if script is not None:
            known = ModuleType("__main__")
            known.__dict__.update(runpy.run_path(script, run_name="__mp_main__"))
            sys.modules["__main__"] = sys.modules["__mp_main__"] = known
        job = pickle.load(told)  # noqa: S301
        from .batch import work

        try:
            work(job, number, count, out)
        except BrokenPipeError:
            os._exit(0)


if __name__ == "__main__":
    main()
