"""Pages of Markdown: formatted on a terminal and shown by the user's pager, elsewhere as they are."""

from __future__ import annotations

import sys

import click

from ..output import Output
from ..terminal import colour

__all__ = ["show_markdown"]

_WIDEST = 100
"""Columns of a page on a terminal: longer lines are hard to read."""


def show_markdown(text: str, out: Output, *, paged: bool = True) -> None:
    """Show a page; nothing under `--json`.

    Args:
        text: The page.
        out: Where to show it.
        paged: Whether the user's pager shows it on a terminal: a page that is only a part of what is shown goes by.
    """
    if out.json:
        return
    if not sys.stdout.isatty():
        out.say(text.rstrip("\n"))
        return
    from shutil import get_terminal_size

    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    # Code without a background, which would suit only dark terminals
    theme = Theme({"markdown.code": "bold cyan"})
    console = Console(force_terminal=True, width=min(get_terminal_size().columns, _WIDEST), theme=theme)
    with console.capture() as shown:
        # A link's target is written out: it names the page to read
        console.print(Markdown(text, code_theme="ansi_dark", hyperlinks=False))
    if paged:
        click.echo_via_pager(shown.get(), color=colour())
    else:
        click.echo(shown.get().rstrip(), color=colour())
