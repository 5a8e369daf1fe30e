"""Serves one game after another, or many at a time: each in a process of its own that is forked from this one.

What starts a game's server for every episode pays for its imports each time. A runner that plays several episodes
starts one with `COWORLD_AHEAD`, which imports all that a game needs and waits; an episode then costs a fork. Each game
is supervised as any other program, has its own environment, and is found by its own labels.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NoReturn

from ...backends.process import _shim

__all__ = ["serve_many"]

LONGEST: Final = 1 << 20


def serve_many(control: int, *, prepare: Callable[[], object], serve: Callable[[], int]) -> int:
    """Fork a game for each request until the runner hangs up, and return the exit code.

    A request is one packet: the arguments of a shim without the control descriptor, and the game's whole environment;
    with the descriptors of its control socket, its standard output and its standard error. The answer is the process id
    of the shim's guard.

    Args:
        control: The socket, of packets.
        prepare: Imports what every game needs. If that starts a thread, nothing can be forked safely, and this ends.
        serve: Serves the game of the environment, and returns its exit code.
    """
    prepare()
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208
        return 1
    # What is never freed is shared by all games
    gc.collect()
    gc.freeze()
    # Nobody waits for the guards: they are seen to end by their descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=control) as asked:
        asked.send(b"ready")
        while True:
            packet, files, *_ = socket.recv_fds(asked, LONGEST, 3)
            if not packet:
                return 0
            guard = os.fork()
            if not guard:
                _become_guard(asked, packet, files, serve)
            for file in files:
                os.close(file)
            asked.send(str(guard).encode())


def _become_guard(asked: socket.socket, packet: bytes, files: list[int], serve: Callable[[], int]) -> NoReturn:
    """Supervise one game, which is forked once more, as its runner would; never returns."""
    try:
        asked.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        control, stdout, stderr = files
        for number, file in enumerate((stdout, stderr), start=1):
            os.dup2(file, number)
            os.close(file)
        order = json.loads(packet)
        os.environ.clear()
        os.environ.update(order["environment"])
        _show_environment(order["environment"])
        # It was made for another home
        tempfile.tempdir = None
        _shim.main([str(control), *order["arguments"]], lambda: _served(serve))
    finally:
        os._exit(0)


def _served(serve: Callable[[], int]) -> int:
    # As the interpreter has them when it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        return serve()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _show_environment(environment: Mapping[str, str]) -> None:
    """Have others see this environment, instead of the one that the process began with: it is found by its labels.

    What does not fit is not shown. Nothing in this process refers to the old one any more.
    """
    start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47:49])
    room = end - start - 1
    shown = b""
    for name, value in environment.items():
        if len(entry := f"{name}={value}".encode() + b"\0") <= room - len(shown):
            shown += entry
    with open("/proc/self/mem", "r+b", buffering=0) as memory:  # noqa: PTH123
        memory.seek(start)
        memory.write(shown.ljust(room + 1, b"\0"))
