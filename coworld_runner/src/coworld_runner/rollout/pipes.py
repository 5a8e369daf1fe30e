"""The pipes of a process that is started to run the code of others, which prints and reads what it likes."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import BinaryIO

__all__ = ["own_pipes"]


@contextmanager
def own_pipes() -> Generator[tuple[BinaryIO, BinaryIO]]:
    """What the parent sends and what it reads; from here on, other code reads nothing and prints to standard error."""
    with os.fdopen(os.dup(0), "rb") as told, os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a device
            os.dup2(nothing.fileno(), 0)
        yield told, out
