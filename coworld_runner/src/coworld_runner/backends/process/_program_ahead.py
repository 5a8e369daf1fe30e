"""Programs that were started ahead, and fork for each unit, so that their imports are not paid for again.

A game says that its server can by `COWORLD_SERVES=many` among its variables; `kit.server.many_games` is the other end.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio.to_thread

from ...images.source_files import stamps
from ...runs.scratch import REMOVE_SECONDS, Scratch
from ._image_layout import ImageLayout
from .child_process import ChildProcess

__all__ = ["CAN_FORK", "ForkedShim", "ProgramAhead", "ProgramsAhead"]

CAN_FORK: Final = sys.platform == "linux" and hasattr(os, "pidfd_open")
"""Whether a program can fork for a unit here, and the unit be found by its labels."""

_ANSWER_SECONDS = 5.0
_MOST = 4
"""Programs that are kept; each has the memory of a started game."""
_ROOM = 16 * 1024
"""Bytes of environment that others can see of a unit."""


class ForkedShim:
    """A unit's shim that a program started ahead has forked: like a `Popen`, as far as a unit asks.

    Attributes:
        pid: Its process.
        returncode: 0 once it has ended, or is waited for no more; else None.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        # While it waits for its first order, so that the number is still its own
        self._descriptor = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Return 0 if it has ended, else None."""
        if self.returncode is None and select.select([self._descriptor], [], [], 0)[0]:
            self.returncode = 0
            os.close(self._descriptor)
        return self.returncode


class ProgramAhead:
    """A program that waits, with everything imported that its units need.

    Args:
        argv: Its command.
        env: Its environment, in which no unit's secrets are.
        directory: Where it and its units run.
        scratch: Its own files, removed with it.
        laid: Its image's files, laid out there.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        directory: Path,
        scratch: Scratch,
        laid: ImageLayout | None,
    ) -> None:
        self.directory = directory
        self.laid = laid
        self.units = 0
        """How many units it has forked that are there."""
        self._scratch = scratch
        self._asked, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._child = ChildProcess(
                argv,
                env={**env, "COWORLD_AHEAD": str(other.fileno()), "COWORLD_ROOM": "-" * _ROOM},
                directory=directory,
                files=(other.fileno(),),
                stderr=subprocess.DEVNULL,
            )
        self._asked.setblocking(False)
        self._ready = False

    @property
    def ready(self) -> bool:
        """Whether it has imported everything, and waits."""
        if not self._ready:
            with suppress(OSError):
                self._ready = bool(self._asked.recv(64))
                self._asked.settimeout(_ANSWER_SECONDS)
        return self._ready and not self._child.has_ended

    def fork(self, arguments: Sequence[str], environment: Mapping[str, str], files: Sequence[int]) -> ForkedShim | None:
        """Have a unit forked.

        Args:
            arguments: Those of its shim, without the control descriptor.
            environment: The unit's whole environment.
            files: The shim's end of its control socket; standard output; standard error.

        Returns:
            Its shim, which waits for an order; None if the program cannot fork it.
        """
        order = json.dumps({"arguments": arguments, "environment": environment}).encode()
        try:
            socket.send_fds(self._asked, [order], files)
            return ForkedShim(int(self._asked.recv(64)))
        except (OSError, ValueError):
            # It has ended, or the environment is too long for a packet
            return None

    def close(self) -> None:
        """End it, with all that it has forked. Blocks."""
        self._asked.close()
        self._child.close()
        self._scratch.remove(REMOVE_SECONDS)


@dataclass
class _Known:
    """A program of which there was a unit."""

    begun: bool = False
    """Whether it was started ahead; that need not have worked."""
    program: ProgramAhead | None = None
    stamps: Hashable = None
    """Of the files that it was started with."""


@dataclass
class ProgramsAhead:
    """Programs of a backend, each started ahead with its second unit, since the first may be the only one."""

    _known: dict[Hashable, _Known] = field(default_factory=dict[Hashable, _Known])
    """By what they are; the one that was met last is the last."""
    _old: list[ProgramAhead] = field(default_factory=list[ProgramAhead])
    """Those that end as soon as they have no units."""

    async def meet(self, key: Hashable, context: Path, begin: Callable[[], Awaitable[ProgramAhead]]) -> None:
        """Note that there is to be a unit of a program, and start the program ahead if that is worth while.

        Args:
            key: Which program.
            context: The directory with its files. After they have changed, it is another program.
            begin: Starts it.
        """
        known = self._known.pop(key, None)
        self._known[key] = known or _Known()
        if known is None:
            return
        now = await anyio.to_thread.run_sync(stamps, context)
        if not known.begun:
            known.begun, known.stamps = True, now
            # Or nobody would end what was started
            with anyio.CancelScope(shield=True):
                known.program = await begin()
        elif known.stamps != now:
            self._give_up(known)
        kept = [one for one in self._known.values() if one.program is not None]
        for one in kept[:-_MOST]:
            self._give_up(one)
        unused = [one for one in self._old if not one.units]
        self._old = [one for one in self._old if one.units]
        for program in unused:
            await anyio.to_thread.run_sync(program.close)

    def _give_up(self, known: _Known) -> None:
        if known.program is not None:
            self._old.append(known.program)
        known.begun, known.program = False, None

    def find(self, key: Hashable) -> ProgramAhead | None:
        """The program, if it waits."""
        known = self._known.get(key)
        return known.program if known is not None and known.program is not None and known.program.ready else None

    async def close(self) -> None:
        """End all of them."""
        programs = [*self._old, *(one.program for one in self._known.values() if one.program is not None)]
        self._known.clear()
        self._old.clear()
        with anyio.CancelScope(shield=True):
            for program in programs:
                await anyio.to_thread.run_sync(program.close)
