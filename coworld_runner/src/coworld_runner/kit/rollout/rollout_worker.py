"""`python -m coworld_runner.kit.rollout.rollout_worker NUMBER COUNT`: does a share of a job, which is on stdin."""

from __future__ import annotations

import os
import pickle
import runpy
import sys
from types import ModuleType

from .job_process import Job
from .process_pipes import own_pipes


def main() -> None:
    """Work until the job is done or the parent closes the pipe."""
    number, count = map(int, sys.argv[1:])
    with own_pipes() as (told, out):
        # Its command line is that of the process that started this one.
        sys.path[:], sys.argv[:], script = pickle.load(told)  # noqa: S301
        if script is not None:
            known = ModuleType("__main__")
            known.__dict__.update(runpy.run_path(script, run_name="__mp_main__"))
            sys.modules["__main__"] = sys.modules["__mp_main__"] = known
        job: Job = pickle.load(told)  # noqa: S301
        try:
            job.work(number, count, commands=told, out=out)
        except BrokenPipeError:
            os._exit(0)


if __name__ == "__main__":
    main()
