"""Getting started: the sample world, a new game, a new player, new roles."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import exitcodes
from .._group import NounGroup
from ..options.common import browser_option
from ..options.values import DIRECTORY, PathType
from ..output import Output, output_options, published_option
from ..render.text import command_line, shown_path, table

if TYPE_CHECKING:
    from coworld_core.roles import Role
    from coworld_runner import Package
    from coworld_runner.kit.server import NewFiles

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

    from coworld_core.episode import EpisodeLayout
    from coworld_core.ids import new_run_id
    from coworld_core.manifest import TEMPLATE_NAME
    from coworld_core.operating_system import require_posix
    from coworld_runner import replay_page
    from coworld_runner.episode import run_episode
    from coworld_runner.kit.server import new_sample

    from ..browser import open_page, wants_browser
    from ..files import write_whole
    from ..options.play_options import PlayOptions
    from ..render.progress import show_progress
    from ..render.results import episode_result
    from ..run_preparation import episode_arguments, evidence_directory, find_package, opened_backend

    require_posix()
    out = running.out
    directory = output_dir or _DEMO
    if output_dir is not None or not (directory / TEMPLATE_NAME).is_file():
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
    """Start a new game, a new player, or a supporting role."""


@init.command("game")
@click.argument("name")
@click.argument("directory", required=False, type=DIRECTORY, metavar="[DIR]")
@output_options
def game(out: Output, name: str, directory: Path | None) -> int:
    """Start a game called NAME: rules, a player and a manifest, ready to play.

    DIR must be new or empty; by default it is named after the game.
    """
    from coworld_runner.kit.server import new_game

    made = new_game(name, directory=directory)
    bot = shown_path(made.directory / "players" / "my_bot.py")
    tell_written(out, made, then=[["dev", str(made.directory)]])
    out.say(f"A bot of yours for it:  {command_line('init', 'player', bot, '--for', str(made.directory))}")
    return exitcodes.OK


_for = click.option("--for", "game", metavar="GAME", help="The game that it is for; the file then describes it.")
_declare = click.option(
    "--declare/--no-declare",
    default=None,
    help="Declare it in the manifest template, if it is in `players/` or `roles/` of a package.  [default: ask]",
)


@init.command("player")
@click.argument("file", type=PathType(), metavar="FILE | DIR")
@_for
@click.option("--trainable", is_flag=True, help="Make DIR a player that learns, with the program that trains it.")
@_declare
@published_option("--example", says="there is one starter, which plays any game of the kit.")
@output_options
def player(out: Output, file: Path, game: str | None, trainable: bool, declare: bool | None) -> int:
    """Start a player: FILE gets one function, which plays any game of the kit.

    FILE ends in .py for Python or .mjs for JavaScript; in a directory, it is bot.py. For a game with a protocol of its
    own, it has the place where you answer the game's messages.

    With --trainable, the new directory DIR gets train.py, which learns a game of the kit with PyTorch, and main.py,
    which plays with what was learnt and needs only Python. `coworld docs train` is about training.
    """
    from coworld_runner.kit.server import new_player, new_trainee

    def first(path: str, package: Package | None) -> list[list[str]]:
        if package is None:
            return []
        seats = package.manifest.certification.players
        others = [entry.player_id for entry in seats[: len(seats) - 1]]
        shown = game or _shown(package)
        played = ["run", shown, *(word for who in (path, *others) for word in ("--player", who))]
        return [played, ["compare", f"{path}/run", f"{path}/run@step-0", "-m", shown]] if trainable else [played]

    def write(path: Path, package: Package | None) -> NewFiles:
        if not trainable:
            return new_player(path, manifest=None if package is None else package.manifest)
        if package is None:
            raise click.UsageError("--trainable needs --for: the game that is to be learnt.")
        return new_trainee(path, package=package)

    if not trainable:
        return _begin(out, write, _place(file, "bot.py", "players"), game, declare, first)
    if file.suffix in (".py", ".mjs"):
        raise click.UsageError(f"--trainable makes a directory, and {file} would be a file.")
    if declare:
        raise click.UsageError("--declare is for a file: a manifest takes a trained player when there is one.")
    needs = "PyTorch and environments (pip install torch 'coworld-runner[env]')"
    learn = f"Train it, which needs {needs}:  python {shown_path(file / 'train.py')}"
    return _begin(out, write, file, game, False, first, remark=learn)


_ROLES: dict[Role, str] = {
    "reporter": "Start a reporter: a function that writes a page about episodes",
    "grader": "Start a grader: a function that gives an episode a number",
    "diagnoser": "Start a diagnoser: a function that says what a player should do better",
    "optimizer": "Start an optimizer: a function that changes a player for the better",
}


def _role_command(role: Role, about: str) -> None:
    def command(out: Output, file: Path | None, game: str | None, declare: bool | None) -> int:
        from coworld_runner.kit.server import new_role

        from ..render.roles import role_command

        def first(path: str, package: Package | None) -> list[list[str]]:
            run, played = _latest(package)
            tried = role_command(role, named=path, run=run, game=game or (_shown(package) if package else "GAME"))
            # An optimizer's player is played by the command itself
            if played or package is None or role == "optimizer":
                return [tried]
            return [["run", game or _shown(package)], tried]

        place = _place(file or Path(), f"{role}.py", "roles")

        def write(path: Path, package: Package | None) -> NewFiles:
            return new_role(role, path, manifest=None if package is None else package.manifest)

        return _begin(out, write, place, game, declare, first)

    for decorate in (output_options, _declare, _for, click.argument("file", required=False, type=PathType())):
        command = decorate(command)
    text = f"""{about}, in Python.

    FILE may be a directory, by default the current one: the file is then {role}.py, in a package roles/{role}.py.
    It works as it is, on any game. `coworld docs write-{_article(role)}-{role}` is about writing one.
    """
    init.command(role, help=inspect.cleandoc(text))(command)


def _article(role: str) -> str:
    return "an" if role[0] in "aeiou" else "a"


for _role, _about in _ROLES.items():
    _role_command(_role, _about)


# --- what all of them do -------------------------------------------------------------------------------------------


def _place(path: Path, name: str, folder: str) -> Path:
    """The file that is meant by a path: itself, or the one of this name in a directory or a package."""
    from coworld_core.manifest import TEMPLATE_NAME

    if path.suffix and not path.is_dir():
        return path
    return path / folder / name if (path / TEMPLATE_NAME).is_file() else path / name


def _begin(
    out: Output,
    write: Callable[[Path, Package | None], NewFiles],
    file: Path,
    game: str | None,
    declare: bool | None,
    first: Callable[[str, Package | None], list[list[str]]],
    *,
    remark: str = "",
) -> int:
    """Write a file or a directory, declare it, and say what to try next.

    Args:
        out: Where to write.
        write: Writes it, for a package if there is one.
        file: The file.
        game: The game that it is for; None: the one of the package that it stands in.
        declare: Whether to declare it there; None: ask.
        first: The commands to try, for the file and the package.
        remark: What to say before them of a directory, which is not declared.
    """
    from coworld_core.manifest import TEMPLATE_NAME

    from ..event_loop import run_async

    place = file.absolute()
    template = place.parent.parent / TEMPLATE_NAME
    beside = place.parent.name in ("players", "roles") and template.is_file()

    async def body(running: Running) -> int:
        from ..options.play_options import PackageOptions
        from ..run_preparation import find_package

        named = game or (str(template.parent) if beside else None)
        package = None if named is None else await find_package(PackageOptions(manifest=named), running)
        made = write(file, package)
        path = str(file) if file.is_absolute() else f"./{file}"
        own = package is not None and package.directory is not None and package.directory.samefile(template.parent)
        asked = beside and own and place.is_file()
        declared, told = _declared(out, template, place, declare) if asked else (False, remark)
        tell_written(out, made, then=first(path, package), declared=declared, remark=told)
        return exitcodes.OK

    return run_async(out, body)


def _declared(out: Output, template: Path, file: Path, declare: bool | None) -> tuple[bool, str]:
    """Declare a program in the manifest template of its package, if that is wanted: whether it is, and a remark."""
    from coworld_runner.kit.server import declaration_of

    from ..manifest_fixes import agrees, may_ask

    found, name = declaration_of(template, file), shown_path(template)
    if found is None:
        return False, ""
    program = found.program
    if program.refused:
        return False, f"It is not declared in {name}: {program.refused}. Named by its file, it runs all the same."
    ask = declare is None and not out.json and may_ask()
    wanted = declare or (ask and agrees(found.before, found.after, name, 1))
    if wanted:
        template.write_bytes(found.after.encode("utf-8"))
        told = f"It is declared in {name} as {program.section} {program.entry['id']}."
    else:
        told = f"To declare it in {name}:  {command_line('game', 'update', shown_path(template.parent))}"
    remark = f"\n{program.remark[0].upper()}{program.remark[1:]}." if program.remark else ""
    return bool(wanted), told + remark


def _latest(package: Package | None) -> tuple[str, bool]:
    """The last episode of a package, as an argument, and whether there is one."""
    from coworld_core.episode import ROWS_NAME

    if package is None:
        return "latest", False
    latest = package.default_results_dir() / "latest"
    several = (latest / ROWS_NAME).is_file()
    return shown_path(latest / "1" if several else latest), latest.exists()


def _shown(package: Package) -> str:
    return shown_path(package.directory or package.source)


def tell_written(
    out: Output, made: NewFiles, *, then: Sequence[Sequence[str]], declared: bool | None = None, remark: str = ""
) -> None:
    """Say which files were written, whether they were declared in a manifest, and which commands to try next."""
    told: dict[str, Any] = {"directory": str(made.directory.absolute()), "files": list(made.paths)}
    out.answer(told if declared is None else {**told, "declared": declared})
    for path in made.paths:
        out.say(f"Wrote {shown_path(made.directory / path)}.")
    if remark:
        out.say(remark)
    for index, words in enumerate(then):
        out.say(f"{'Then' if index else chr(10) + 'Next'}:  {command_line(*words)}")
