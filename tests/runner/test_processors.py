"""The number of processors that a process may use, by affinity and by the quotas of real control groups."""

from __future__ import annotations

import contextlib
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.images import BASE_IMAGE, docker_client

from coworld_runner.doctor import check_machine
from coworld_runner.episode.parallelism import Parallelism
from coworld_runner.runs import processors
from coworld_runner.runs.processors import usable_processors

_SAYS = f"{inspect.getsource(processors)}\nprint(usable_processors())"
"""The module as a program: it needs nothing but Python."""

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")


@pytest.fixture
def one() -> Iterator[None]:
    """This process on one processor."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("one")
async def test_affinity_leaves_fewer() -> None:
    assert usable_processors() == 1
    assert Parallelism("auto", remote=False).now == 1


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with half a processor."""
    for made, name, text in (
        (Path(f"/sys/fs/cgroup/cpu/coworld-test-{os.getpid()}"), "cpu.cfs_quota_us", "50000"),
        (Path(f"/sys/fs/cgroup/coworld-test-{os.getpid()}"), "cpu.max", "50000 100000"),
    ):
        try:
            made.mkdir()
        except OSError:
            continue
        try:
            (made / name).write_text(text)
        except OSError:
            made.rmdir()
            continue
        yield made
        made.rmdir()
        return
    pytest.skip("control groups cannot be made here")


def test_a_quota_leaves_fewer(group: Path) -> None:
    join = f'echo $$ > "{group}/cgroup.procs" && exec "$0" -c "$1"'
    told = subprocess.run(["sh", "-c", join, sys.executable, _SAYS], capture_output=True, text=True, check=True)
    assert told.stdout == "1\n"


@pytest.mark.docker
@pytest.mark.parametrize(("cpus", "count"), [(0.5, 1), (1, 1), (None, len(os.sched_getaffinity(0)))])
def test_a_container_may_use_fewer(cpus: float | None, count: int) -> None:
    more = {} if cpus is None else {"nano_cpus": int(cpus * 1e9)}
    with contextlib.closing(docker_client()) as client:
        told = client.containers.run(BASE_IMAGE, ["python3", "-c", _SAYS], remove=True, **more)
    assert int(told) == min(count, usable_processors())


@pytest.mark.usefixtures("one")
async def test_doctor_shows_both() -> None:
    machine = await check_machine(backends=["process"])
    (told,) = [check.message for check in machine.checks if check.name == "processors"]
    count = os.cpu_count() or 1
    assert told.startswith(f"1 processor of the machine's {count} (" if count > 1 else "1 processor")
