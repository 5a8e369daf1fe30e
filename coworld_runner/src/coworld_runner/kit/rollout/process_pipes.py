"""The pipes of a process that runs foreign code, which may print and read anything."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import BinaryIO

__all__ = ["own_pipes"]


@contextmanager
def own_pipes() -> Generator[tuple[BinaryIO, BinaryIO]]:
    """Yield the pipes from and to the parent; other code then reads nothing and prints to standard error."""
    with os.fdopen(os.dup(0), "rb") as told, os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a device
            os.dup2(nothing.fileno(), 0)
        yield told, out
