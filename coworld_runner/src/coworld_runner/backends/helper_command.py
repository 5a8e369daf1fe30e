"""Runs a command that helps to prepare something, and tells what it says."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.streams.text import TextReceiveStream

from coworld_core.text.terminal import strip_controls

__all__ = ["run_command"]

_TAIL = 20
"""Last lines that are kept."""


async def run_command(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    tell: Callable[[str], None],
    keep_open: Sequence[int] = (),
) -> tuple[int, str]:
    """Run a command in a session of its own; when it ends or is cancelled, all that it has started is killed.

    Args:
        argv: The program and its arguments.
        cwd: Its working directory.
        env: Its environment; None: this process's.
        tell: Receives each line that it prints, without control sequences.
        keep_open: File descriptors that it inherits.

    Returns:
        Its exit status, and the last lines that it has printed.

    Raises:
        OSError: It cannot be started.
    """
    tail: deque[str] = deque(maxlen=_TAIL)

    def say(line: str) -> None:
        line = strip_controls(line).rstrip()
        tail.append(line)
        tell(line)

    process = await anyio.open_process(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=keep_open,
    )
    try:
        assert process.stdout is not None
        rest = ""
        async for text in TextReceiveStream(process.stdout, errors="replace"):
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                say(line)
        if rest.strip():
            say(rest)
        status = await process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await process.aclose()
    return status, "\n".join(tail)
