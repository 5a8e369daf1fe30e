"""Single options that commands of several nouns have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from .values import Seconds

__all__ = ["browser_option", "concurrency_option", "overwrite_option", "seconds_option"]

_F = TypeVar("_F", bound=Callable[..., Any])

browser_option = click.option(
    "--open-browser/--no-open-browser",
    default=None,
    help="Open the page in a browser. Default: only from a terminal with a desktop.",
)
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace the file if it is there.")


def seconds_option(name: str, default: float, help: str, *, least: float = 0.0) -> Callable[[_F], _F]:
    """An option for a time, whose help says how long it is by default."""
    return click.option(name, type=Seconds(least=least), default=default, help=f"{help}  [default: {default:g}]")


def concurrency_option(noun: str) -> Callable[[_F], _F]:
    """How many of something are fetched at a time."""
    return click.option(
        "--concurrency",
        type=click.IntRange(1, 16),
        default=4,
        metavar="N",
        show_default=True,
        help=f"How many {noun} at a time.",
    )
