"""Capabilities of the terminal, and writing to it."""

from __future__ import annotations

import os
import sys

import click

from coworld_core.text import pasteable

__all__ = ["colour", "echo", "is_live", "typed_line"]


def colour() -> bool | None:
    """Whether to use colour, by NO_COLOR, FORCE_COLOR and TERM; None: depends on the stream."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return True if os.environ.get("FORCE_COLOR") else None


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Write a line to standard output or standard error, with colours only where they are wanted.

    Standard error only narrates, so that it may be full or closed.
    """
    try:
        click.echo(pasteable(text), err=err, nl=nl, color=colour())
    except OSError as error:
        if not err:
            error.filename = "standard output"
            raise


def is_live() -> bool:
    """Whether standard error can have a live display: an interactive one that supports it, outside CI."""
    dumb = os.environ.get("TERM", "") in ("", "dumb") and os.name != "nt"
    return not dumb and not os.environ.get("CI") and sys.stderr.isatty()


async def typed_line() -> str | None:
    """Read a line that the user types, without a thread that would delay the end of the program."""
    import anyio

    descriptor = sys.stdin.fileno()
    await anyio.wait_readable(descriptor)
    return os.read(descriptor, 4096).decode("utf-8", "replace").strip() or None
