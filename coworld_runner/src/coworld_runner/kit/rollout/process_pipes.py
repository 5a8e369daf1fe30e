"""How a process that runs foreign code, which may print and read anything, is in touch with the one that started it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from mmap import mmap
from typing import BinaryIO, Final, cast

__all__ = ["WorkerProgress", "memory_file", "own_pipes"]


@contextmanager
def own_pipes() -> Generator[tuple[BinaryIO, BinaryIO]]:
    """Yield the pipes from and to the parent; other code then reads nothing and prints to standard error."""
    with os.fdopen(os.dup(0), "rb") as told, os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a device
            os.dup2(nothing.fileno(), 0)
        yield told, out


def memory_file(size: int) -> BinaryIO:
    """A file without a name that is in memory wherever that is possible."""
    if hasattr(os, "memfd_create"):
        file = cast("BinaryIO", os.fdopen(os.memfd_create("coworld"), "w+b"))
    else:
        file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - for whoever called
    file.truncate(size)
    return file


class WorkerProgress:
    """What a worker process is at, in memory that it shares: it can be seen when the process answers nothing.

    Args:
        memory: The shared memory, of `SIZE` bytes.
    """

    SIZE: Final = 24
    RULES: Final = -1
    """Stands for a seat, while the rules are called."""
    LONGER: Final = -2
    """Stands for a seat, while the rules are called again and again."""

    def __init__(self, memory: mmap | bytearray) -> None:
        self._cells = memoryview(memory).cast("q")

    def note(self, episode: int, seat: int) -> None:
        """Note an episode, and the seat that is waited for or one of the constants."""
        cells = self._cells
        cells[1], cells[2] = episode, seat
        cells[0] += 1

    def read(self) -> tuple[int, int, int]:
        """How often something was noted, and what the last time."""
        beat, episode, seat = self._cells
        return beat, episode, seat
