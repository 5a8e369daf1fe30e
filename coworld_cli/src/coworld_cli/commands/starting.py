"""The beginning of a game or a player."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..options.values import DIRECTORY, FILE
from ..output import Output, output_options
from ..render.text import command_line, shown_path

if TYPE_CHECKING:
    from coworld_runner.serving.starting import NewFiles

__all__ = ["commands"]

commands = NounGroup()


@commands.group("init", cls=NounGroup)
def init() -> None:
    """Start a new game, or a new player."""


@init.command("game")
@click.argument("name")
@click.argument("directory", required=False, type=DIRECTORY, metavar="[DIR]")
@output_options
def game(out: Output, name: str, directory: Path | None) -> int:
    """Begin a game called NAME: rules, a player and a manifest, which play as they are.

    DIR must be new or empty; by default it is called like the game.
    """
    from coworld_runner.serving.starting import new_game

    made = new_game(name, directory=directory)
    _tell(out, made, then=["dev", str(made.directory)])
    return exitcodes.OK


@init.command("player")
@click.argument("file", type=FILE)
@output_options
def player(out: Output, file: Path) -> int:
    """Begin a player: FILE gets one function, which plays any game of the kit.

    FILE ends with .py for Python, with .mjs for JavaScript.
    """
    from coworld_runner.serving.starting import new_player

    _tell(out, new_player(file), then=None)
    return exitcodes.OK


def _tell(out: Output, made: NewFiles, *, then: list[str] | None) -> None:
    out.answer({"directory": str(made.directory.absolute()), "files": list(made.paths)})
    for path in made.paths:
        out.say(f"Wrote {shown_path(made.directory / path)}.")
    if then is not None:
        out.say(f"\nNext:  {command_line(*then)}")
