"""Directories that are hard to remove."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from coworld_runner.runs._tree_removal import remove_tree

__all__ = ["dig", "dug"]


def dig(top: Path, depth: int, name: str = "deeper") -> None:
    """Create nested directories with a file in each."""
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=below))
        os.close(here)
        here = below
    os.close(here)


@contextmanager
def dug(top: Path) -> Generator[None]:
    """Create directories during the block that are nested deeper than `shutil.rmtree`, and so pytest, can remove."""
    dig(top, 2000)
    try:
        yield
    finally:
        remove_tree(top / "deeper")
