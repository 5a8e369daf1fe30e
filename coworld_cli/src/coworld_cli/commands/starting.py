"""The beginning of a game or a player."""

from __future__ import annotations

from dataclasses import asdict
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


@commands.command("wrap")
@click.argument("source", required=False, metavar="[LIBRARY:GAME]")
@click.option(
    "-o",
    "--output",
    "directory",
    type=DIRECTORY,
    help="Directory of the package, new or empty; the game is called like it. Default: like the game.",
)
@click.option(
    "--list",
    "library",
    is_flag=False,
    flag_value="openspiel",
    metavar="[LIBRARY]",
    help="List the games of a library, and why some cannot be wrapped.",
)
@click.option("--measure/--no-measure", default=True, help="Measure the card of the game.  [default: measure]")
@output_options
def wrap(out: Output, source: str | None, directory: Path | None, library: str | None, measure: bool) -> int:
    """Make a package of a library's game: rules, two players, a manifest and a card with what was measured.

    The library must be installed where coworld is.

    \b
    Example:
      coworld wrap openspiel:hanabi -o hanabi && coworld run-episode hanabi
    """  # noqa: D301 (click reads the backspace)
    if library is not None:
        from coworld_runner.wrapping.sources import list_wrappable

        games = list_wrappable(library)
        out.answer([asdict(game) for game in games])
        for game in games:
            out.say(f"{game.source}: {f'no: {game.refused}' if game.refused else game.title}")
        return exitcodes.OK
    if source is None:
        raise click.UsageError("Name a game, such as openspiel:hanabi, or say --list.")
    from coworld_runner.wrapping.package import wrap_game

    made = wrap_game(source, directory=directory, measure=measure)
    if made.card is not None:
        out.say(made.card.markdown())
    _tell(out, made, then=["run-episode", str(made.directory)])
    return exitcodes.OK


def _tell(out: Output, made: NewFiles, *, then: list[str] | None) -> None:
    out.answer({"directory": str(made.directory.absolute()), "files": list(made.paths)})
    for path in made.paths:
        out.say(f"Wrote {shown_path(made.directory / path)}.")
    if then is not None:
        out.say(f"\nNext:  {command_line(*then)}")
