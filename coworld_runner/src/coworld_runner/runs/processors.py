"""How many processors this process may use, which may be fewer than the machine has."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["usable_processors"]

_CGROUPS = Path("/sys/fs/cgroup")


def usable_processors() -> int:
    """The number of processors that this process may use; at least 1.

    Affinity (`taskset`, Slurm) and the quota of a cgroup (`docker run --cpus`, a pod's limit) may leave it fewer than
    the machine has. A part of a processor counts as a whole one.
    """
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for quota in _quotas():
        found = min(found, math.ceil(quota))
    return max(1, found)


def _quotas() -> Iterator[float]:
    """The processors that the quotas of our cgroup, and of those that it is in, allow together."""
    try:
        lines = Path("/proc/self/cgroup").read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = _CGROUPS / controllers
        # In a container, the path may be the one outside of it: then the root is our own group
        group = root / path.lstrip("/")
        for directory in (group, *group.parents):
            yield from _quota(directory)
            if directory == root:
                break


def _quota(directory: Path) -> Iterator[float]:
    with contextlib.suppress(OSError, ValueError):
        allowed, period = (directory / "cpu.max").read_text("ascii").split()
        if allowed != "max":
            yield int(allowed) / int(period)
    with contextlib.suppress(OSError, ValueError):
        # The first version of cgroups; there -1 is no quota
        allowed, period = (int((directory / f"cpu.cfs_{name}_us").read_text("ascii")) for name in ("quota", "period"))
        if allowed > 0:
            yield allowed / period
