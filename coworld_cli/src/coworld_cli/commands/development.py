"""Commands for writing games and players: working on them while they play, serving, joining and wrapping games."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_async
from ..options.common import browser_option, ca_option
from ..options.declarations import declared_by, refuse_options, takes
from ..options.play_options import PlayOptions
from ..options.serving_options import ServingOptions
from ..options.values import DIRECTORY, PathType
from ..output import Output, output_options
from ..render.text import clean, shown_path
from ..standard_input import with_piped_input
from .scaffolds import tell_written

__all__ = ["commands"]

commands = NounGroup()

_port = click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Port on this machine.  [default: any]"
)
_seed = declared_by(PlayOptions, "seed")


@commands.command("dev")
@click.argument("directory", required=False, type=DIRECTORY, default=".", metavar="[DIR]")
@declared_by(
    PlayOptions,
    "player",
    help="Who plays: a file (./bot.py), the id of a bundled player, or human; repeatable. A suffix @N gives it N "
    "seats. Default: you in seat 0, and bundled players.",
)
@declared_by(PlayOptions, "variant", help="Variant to play, or a pattern that matches only one. Default: the first.")
@declared_by(PlayOptions, "assignments")
@declared_by(PlayOptions, "config")
@declared_by(PlayOptions, "steps")
@_seed
@_port
@browser_option
@output_options
def dev(
    out: Output,
    directory: Path,
    player: tuple[str, ...],
    variant: str | None,
    assignments: tuple[str, ...],
    config: str | None,
    steps: int | None,
    seed: int | None,
    port: int,
    open_browser: bool | None,
) -> int:
    """Work on the game in DIR while it plays in the browser.

    One page shows every seat, the spectators' view and the log. When you save a file, the game or the player that it
    belongs to restarts. On the page you can take any seat and hand it back, and simulate faults: mute, delay or
    disconnect a player.
    """

    async def work(running: Running) -> int:
        from anyio import sleep_forever

        from coworld_runner.kit.dev import open_dev
        from coworld_runner.package import resolve_package

        from ..browser import open_page, wants_browser
        from ..run_preparation import config_changes

        changed = PlayOptions(assignments=assignments, config=config, steps=steps)
        package = await resolve_package(directory)
        opened = open_dev(
            directory,
            variant=variant,
            players=player,
            seed=seed,
            config=config_changes(changed, package.manifest),
            port=port,
        )
        async with opened as session:
            out.answer({"link": session.link})
            out.say(f"Page: {click.style(session.link, bold=True)}")
            out.note("Anyone who has this link can do all of this. Ctrl-C ends it.")
            if wants_browser(open_browser):
                running.tasks.start_soon(open_page, session.link, out)
            with running.on_end_waits(session.end_waits):
                await running.until_interrupted(sleep_forever)
        return exitcodes.OK

    return run_async(out, work)


@commands.group("game", cls=NounGroup)
def game() -> None:
    """Serve, join, update or wrap a game."""


@game.command("update")
@click.argument("directory", required=False, type=PathType(), default=".", metavar="[DIR|FILE]")
@click.option("--dry-run", is_flag=True, help="Write nothing; the exit status is 1 if anything differs.")
@output_options
def update(out: Output, directory: Path, dry_run: bool) -> int:
    """Bring the manifest template of the game in DIR up to date with its rules, and show the difference.

    The class of the rules decides about schemas, texts, the number of seats and their names, the settings of its pace,
    and tags such as two-player. New files in `players/` and `roles/` get entries. What else was written by hand stays.
    """
    from coworld_runner.kit.server import manifest_update

    from ..manifest_fixes import difference
    from ..render.issues import render_report

    found = manifest_update(directory)
    name = shown_path(found.path)
    if not dry_run:
        found.write()
    ok = not (found.left.errors or (dry_run and found.changed))
    out.answer(
        {
            "ok": ok,
            "path": str(found.path),
            "changed": found.changed,
            "written": found.changed and not dry_run,
            "difference": difference(found.before, found.after, name, colour=False),
            "remarks": found.remarks(),
            **found.left.model_dump(mode="json"),
        }
    )
    if found.changed:
        out.say(difference(found.before, found.after, name))
    for remark in found.remarks():
        out.say(clean(remark, one_line=True))
    out.say(f"{name} {('differs from its rules' if dry_run else 'is written') if found.changed else 'is up to date'}.")
    if found.left.errors:
        out.say(render_report(found.left))
    return exitcodes.OK if ok else exitcodes.ANSWER_IS_NO


@game.command("serve")
@click.argument("source", metavar="MODULE:CLASS|FILE.py|DIR")
@click.option(
    "--config",
    metavar="JSON|FILE",
    help="Changes to the game config, as JSON or as a JSON, TOML or YAML file; its tokens become those of the seats.",
)
@_seed
@takes("where", ServingOptions)
@browser_option
@output_options
def serve(
    out: Output,
    source: str,
    config: str | None,
    seed: int | None,
    where: ServingOptions,
    open_browser: bool | None,
) -> int:
    """Serve one game from this machine, for people and players.

    The game is a rules class of the kit, a file that contains one, or a directory with a manifest, whose first variant
    is served. `coworld game join` puts a player into a seat.

    With --host, players on other machines can take part. The links contain the seats' tokens: anyone who has one can
    play, so other machines are let in with TLS only.
    """

    async def work(running: Running) -> int:
        from coworld_runner.kit.dev import open_served, read_scores

        from ..browser import open_page, wants_browser
        from ..files import read_object
        from ..render.results import play_links
        from ..run_preparation import opened_gateway, unit_status

        async with (
            opened_gateway(where, out) as (gateway, _),
            open_served(
                source,
                config=read_object(config, what="--config") if config else None,
                seed=seed,
                port=where.port if gateway is None else 0,
                gateway=gateway,
            ) as served,
        ):
            links = served.shared_links
            out.answer({"links": {**links.players, "global": links.viewer}, "names": served.names})
            out.say(play_links(links, served.names))
            out.note("Ctrl-C ends it.")
            if wants_browser(open_browser):
                running.tasks.start_soon(open_page, served.links.players[0], out)
            ended = await running.until_interrupted(served.unit.wait)
            scores = await read_scores(served.unit) or ()
            for slot, score in enumerate(scores):
                out.say(f"{clean(served.names[slot], one_line=True)}: {score:g}")
            return await unit_status(ended, served.unit, out)

    return run_async(out, work)


@game.command("join")
@click.argument("address")
@click.argument("player", required=False, metavar="[PLAYER]")
@click.option(
    "--mcp", is_flag=True, help="Play it as tools of the Model Context Protocol, over standard input and output."
)
@declared_by(PlayOptions, "secret_env")
@declared_by(PlayOptions, "secret_env_file")
@ca_option
@output_options
def join(
    out: Output,
    address: str,
    player: str | None,
    mcp: bool,
    secret_env: tuple[str, ...],
    secret_env_file: tuple[Path, ...],
    ca: Path | None,
) -> int:
    """Let PLAYER take a seat in a game that runs anywhere.

    ADDRESS is the link of the seat's page, or its ws:// address. PLAYER is a file (./bot.py), a directory, or a
    function (bot:act). It runs on this machine, and sees only those variables of your environment that --secret-env
    names.

    With --mcp, the host of agents that starts this command plays: its model observes, acts, talks and waits for its
    turn with tools. The game must be of the kit.
    """
    if mcp:
        refuse_options({"player", "secret_env", "secret_env_file"}, "and --mcp exclude each other.")
    elif player is None:
        raise click.UsageError("Name a player, or say --mcp.", click.get_current_context())

    async def tools(running: Running) -> int:
        from coworld_client.seat import serve_seat
        from coworld_client.tls import tls_context
        from coworld_runner.kit.dev import socket_address

        serve = partial(serve_seat, socket_address(address), ssl=tls_context(ca=ca) if ca is not None else None)
        await running.until_interrupted(lambda: with_piped_input(serve))
        return exitcodes.OK

    async def work(running: Running) -> int:
        from coworld_runner.kit.dev import follow_log, open_seat

        from ..run_preparation import read_secrets

        secrets = read_secrets(secret_env, secret_env_file, out)
        async with open_seat(address, str(player), secret_env=secrets.values, ca=ca) as unit:
            await follow_log(unit, lambda line: out.note(clean(line, one_line=True)))
            ended = await unit.wait()
        out.answer({"ok": ended.ok, "exit": ended.model_dump(mode="json")})
        if not ended.ok:
            out.note(f"The player {clean(str(ended), one_line=True)}.")
        return exitcodes.OK if ended.ok else exitcodes.ANSWER_IS_NO

    return run_async(out, tools if mcp else work)


@game.command("wrap")
@click.argument("source", required=False, metavar="[LIBRARY:GAME]")
@click.option(
    "-o",
    "--output",
    "directory",
    type=DIRECTORY,
    help="New or empty directory of the package; the game is named after it. Default: named after the game.",
)
@click.option(
    "--list",
    "library",
    is_flag=False,
    flag_value="openspiel",
    metavar="[LIBRARY]",
    help="List the games of a library, and why some cannot be wrapped.",
)
@click.option("--measure/--no-measure", default=True, help="Measure the game for its card.  [default: measure]")
@output_options
def wrap(out: Output, source: str | None, directory: Path | None, library: str | None, measure: bool) -> int:
    """Make a package of a game of OpenSpiel, PettingZoo, Gymnasium or TextArena.

    The package has rules, two players, a manifest and a card with measurements. The library must be installed where
    coworld is. pettingzoo:./myenv.py and gymnasium:./myenv.py:MyEnv are environments of your own.
    """
    if library is not None:
        refuse_options({"source", "directory", "measure"}, "does not go with --list.")
        from coworld_runner.kit.wrappers import list_wrappable

        games = list_wrappable(library)
        out.answer([asdict(found) for found in games])
        for found in games:
            out.say(f"{found.source}: {f'no: {found.refused}' if found.refused else found.title}")
        return exitcodes.OK
    if source is None:
        raise click.UsageError("Name a game, such as openspiel:hanabi, or say --list LIBRARY.")
    from coworld_runner.kit.wrappers import wrap_game

    made = wrap_game(source, directory=directory, measure=measure)
    if made.card is not None:
        out.say(made.card.markdown())
    tell_written(out, made, then=[["run", str(made.directory)]])
    return exitcodes.OK
