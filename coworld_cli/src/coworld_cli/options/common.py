"""Options shared by commands of several nouns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from .values import FILE, Seconds

__all__ = [
    "browser_option",
    "ca_option",
    "concurrency_option",
    "in_terminal_option",
    "overwrite_option",
    "seconds_option",
]

_F = TypeVar("_F", bound=Callable[..., Any])

browser_option = click.option(
    "--open-browser/--no-open-browser",
    default=None,
    help="Open the page in a browser. Default: only from a terminal with a desktop.",
)
in_terminal_option = click.option(
    "--in-terminal",
    is_flag=True,
    help="Show the board here, in text, instead of in the browser; over ssh, for example.",
)
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")

ca_option = click.option(
    "--ca",
    type=FILE,
    metavar="FILE",
    envvar="COWORLD_CA_FILE",
    show_envvar=True,
    help="Trust this authority as well: its certificate, as PEM.",
)


def seconds_option(name: str, default: float, help: str, *, least: float = 0.0) -> Callable[[_F], _F]:
    """An option for a duration in seconds, with its default in the help."""
    return click.option(name, type=Seconds(least=least), default=default, help=f"{help}  [default: {default:g}]")


def concurrency_option(noun: str) -> Callable[[_F], _F]:
    """An option for how many things are fetched at a time."""
    return click.option(
        "--concurrency",
        type=click.IntRange(1, 16),
        default=4,
        metavar="N",
        show_default=True,
        help=f"Number of {noun} to fetch at a time.",
    )
