"""Local processes by the label in their environment: found, told from others, killed."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import anyio

from ..backend import Found
from ..scratch import owner_is_alive, scratch_root

__all__ = ["KILL_SECONDS", "RUN", "SCRATCH", "UNIT", "kill_labelled", "labelled", "our_own", "still_labelled"]


RUN = "COWORLD_RUN_ID"
UNIT = "COWORLD_UNIT"
SCRATCH = "COWORLD_SCRATCH"

KILL_SECONDS = 5.0
"""How long after SIGKILL something may still be there before it counts as left behind."""


def labelled(run_id: str | None = None) -> list[Found]:
    """Processes of this user that carry a run's label, in our own process namespace."""
    import psutil

    found: list[Found] = []
    mine = user()
    space = _namespace("self")
    pending = list(psutil.process_iter())
    for last in (False, False, False, True):
        bare: list[psutil.Process] = []
        for process in pending:
            with contextlib.suppress(psutil.Error, OSError):
                if process.uids().real != mine or process.status() == psutil.STATUS_ZOMBIE:
                    continue  # a zombie is its parent's to take
                environment = process.environ()
                if not environment and not last and process.exe():
                    bare.append(process)
                    continue
                run = environment.get(RUN)
                if not run or (run_id is not None and run != run_id) or _namespace(str(process.pid)) != space:
                    continue  # what is in a container is its engine's to remove
                found.append(
                    Found(
                        kind="process",
                        id=str(process.pid),
                        name=environment.get(UNIT, ""),
                        run_id=run,
                        alive=owner_is_alive(Path(environment.get(SCRATCH) or scratch_root() / run)),
                        age_seconds=max(0.0, time.time() - process.create_time()),
                    )
                )
        if not bare:
            break
        # a program that is just being executed has no environment for a moment, then it has all of it
        pending = bare
        # in a worker thread, or in `clean`; the kernel tells nobody when that moment is over
        time.sleep(0.005)
    return found


def user() -> int:
    """Whose processes are ours."""
    return os.getuid()


def _namespace(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115
    except OSError:
        return ""


def our_own() -> set[int]:
    """This process and those it runs in, which it must not kill."""
    import psutil

    me = psutil.Process()
    return {me.pid, *(parent.pid for parent in me.parents())}


def still_labelled(pid: int, run_id: str) -> bool:
    """Whether a process is (still) one of that run: the number may belong to another by now."""
    import psutil

    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(RUN) == run_id
    except (psutil.Error, OSError):
        return False


async def kill_labelled(run_id: str, unit: str) -> None:
    """Kill what is left of a unit whose shim was killed."""
    with anyio.move_on_after(KILL_SECONDS):
        while left := [item for item in labelled(run_id) if item.name == unit]:
            for item in left:
                with contextlib.suppress(OSError):
                    os.kill(int(item.id), signal.SIGKILL)
            await anyio.sleep(0.01)
