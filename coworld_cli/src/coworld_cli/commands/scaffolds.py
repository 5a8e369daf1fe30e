"""Getting started: the sample world, a new game, a new player."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..options.common import browser_option
from ..options.values import DIRECTORY, FILE
from ..output import Output, output_options, published_option
from ..render.text import command_line, shown_path, table

if TYPE_CHECKING:
    from coworld_runner.kit.server.scaffolds import NewFiles

    from ..event_loop import Running

__all__ = ["commands", "tell_written"]

commands = NounGroup()

_DEMO = Path("coworld-demo")


@commands.command("demo")
@click.option(
    "--output-dir",
    "-o",
    type=DIRECTORY,
    metavar="DIR",
    help="New or empty directory for the sample, which you may change and build.  [default: ./coworld-demo]",
)
@browser_option
@output_options
def demo(out: Output, output_dir: Path | None, open_browser: bool | None) -> int:
    """Play the sample world, and see its replay.

    The sample, Paint Arena, is copied into a directory: game, players, pages and Dockerfile. Its two players play
    for a second or two as local processes, without Docker and without an account. The replay is a single page
    that opens in any browser.
    """
    from ..event_loop import run_async

    return run_async(out, lambda running: _demo(output_dir, running, open_browser=open_browser))


async def _demo(output_dir: Path | None, running: Running, *, open_browser: bool | None) -> int:
    """Write the sample's directory, play it, and write the page of its replay."""
    from importlib.resources import files

    from coworld_core.episode.layout import EpisodeLayout
    from coworld_core.ids import new_run_id
    from coworld_runner.episode.single import run_episode
    from coworld_runner.kit.server.scaffolds import new_sample
    from coworld_runner.replay.recorded_page import replay_page

    from ..browser import open_page, wants_browser
    from ..files import write_whole
    from ..options.play_options import PlayOptions
    from ..render.progress import show_progress
    from ..render.results import episode_result
    from ..run_preparation import episode_arguments, evidence_directory, find_package, opened_backend

    out = running.out
    directory = output_dir or _DEMO
    if output_dir is not None or not (directory / "coworld_manifest_template.json").is_file():
        new_sample(files("coworld_cli") / "sample", directory, known_as="examples/paintarena")
        out.note(f"Wrote the sample world to {shown_path(directory)}.")
    options = PlayOptions(manifest=str(directory))
    package = await find_package(options, running)
    run_id = new_run_id()
    layout = EpisodeLayout(evidence_directory(options, package, run_id))
    page = None
    async with opened_backend(options, package, running) as backend:
        with show_progress(running, package.manifest.game.name) as progress:
            run = episode_arguments(options, progress, backend, layout.workspace, run_id, watch=not out.quiet)
            record = await run_episode(package, **run)
        if record.ok:
            whole = await replay_page(package, layout.replay, backend=backend)
            page = write_whole(layout.workspace / "replay.html", whole.html.encode())
    out.answer(
        {
            "directory": str(directory.absolute()),
            "workspace": str(layout.workspace),
            "html": str(page) if page else None,
            "ok": record.ok,
        }
    )
    out.say(episode_result(record, layout, follow_up=None))
    if page is None:
        return exitcodes.ANSWER_IS_NO
    out.say(f"\nWatch it:  {click.style(page.as_uri(), bold=True)}\n\nThree things to try next:")
    tries = [
        (command_line("play", shown_path(directory), "--human", "0"), "take a seat yourself, with the arrow keys"),
        (command_line("init", "game", "my-game"), "start a game of your own, which only needs rules, and a bot for it"),
        (
            command_line("certify", shown_path(directory)),
            "check step by step that it follows the contract",
        ),
    ]
    out.say(table(tries, indent="  "))
    if wants_browser(open_browser):
        await open_page(page.as_uri(), out)
    return exitcodes.OK


@commands.group("init", cls=NounGroup)
def init() -> None:
    """Start a new game, or a new player."""


@init.command("game")
@click.argument("name")
@click.argument("directory", required=False, type=DIRECTORY, metavar="[DIR]")
@output_options
def game(out: Output, name: str, directory: Path | None) -> int:
    """Start a game called NAME: rules, a player and a manifest, ready to play.

    DIR must be new or empty; by default it is named after the game.
    """
    from coworld_runner.kit.server.scaffolds import new_game

    made = new_game(name, directory=directory)
    bot = shown_path(made.directory / "players" / "my_bot.py")
    tell_written(out, made, then=["dev", str(made.directory)])
    out.say(f"A bot of yours for it:  {command_line('init', 'player', bot, '--for', str(made.directory))}")
    return exitcodes.OK


@init.command("player")
@click.argument("file", type=FILE, metavar="FILE | DIR")
@click.option("--for", "game", metavar="GAME", help="The game that it is for; the file then describes its messages.")
@published_option("--example", says="there is one starter, which plays any game of the kit.")
@output_options
def player(out: Output, file: Path, game: str | None) -> int:
    """Start a player: FILE gets one function, which plays any game of the kit.

    FILE ends in .py for Python or .mjs for JavaScript; in a directory, it is bot.py. For a game with a protocol of its
    own, it has the place where you answer the game's messages.
    """
    from ..event_loop import run_async

    path = file if file.suffix else file / "bot.py"
    return run_async(out, lambda running: _player(path, game, running))


async def _player(file: Path, game: str | None, running: Running) -> int:
    from coworld_runner.kit.server.scaffolds import new_player

    from ..options.play_options import PackageOptions
    from ..run_preparation import find_package

    if game is None:
        tell_written(running.out, new_player(file), then=None)
        return exitcodes.OK
    package = await find_package(PackageOptions(manifest=game), running)
    made = new_player(file, manifest=package.manifest)
    seats = len(package.manifest.certification.players)
    others = [entry.player_id for entry in package.manifest.certification.players[: seats - 1]]
    path = str(file) if file.is_absolute() else f"./{file}"
    tell_written(
        running.out, made, then=["run", game, *(word for who in (path, *others) for word in ("--player", who))]
    )
    return exitcodes.OK


def tell_written(out: Output, made: NewFiles, *, then: list[str] | None) -> None:
    """Say which files were written, and which command to try next."""
    out.answer({"directory": str(made.directory.absolute()), "files": list(made.paths)})
    for path in made.paths:
        out.say(f"Wrote {shown_path(made.directory / path)}.")
    if then is not None:
        out.say(f"\nNext:  {command_line(*then)}")
