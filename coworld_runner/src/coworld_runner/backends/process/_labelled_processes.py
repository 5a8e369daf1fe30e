"""Finds and kills local processes by the labels in their environment."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import anyio

from ...backend import Found, Reaped, UnitSpec
from ...runs.scratch import owner_is_alive, scratch_root
from ._cgroup import group_of, remove_empty_groups
from .child_process import KILL_SECONDS

__all__ = ["find_processes", "kill_processes", "process_labels", "reap_processes"]


_RUN = "COWORLD_RUN_ID"
_UNIT = "COWORLD_UNIT"
_SCRATCH = "COWORLD_SCRATCH"


def process_labels(spec: UnitSpec) -> Mapping[str, str]:
    """Environment variables by which a local process is found, with all descendants that inherit them."""
    return {
        _RUN: spec.run_id,
        _UNIT: spec.name,
        # Locates the runner's lock when the process is found under another TMPDIR
        _SCRATCH: str(scratch_root() / spec.run_id),
    }


def find_processes(run_id: str | None = None) -> list[Found]:
    """Find this user's processes with `process_labels` or in a unit's control group, in our own PID namespace.

    Args:
        run_id: Only those of this run; None: of all runs.

    Blocks for some ten milliseconds.
    """
    import psutil

    found: list[Found] = []
    mine = user()
    space = _namespace("self")
    pending = list[psutil.Process]()
    for pid in psutil.pids():
        # `process_iter` would hand the same objects to every thread, and they are not made for that.
        with contextlib.suppress(psutil.Error):
            pending.append(psutil.Process(pid))
    places: dict[str, Path] = {}
    for last in (False, False, False, True):
        bare: list[psutil.Process] = []
        for process in pending:
            with contextlib.suppress(psutil.Error, OSError):
                environment = process.environ()
                if not environment and not last and process.uids().real == mine and process.exe():
                    bare.append(process)
                    continue
                run, unit = environment.get(_RUN, ""), environment.get(_UNIT, "")
                if not run:
                    run, unit = group_of(str(process.pid))
                # The slower checks come last, for the few processes that belong to a run
                if not run or process.uids().real != mine or process.status() == psutil.STATUS_ZOMBIE:
                    continue  # Its parent reaps a zombie
                if place := environment.get(_SCRATCH):
                    places[run] = Path(place)
                if (run_id is not None and run != run_id) or _namespace(str(process.pid)) != space:
                    continue  # Its engine removes a process in a container
                found.append(
                    Found(
                        kind="process",
                        id=str(process.pid),
                        name=unit,
                        run_id=run,
                        alive=False,
                        age_seconds=max(0.0, time.time() - process.create_time()),
                    )
                )
        if not bare:
            break
        # A process has no environment for a moment while it executes a program
        pending = bare
        # Runs in a worker thread or in `clean`; nothing reports when that moment is over
        time.sleep(0.005)
    # For a process that dropped its environment, others of its run may still locate the runner's lock
    alive = {item.run_id: owner_is_alive(places.get(item.run_id, scratch_root() / item.run_id)) for item in found}
    return [replace(item, alive=alive[item.run_id]) for item in found]


def user() -> int:
    """The user id of our own processes."""
    return os.getuid()


def _namespace(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115
    except OSError:
        return ""


def _our_own() -> set[int]:
    """This process and its ancestors, which must not be killed."""
    import psutil

    me = psutil.Process()
    return {me.pid, *(parent.pid for parent in me.parents())}


def _still_labelled(pid: int, run_id: str) -> bool:
    """Whether a process still belongs to that run: its pid may have been reused."""
    import psutil

    try:
        process = psutil.Process(pid)
        run = process.environ().get(_RUN) or group_of(str(pid))[0]
        return process.status() != psutil.STATUS_ZOMBIE and run == run_id
    except (psutil.Error, OSError):
        return False


async def kill_processes(run_id: str, unit: str) -> None:
    """Kill all processes of a unit and wait until they are gone, for five seconds at most."""
    with anyio.move_on_after(KILL_SECONDS):
        while left := [item for item in find_processes(run_id) if item.name == unit]:
            for item in left:
                with contextlib.suppress(OSError):
                    os.kill(int(item.id), signal.SIGKILL)
            await anyio.sleep(0.01)


async def reap_processes(found: Sequence[Found], *, force: bool) -> list[Reaped]:
    """Kill processes that `find_processes` found, but never this process or its ancestors."""
    refused = {item.id: "its runner is still running" for item in found if item.alive and not force}
    own = {str(pid) for pid in _our_own()} if found else set[str]()
    refused |= {item.id: "it is this process or one of its ancestors" for item in found if item.id in own}
    doomed = [item for item in found if item.id not in refused]
    left = {item.id: item for item in doomed}
    with anyio.move_on_after(KILL_SECONDS):
        while left := {key: item for key, item in left.items() if _still_labelled(int(key), item.run_id)}:
            for key in left:
                try:
                    os.kill(int(key), signal.SIGKILL)
                except ProcessLookupError:
                    continue
                except PermissionError:
                    refused[key] = "it belongs to another user"
            left = {key: item for key, item in left.items() if key not in refused}
            await anyio.sleep(0.005)
    remove_empty_groups()
    reasons = dict.fromkeys(left, f"it is still there {KILL_SECONDS:g} s after it was killed") | refused
    return [Reaped(found=item, removed=item.id not in reasons, reason=reasons.get(item.id, "")) for item in found]
