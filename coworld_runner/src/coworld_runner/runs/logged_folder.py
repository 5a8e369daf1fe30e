"""Folders with append-only logs that processes write to in turn, each for a moment only."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from coworld_core.files.locks import while_opening

from ._append_log import AppendedFile
from .workspace import unwritable

__all__ = ["open_in_turn"]


@contextmanager
def open_in_turn(log: Path) -> Generator[AppendedFile]:
    """Open a log to append to, without an incomplete last line, once no other process has a log of its folder open.

    Args:
        log: The log. Its folder is made if it is missing.

    Raises:
        WorkspaceError: The folder cannot be made, or the log cannot be opened.
        EnvironmentFault: The disk is full.
    """
    folder = log.parent
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(while_opening(folder))
            file = stack.enter_context(AppendedFile(log))
        except OSError as error:
            raise unwritable(folder.parent, error) from error
        file.cut_unfinished()
        yield file
