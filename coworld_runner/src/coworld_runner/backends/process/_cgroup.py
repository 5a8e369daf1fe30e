"""A control group for each local unit, on Linux where the user may make one.

What is in it stays known as the unit's, whatever becomes of its environment, its session and its parents. A unit makes
its group as it starts and gives it back as it ends (see ``_shim``); here its name is chosen, and read.
"""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path

__all__ = ["group_of", "new_group", "remove_empty_groups", "remove_group"]

_PREFIX = "coworld."


def new_group(run_id: str, unit: str) -> str:
    """The directory of a unit's group, to be made; empty where there can be none."""
    parent = _own()
    return str(parent / f"{_PREFIX}{run_id}.{unit}") if parent is not None else ""


def group_of(pid: str) -> tuple[str, str]:
    """The run and the unit of whose group a process is; both empty when it is in none."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return "", ""
    names = [name for line in lines if line.startswith("0::") for name in line.split("/") if name.startswith(_PREFIX)]
    run, _, unit = names[-1].removeprefix(_PREFIX).partition(".") if names else ("", "", "")
    return run, unit


def remove_group(directory: Path) -> None:
    """Remove a group that its unit could not give back; the kernel keeps one in which somebody is."""
    with contextlib.suppress(OSError):
        directory.rmdir()


def remove_empty_groups() -> None:
    """Remove what is left of units that were killed together with all that looked after them."""
    for path, directories, _ in os.walk(_mount() or ""):
        for name in directories:
            if name.startswith(_PREFIX):
                remove_group(Path(path, name))


@functools.cache
def _mount() -> Path | None:
    """Where the one hierarchy of control groups is mounted (version 2), if it is."""
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
    """The directory of our own group, if another can be made in it."""
    mount = _mount()
    if mount is None:
        return None
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            directory = mount / line[3:].lstrip("/")
            return directory if os.access(directory, os.W_OK) else None
    return None
