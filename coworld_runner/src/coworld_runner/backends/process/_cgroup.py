"""A control group for each local unit, on Linux where the user may create one.

A process in the group can be attributed to the unit even if it changes its environment, session or parent. The unit's
shim creates the group and removes it (see `_shim`); this module chooses and reads its name.
"""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path

__all__ = ["group_of", "new_group", "remove_empty_groups", "remove_group"]

_PREFIX = "coworld."


def new_group(run_id: str, unit: str) -> str:
    """The directory of a unit's group, not yet created; empty where groups cannot be created."""
    parent = _own()
    return str(parent / f"{_PREFIX}{run_id}.{unit}") if parent is not None else ""


def group_of(pid: str) -> tuple[str, str]:
    """The run and unit whose group a process is in; both empty if it is in none."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return "", ""
    names = [name for line in lines if line.startswith("0::") for name in line.split("/") if name.startswith(_PREFIX)]
    run, _, unit = names[-1].removeprefix(_PREFIX).partition(".") if names else ("", "", "")
    return run, unit


def remove_group(directory: Path) -> None:
    """Remove a group that its shim did not remove; the kernel keeps a group that still has processes."""
    with contextlib.suppress(OSError):
        directory.rmdir()


def remove_empty_groups() -> None:
    """Remove the groups of units that were killed together with their shim and runner."""
    for path, directories, _ in os.walk(_mount() or ""):
        for name in directories:
            if name.startswith(_PREFIX):
                remove_group(Path(path, name))


@functools.cache
def _mount() -> Path | None:
    """Where the cgroup v2 hierarchy is mounted, if it is."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        mounted, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 ") and mounted.split(" ")[3] == "/":
            return Path(mounted.split(" ")[4])
    return None


def _own() -> Path | None:
    """The directory of our own group, if we may create groups in it."""
    mount = _mount()
    if mount is None:
        return None
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            directory = mount / line[3:].lstrip("/")
            return directory if os.access(directory, os.W_OK) else None
    return None
