"""Kills runs with SIGKILL on their way, to see what a run that resumes makes of what they left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .launcher import Command
from .waiting import live_on, wait_until

__all__ = ["kill_amid"]


def kill_amid(run: Command, progress: Callable[[], bool], *, rest: float, log: Path) -> None:
    """Kill a run that has come so far, a moment later; one that ends by itself before must have succeeded.

    Args:
        run: The run.
        progress: Whether it has come so far.
        rest: Seconds that it may live on from then.
        log: Its output, which the message of a failure contains.
    """
    try:
        wait_until(lambda: progress() or run.poll() is not None, seconds=60, what="a run's progress")
        live_on(run, rest)
        assert run.poll() in (None, 0), f"exit status {run.returncode}"
    except AssertionError as error:
        raise AssertionError(f"{error}\n{log.read_text()[-10_000:]}") from None
    finally:
        run.kill()
        run.wait(30)
