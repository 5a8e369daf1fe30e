"""The leak check itself: what it must notice."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from coworld_core.ids import new_run_id
from coworld_runner.backends.base import choose_port
from coworld_runner.runs.scratch import make_scratch, scratch_root
from coworld_runner.testing import leak_check, leaks, private_scratch


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> object:
    monkeypatch.setattr(leaks, "_SETTLE_SECONDS", 0.2)
    with private_scratch(tmp_path):
        yield


def _child(stack: ExitStack) -> None:
    process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]))
    stack.callback(process.kill)


def _labelled(stack: ExitStack) -> None:
    # adopted by init, so no child of ours: only the label tells
    code = "import os, signal; os.fork() and os._exit(0); os.setsid(); print(os.getpid(), flush=True); signal.pause()"
    environment = {"COWORLD_RUN_ID": "x", "COWORLD_UNIT": "stray", "COWORLD_SCRATCH": str(scratch_root() / "x")}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    stack.callback(os.kill, pid, 9)
    process.stdout.close()
    process.wait()


def _thread(stack: ExitStack) -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name="stray")
    thread.start()
    stack.callback(thread.join)
    stack.callback(over.set)


def _directory(stack: ExitStack) -> None:
    stack.enter_context(make_scratch(new_run_id()))


def _port(stack: ExitStack) -> None:
    stack.callback(choose_port().close)


@pytest.mark.parametrize(
    ("leak", "what"),
    [
        (_child, "child process"),
        (_labelled, "stray of run x"),
        (_thread, "thread stray"),
        (_directory, "directory"),
        (_port, "reserved port"),
    ],
)
def test_leak_is_named(leak: Callable[[ExitStack], None], what: str) -> None:
    with (
        ExitStack() as stack,
        pytest.raises(AssertionError, match="left behind") as caught,
        leak_check(),
    ):
        leak(stack)
    assert what in str(caught.value)


def test_earlier_and_finished_resources_are_no_leaks() -> None:
    with ExitStack() as outer:
        _child(outer)
        with leak_check(), ExitStack() as inner:
            _child(inner)
            _directory(inner)


def test_a_shared_program_may_stay() -> None:
    interpreter = Path(sys.executable)
    # the kernel's name of a process is that of the file it runs, whatever links led there
    with ExitStack() as stack, leak_check(ignore={interpreter.name, interpreter.resolve().name, "python", "python3"}):
        _child(stack)


def test_scratch_is_private_only_inside(tmp_path: Path) -> None:
    before = scratch_root()
    inner = tmp_path / "inner"
    inner.mkdir()
    with private_scratch(inner):
        assert scratch_root().parent == inner
    assert scratch_root() == before
