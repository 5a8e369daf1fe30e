"""What the terminal can show, and writing to it."""

from __future__ import annotations

import os
import sys

import click

__all__ = ["colour", "echo", "is_live", "typed_line"]


def colour() -> bool | None:
    """Whether to colour: as NO_COLOR, FORCE_COLOR and TERM say, else (None) by what is written to."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return True if os.environ.get("FORCE_COLOR") else None


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Write a line to standard output, or to standard error; colours only where they are wanted."""
    click.echo(text, err=err, nl=nl, color=colour())


def is_live() -> bool:
    """Whether a display that moves makes sense on standard error: a person's terminal, and nothing against it."""
    dumb = os.environ.get("TERM", "") in ("", "dumb") and os.name != "nt"
    return not dumb and not os.environ.get("CI") and sys.stderr.isatty()


async def typed_line() -> str | None:
    """A line that a person types. Nothing waits in a thread that the end of the program would have to wait for."""
    import anyio

    descriptor = sys.stdin.fileno()
    await anyio.wait_readable(descriptor)
    return os.read(descriptor, 4096).decode("utf-8", "replace").strip() or None
