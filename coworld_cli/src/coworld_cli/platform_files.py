"""Where downloads go: names of ours, nothing overwritten by accident, and how far a transfer is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from coworld_core.errors import UsageError, WorkspaceError
from coworld_core.ids import id_problem

from .output import Output
from .text import clean, shown_path, size

__all__ = ["new_directory", "shown_progress", "target_file"]

_REDRAW_SECONDS = 0.1
_LINE_SECONDS = 15.0

OnProgress = Callable[[int, int | None], None]
"""Takes bytes done and bytes in all, as far as that is known."""


def target_file(given: Path | None, default: str, *, overwrite: bool) -> Path:
    """The file to write, absolute.

    Args:
        given: As named by the caller.
        default: Name in the current directory otherwise.
        overwrite: Whether it may be there.

    Raises:
        UsageError: The default cannot be a file's name.
        WorkspaceError: It is a directory, or is there and must not be.
    """
    if given is None and (problem := id_problem(default)) is not None:
        raise UsageError(f"{default!r} {problem}, so it names no file.", code="bad_id", hint="Name one with --output.")
    path = (given or Path(default)).expanduser().absolute()
    if path.is_dir():
        raise WorkspaceError(f"{shown_path(path)} is a directory.", code="path_is_directory", hint="Name a file.")
    if path.exists() and not overwrite:
        raise WorkspaceError(
            f"{shown_path(path)} is there already.",
            code="path_exists",
            hint="Name another file, or add --overwrite.",
            context={"path": str(path)},
        )
    return path


def new_directory(path: Path) -> Path:
    """A directory to put files into, made if it is not there; absolute.

    Raises:
        WorkspaceError: It cannot be made, or is something else.
    """
    path = path.expanduser().absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkspaceError(
            f"{shown_path(path)} cannot be made a directory: {error.strerror}.",
            code="path_unwritable",
            context={"path": str(path)},
        ) from error
    return path


@contextmanager
def shown_progress(out: Output, label: str) -> Generator[OnProgress]:
    """Show how far a transfer is: on a line that changes on a terminal, else on a line now and then.

    Args:
        out: Where to narrate.
        label: What is transferred.

    Yields:
        What to tell.
    """
    name = clean(label, one_line=True)
    told = time.monotonic()
    drawn = False

    def tell(done: int, total: int | None) -> None:
        nonlocal told, drawn
        now = time.monotonic()
        far = f"{size(done)} of {size(total)}" if total else size(done)
        if out.live and out.above is None:
            if now - told >= _REDRAW_SECONDS or not drawn:
                sys.stderr.write(f"\r\x1b[2K{name}: {far}")
                sys.stderr.flush()
                told, drawn = now, True
        elif now - told >= _LINE_SECONDS:
            out.note(f"{name}: {far}")
            told = now

    try:
        yield tell
    finally:
        if drawn:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
