"""Progress of transfers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from coworld_core.text import shown_size

from .text import clean

if TYPE_CHECKING:
    from coworld_client.uploads import ImageProgress, OnImage

    from ..output import Output

__all__ = ["shown_images", "shown_progress"]

_REDRAW_SECONDS = 0.1
_LINE_SECONDS = 15.0


@contextmanager
def shown_progress(
    out: Output, label: str, *, amount: Callable[[int], str] = shown_size
) -> Generator[Callable[[int, int | None], None]]:
    """Show progress: on a line that is updated on a terminal, else on an occasional new line.

    Args:
        out: Where to narrate.
        label: What is transferred or made.
        amount: How much it is, in words; by default bytes.

    Yields:
        The callback for progress.
    """
    name = clean(label, one_line=True)
    told = time.monotonic()
    drawn = False

    def tell(done: int, total: int | None) -> None:
        nonlocal told, drawn
        now = time.monotonic()
        far = f"{amount(done)} of {amount(total)}" if total else amount(done)
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


@contextmanager
def shown_images(out: Output) -> Generator[OnImage]:
    """Show the progress of an image's upload, and announce each stage once."""
    begun: set[tuple[str, str]] = set()
    words = {"reading": "reading", "packing": "packing", "pushing": "sending"}
    with shown_progress(out, "image") as tell:

        def on_progress(progress: ImageProgress) -> None:
            stage = progress.image, progress.stage
            if stage not in begun:
                begun.add(stage)
                total = f", {shown_size(progress.total)}" if progress.total else ""
                out.note(f"{clean(progress.image, one_line=True)}: {words[progress.stage]}{total}")
            tell(progress.done, progress.total)

        yield on_progress
