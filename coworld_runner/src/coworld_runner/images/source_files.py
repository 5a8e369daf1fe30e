"""The files that an image is built from, without what tools and runs leave beside them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from coworld_core.episode.layout import EpisodeLayout

from .build_context import ContextError, Ignore

__all__ = ["source_files", "stamps"]

_LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)
"""Directories that tools write beside the sources."""
_EVENTS = EpisodeLayout(Path()).events.name
"""A directory with this file is the workspace of a run."""


def source_files(context: Path, *, without: Collection[Path] = ()) -> Iterator[tuple[str, Path]]:
    """List the files of a build context, with links among them. Blocks.

    Files excluded by `.dockerignore`, and workspaces of runs, are left out.

    Args:
        context: The directory.
        without: Files and directories to leave out.

    Yields:
        Each file's path relative to the context, with forward slashes, and its path.
    """
    try:
        ignore = Ignore((context / ".dockerignore").read_text(encoding="utf-8", errors="replace"))
    except (OSError, ContextError):
        ignore = Ignore("")
    for place, directories, names in os.walk(context):
        here = Path(place)
        if here != context and _EVENTS in names:
            directories.clear()
            continue
        linked = [name for name in directories if (here / name).is_symlink()]
        directories[:] = sorted(name for name in directories if name not in _LEFT_OUT and here / name not in without)
        for name in sorted((*names, *linked)):
            path = here / name
            inside = path.relative_to(context).as_posix()
            if path not in without and not ignore.ignores(inside):
                yield inside, path


def stamps(*contexts: Path) -> tuple[tuple[str, int, int, int], ...]:
    """What changes as soon as a file of build contexts does: paths, sizes, times and numbers of inodes. Blocks."""
    return tuple(
        (str(path), status.st_size, status.st_mtime_ns, status.st_ino)
        for context in sorted({*contexts})
        for _, path in source_files(context)
        if (status := path.lstat())
    )
