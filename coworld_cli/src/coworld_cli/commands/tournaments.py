"""Tournaments in a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..options.common import browser_option
from ..options.declarations import SectionCommand, declared_by, takes
from ..options.play_options import ONE_VARIANT, PlayOptions, StoreOptions
from ..options.values import DIRECTORY, RATINGS
from ..output import Output, output_options
from .verifications import key_option, show_summary, told, trusted_keys

if TYPE_CHECKING:
    from coworld_core.evaluation import ShownReport

    from ..event_loop import Running

__all__ = ["commands"]

commands = NounGroup()

_directory = click.argument("directory", metavar="DIR", type=DIRECTORY)
_rating_option = click.option(
    "--rating",
    type=click.Choice([*RATINGS, "mean"]),
    help="Rate the same log in this way instead; nothing is played.",
)
_LEFT_OUT = (
    "build",
    "manifest",
    "players",
    "player",
    "variant",
    "assignments",
    "config",
    "steps",
    "seed",
    "human",
    "admin",
    "verify_replay",
    "episodes",
    "output_dir",
    "overwrite",
)
"""Options for playing that `tournament.toml` sets, or that have no meaning here."""


@commands.group("tournament", cls=NounGroup)
def tournament() -> None:
    """Play a tournament in a folder.

    DIR/tournament.toml describes the tournament, and you may edit it. DIR/events.ndjson records what has happened;
    standings follow from it alone. However a run ends, the next one continues from there.

    \b
    Example:
      coworld tournament init league -m examples/nim --pairing swiss
      coworld tournament add league ./mine.py
      coworld tournament add league random
      coworld tournament run league --parallel 4
      coworld tournament export league site
    """  # noqa: D301 (click reads the backspace)


@tournament.command("init")
@_directory
@click.option("--game", "-m", default=".", metavar="MANIFEST", help="The game.  [default: the current directory]")
@declared_by(PlayOptions, "variant", help=ONE_VARIANT)
@declared_by(PlayOptions, "assignments")
@declared_by(PlayOptions, "config")
@declared_by(PlayOptions, "steps")
@click.option("--pairing", default="", metavar="NAME", help="How players are paired.  [default: round-robin]")
@click.option(
    "--commissioner",
    default="",
    metavar="ID|IMAGE|COMMAND",
    help="Let a commissioner decide the rounds: one from the manifest, an image, or a command.",
)
@click.option(
    "--rounds", type=click.IntRange(min=1), metavar="N", help="Number of rounds.  [default: set by the pairing]"
)
@click.option("--blocks", type=click.IntRange(min=1), default=1, show_default=True, help="Blocks per match.")
@click.option(
    "--seed",
    type=int,
    metavar="N",
    help="Base seed, from which anybody can compute the seed of each block.  [default: seeds are drawn from a secret]",
)
@click.option("--count-starved", is_flag=True, help="Also count episodes in which the machine was short of processors.")
@output_options
def init(
    out: Output,
    directory: Path,
    game: str,
    variant: str | None,
    assignments: tuple[str, ...],
    config: str | None,
    steps: int | None,
    pairing: str,
    commissioner: str,
    rounds: int | None,
    blocks: int,
    seed: int | None,
    count_starved: bool,
) -> int:
    """Start a tournament: write its tournament.toml.

    Pairings are round-robin, swiss, ladder, single-elimination, double-elimination and free-play, those that other
    distributions install, and commissioner: then the game's own commissioner decides, or the one that --commissioner
    names. A command runs in the package's image that has Python.
    """
    from ..event_loop import run_async
    from ..render.text import clean, shown_path

    async def body(_: Running) -> int:
        from coworld_runner.evaluation.tournament import SEEDS_NAME, create_tournament
        from coworld_runner.package import resolve_package

        from ..run_preparation import config_changes

        package = await resolve_package(game)
        changed = PlayOptions(assignments=assignments, config=config, steps=steps)
        path = await create_tournament(
            directory,
            game,
            variant=variant,
            config=config_changes(changed, package.manifest),
            pairing=pairing,
            rounds=rounds,
            blocks=blocks,
            seed=seed,
            count_starved=count_starved,
            commissioner=commissioner,
        )
        out.answer({"settings": str(path)})
        out.say(f"Settings: {shown_path(path)}")
        if seed is None and (secret := path.with_name(SEEDS_NAME)).exists():
            out.note(f"Seeds are drawn from {shown_path(secret)}: show it to nobody until the tournament is over.")
        out.note(f"Add players with `coworld tournament add {clean(str(directory), one_line=True)} PLAYER`.")
        return exitcodes.OK

    return run_async(out, body)


@tournament.command("add")
@_directory
@click.argument("bot", metavar="PLAYER")
@click.option("--name", default="", help="Its name in the tournament.  [default: the player's]")
@output_options
def add(out: Output, directory: Path, bot: str, name: str) -> int:
    """Enter a player.

    PLAYER is a file or a directory of yours, the id of a bundled player, an image, or random. It plays from the next
    round on.
    """
    from ..event_loop import run_async
    from ..render.text import clean

    async def body(_: Running) -> int:
        from coworld_runner.evaluation.tournament import add_entrant

        called, league = await add_entrant(directory, bot, name=name)
        same = [group for group in league.plan.same_commands if called in group]
        out.answer({"name": called, "entrants": league.active, "same": same[0] if same else None})
        for group in same:
            others = ", ".join(other for other in group if other != called)
            out.warn(f"{clean(called, one_line=True)} is the same program as {clean(others, one_line=True)}.")
        out.say(f"Entered: {clean(called, one_line=True)} ({len(league.active)} in all)")
        return exitcodes.OK

    return run_async(out, body)


@tournament.command("withdraw")
@_directory
@click.argument("name")
@output_options
def withdraw(out: Output, directory: Path, name: str) -> int:
    """Withdraw a player. Its played episodes stay, and those still to play are void."""
    from ..event_loop import run_async
    from ..render.text import clean

    async def body(_: Running) -> int:
        from coworld_runner.evaluation.tournament import withdraw_entrant

        league = await withdraw_entrant(directory, name)
        out.answer({"name": name, "entrants": league.active})
        out.say(f"Withdrawn: {clean(name, one_line=True)} ({len(league.active)} left)")
        return exitcodes.OK

    return run_async(out, body)


@tournament.command("run", cls=SectionCommand)
@_directory
@takes("options", PlayOptions, without=_LEFT_OUT)
@takes("stored", StoreOptions)
@output_options
def run(out: Output, options: PlayOptions, stored: StoreOptions, directory: Path) -> int:
    """Continue the tournament until it is over.

    After Ctrl-C, everything played so far is kept, and the same command continues. Changes to tournament.toml take
    effect from here on.
    """
    from ..event_loop import run_async

    async def body(running: Running) -> int:
        from coworld_runner.evaluation.tournament import entrants_of, game_of, play_tournament, read_settings, rules_of
        from coworld_runner.records import remember_directory

        from ..render.progress import show_progress
        from ..run_preparation import (
            batch_arguments,
            opened_for_measuring,
            opened_jobs,
            player_secrets,
            tell_players,
        )

        settings = read_settings(directory)
        remember_directory(directory)
        package = await game_of(settings, directory)
        secrets = await player_secrets(options, out)
        rules = replace(rules_of(settings, directory), command=options.run, secret_env=secrets)
        entrants = entrants_of(settings, directory, package, rules)
        commissioner = bool(settings.pairing.commissioner)
        opened = (
            opened_jobs(options, stored, package, running)
            if stored.store is not None
            else opened_for_measuring(options, package, entrants, running, others=False, programs=commissioner)
        )
        async with opened as venue:
            running.to_go_on = "Run the same command again to resume."
            tell_players(options, (), secrets, package, venue.backend, out)
            with show_progress(running, package.manifest.game.name) as progress:
                report = await play_tournament(
                    directory,
                    package=package,
                    command=options.run,
                    secret_env=secrets,
                    **batch_arguments(
                        options,
                        progress,
                        {"options": options.episode(watch=out.live), "listeners": (progress,)},
                        venue=venue,
                    ),
                )
        return _show(out, report, directory, tables=1)

    return run_async(out, body)


@tournament.command("standings")
@_directory
@_rating_option
@output_options
def standings(out: Output, directory: Path, rating: str | None) -> int:
    """Show the standings, even while the tournament is running."""
    from coworld_runner.evaluation.tournament import read_tournament

    return _show(out, read_tournament(directory, rating=rating or "").report, directory, tables=1)


@tournament.command("show")
@_directory
@_rating_option
@click.option("--markdown", is_flag=True, help="Write Markdown, for a pull request.")
@output_options
def show(out: Output, directory: Path, rating: str | None, markdown: bool) -> int:
    """Show standings, seats and all rounds, even while the tournament is running."""
    from coworld_core.evaluation import report_markdown
    from coworld_runner.evaluation.tournament import read_tournament

    report = read_tournament(directory, rating=rating or "").report
    if markdown and not out.json:
        out.say(report_markdown(report).rstrip("\n"))
        return exitcodes.OK
    return _show(out, report, directory)


@tournament.command("verify")
@_directory
@click.argument("package", required=False, metavar="[PACKAGE]")
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    metavar="N",
    help="Verify this many episodes, chosen at random.  [default: all]",
)
@click.option(
    "--play-again",
    is_flag=True,
    help="Let the players play again what has only a row: their files are executed, so only for what is yours.",
)
@key_option
@output_options
def verify(
    out: Output,
    directory: Path,
    package: str | None,
    sample: int | None,
    play_again: bool,
    keys: tuple[Path, ...],
) -> int:
    """Verify that episodes are what their records say, as `coworld verify` does for one.

    What is the same is kept in DIR/verified.ndjson: after Ctrl-C, the same command continues, and a later one verifies
    what has been played since. Delete that file to verify all again. The exit status is 1 if anything differs, else
    4 if an episode cannot be played again.
    """
    from ..event_loop import run_async

    async def body(running: Running) -> int:
        from coworld_runner.certification.verification import ONLY_ROW, verify_many

        running.resumable()
        trusted = await trusted_keys(keys)
        done = await verify_many(
            directory, game=package, trusted=trusted, sample=sample, players=play_again, keep=True, tell=told(out)
        )
        if done.reasons.get(ONLY_ROW):
            out.note("Of some episodes only the row was kept: with --play-again, their players play them again.")
        return show_summary(out, done)

    return run_async(out, body)


@tournament.command("export")
@_directory
@click.argument("site", type=DIRECTORY)
@output_options
def export(out: Output, directory: Path, site: Path) -> int:
    """Write a static site into SITE: standings, who beat whom, rounds, and the replays."""
    from coworld_runner.evaluation.tournament import export_tournament

    from ..render.text import shown_path

    page = export_tournament(directory, site)
    out.answer({"html": str(page)})
    out.say(f"Page: {shown_path(page)}")
    return exitcodes.OK


@tournament.command("serve")
@_directory
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Port to listen on.  [default: any free port]"
)
@browser_option
@output_options
def serve(out: Output, directory: Path, port: int, open_browser: bool | None) -> int:
    """Serve the page of the site on this machine. It is updated while the tournament is running."""
    from ..browser import open_page, wants_browser
    from ..event_loop import run_async

    async def body(running: Running) -> int:
        import anyio

        from coworld_runner.evaluation.tournament import open_site

        async with open_site(directory, port=port) as link:
            out.answer({"link": link})
            out.say(f"Page: {link}")
            out.note("Ctrl-C ends it.")
            if wants_browser(open_browser):
                running.tasks.start_soon(open_page, link, out)
            await running.until_interrupted(anyio.sleep_forever)
        return exitcodes.OK

    return run_async(out, body)


def _show(out: Output, report: ShownReport, directory: Path, *, tables: int | None = None) -> int:
    """Write the results of a tournament so far, and return the exit status."""
    from coworld_core.evaluation import UNMEASURED

    from ..render.evaluation_text import evaluation_result

    ok = report.stopped not in UNMEASURED
    out.answer({"workspace": str(directory), "ok": ok, **report.model_dump(mode="json")})
    out.say(evaluation_result(report, directory, tables=tables))
    return exitcodes.OK if ok else exitcodes.ANSWER_IS_NO
