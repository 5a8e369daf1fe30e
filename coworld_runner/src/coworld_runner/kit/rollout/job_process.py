"""Processes that play for this one: how they are started, what they are told first, and what is said if one dies."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Protocol

from coworld_core.errors import EnvironmentFault, UsageError

from ...backends.process.child_environment import child_environment
from ...backends.process.child_process import ChildProcess

__all__ = ["Job", "died", "job_letter", "job_process", "portable"]


class Job(Protocol):
    """What a process does; it is pickled."""

    def work(self, number: int, count: int, *, commands: BinaryIO, out: BinaryIO) -> None:
        """Do the share of one process of several, which are numbered from 0."""
        ...


def portable(named: Sequence[Any]) -> str | None:
    """Return the file of this program if one of these is defined in it; another process has to run it first.

    Raises:
        UsageError: One of them cannot be sent to another process.
    """
    main: str | None = None
    for one in named:
        problem = None
        if getattr(one, "__module__", None) == "__main__":
            main = getattr(sys.modules["__main__"], "__file__", None)
            problem = None if main else "it is not defined in a file"
        try:
            pickle.dumps(one)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            problem = str(error)
        if problem is not None:
            raise UsageError(
                f"{getattr(one, '__qualname__', None) or repr(one)} cannot be sent to another process: {problem}.",
                code="not_portable",
                hint="Put it into a module of its own, or play with processes=1.",
            )
    return main


def job_letter(job: Job, named: Sequence[Any]) -> bytes:
    """Return the first message to a process: its module path, its command line, this program's file if needed, the job.

    Args:
        job: What to do.
        named: What in it comes from the user, to say which of that cannot be sent.

    Raises:
        UsageError: As for `portable`.
    """
    # The job is a second pickle: its modules can only be found after the process has set its path.
    return pickle.dumps((sys.path, sys.argv, portable(named))) + pickle.dumps(job)


@contextmanager
def job_process(letter: bytes, number: int, count: int, *, files: Sequence[int] = ()) -> Generator[ChildProcess]:
    """A process that does its share of a job; it is killed at the end of the block.

    `multiprocessing` is not used, because its processes always import this program's `__main__` and leave a helper
    process running.

    Args:
        letter: From `job_letter`.
        number: Its number, from 0.
        count: The number of processes.
        files: Open files that it gets under the same numbers.
    """
    command = [sys.executable, "-m", f"{__package__}.rollout_worker", str(number), str(count)]
    with ChildProcess(command, env=child_environment(None), files=files) as worker:
        # A worker that has already exited is reported when its results are read.
        with suppress(BrokenPipeError):
            worker.stdin.write(letter)
            worker.stdin.flush()
        yield worker


def died(worker: ChildProcess, where: str) -> EnvironmentFault:
    """Return the error for a process that has ended before its work."""
    worker.kill()
    return EnvironmentFault(
        f"A worker process has ended with status {worker.wait()}{where}.",
        code="process_died",
        hint="Play with processes=1 to see what happens there.",
    )
