"""Fails tests that leave something behind: processes, threads, ports, run directories, containers.

In a `conftest.py`::

    @pytest.fixture(scope="session", autouse=True)
    def own_scratch(tmp_path_factory):
        with private_scratch(tmp_path_factory.mktemp("scratch")):
            yield

    @pytest.fixture(autouse=True)
    def no_leaks(request):
        with leak_check(containers=request.node.get_closest_marker("docker") is not None):
            yield
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..backends.base import Reservation
from ..runs.scratch import scratch_root

__all__ = ["leak_check", "private_scratch"]

_SETTLE_SECONDS = 10.0
"""How long something that is already ending may take to disappear."""

_POOLS = ("AnyIO worker thread", "asyncio_", "ThreadPoolExecutor-", "pytest_timeout")
"""Name prefixes of pool threads, which belong to an event loop or to pytest and end with it."""


@contextmanager
def private_scratch(directory: Path) -> Generator[None]:
    """Give this process, and those it starts, their own directory for temporary files.

    Two test sessions on one machine then never see each other's runs, so every leftover belongs to the session itself.
    """
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(directory)
    tempfile.tempdir = None
    try:
        yield
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before
        tempfile.tempdir = None


@contextmanager
def leak_check(*, containers: bool = False, ignore: Collection[str] = ()) -> Generator[None]:
    """Fail if something that the block creates outlives it.

    Checked are child processes, threads, reserved ports, run directories in this process's `scratch_root`, processes
    labelled with a run there and, if `containers` is set, containers, networks and volumes labelled likewise.

    Args:
        containers: Whether to check the local Docker engine too.
        ignore: Names of child processes that may stay (a browser that several tests share).

    Raises:
        AssertionError: Something is left; the message lists it.
    """
    processes, before = _processes(), _present(containers).keys()
    yield
    deadline = time.monotonic() + _SETTLE_SECONDS
    while True:
        left = {key: text for key, text in _present(containers).items() if key not in before}
        left |= _ours(_processes() - processes, ignore)
        if not left:
            return
        if time.monotonic() >= deadline:
            raise AssertionError("left behind: " + "; ".join(sorted(left.values())))
        # No event loop runs around a test, and nothing reports that a process, port or container is gone
        time.sleep(0.01)


def _present(containers: bool) -> dict[tuple[str, object], str]:
    """Everything that exists now except processes: a description of each by its identity."""
    present: dict[tuple[str, object], str] = {}
    for thread in threading.enumerate():
        if not _pooled(thread):
            present["thread", thread.ident] = f"thread {thread.name}"
    for number in Reservation.held():
        present["port", number] = f"reserved port {number}"
    with contextlib.suppress(OSError):
        for entry in scratch_root().iterdir():
            present["directory", entry.name] = f"directory {entry}"
    if containers:
        for name in _labelled_in_engine():
            present["engine", name] = name
    return present


def _pooled(thread: threading.Thread) -> bool:
    return thread.name.startswith(_POOLS)


def _processes() -> frozenset[int]:
    """The pids of all processes. Their details cost more, so they are read for new processes only."""
    import psutil

    return frozenset(psutil.pids())


def _ours(processes: frozenset[int], ignore: Collection[str]) -> dict[tuple[str, object], str]:
    """Describe those of the processes that are our descendants or carry the label of one of our runs."""
    import psutil

    root = str(scratch_root())
    ours: dict[tuple[str, object], str] = {}
    for number in processes:
        with contextlib.suppress(psutil.Error, OSError):
            process = psutil.Process(number)
            if os.getpid() in (parent.pid for parent in process.parents()):
                if process.name() not in ignore:
                    ours["child", number] = f"child process {number} ({process.name()}, {process.status()})"
                continue
            environment = process.environ()
            if environment.get("COWORLD_SCRATCH", "").startswith(root):
                unit, run = environment.get("COWORLD_UNIT"), environment.get("COWORLD_RUN_ID")
                ours["process", number] = f"process {number} ({unit} of run {run})"
    return ours


class _EngineConnection(http.client.HTTPConnection):
    def connect(self) -> None:
        address = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        if not address.startswith("unix://"):
            raise OSError("only a local engine is looked at")
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(address.removeprefix("unix://"))


def _labelled_in_engine() -> list[str]:
    filters = quote(json.dumps({"label": ["coworld.run"]}))
    paths = {
        "container": f"/containers/json?all=true&filters={filters}",
        "network": f"/networks?filters={filters}",
        "volume": f"/volumes?filters={filters}",
    }
    root = str(scratch_root())
    labelled: list[str] = []
    for kind, path in paths.items():
        connection = _EngineConnection("docker")
        try:
            connection.request("GET", path)
            answer: Any = json.load(connection.getresponse())
        except (OSError, ValueError, http.client.HTTPException):
            return []  # No engine, so nothing of ours on it
        finally:
            connection.close()
        items: list[dict[str, Any]] = (answer.get("Volumes") or []) if kind == "volume" else answer
        for item in items:
            labels: dict[str, str] = item.get("Labels") or {}
            if labels.get("coworld.scratch", "").startswith(root):
                names: list[str] = item.get("Names") or [item.get("Name") or "?"]
                labelled.append(f"{kind} {names[0].lstrip('/')} of run {labels['coworld.run']}")
    return labelled
