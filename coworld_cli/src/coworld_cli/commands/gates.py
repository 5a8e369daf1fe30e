"""Commands for daily work on bots: gate a version, watch one while it is written, show the bots of a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..measuring import margin_option
from ..options.common import overwrite_option
from ..options.declarations import SectionOption, refuse_options, takes
from ..options.play_options import CellOptions
from ..options.values import DIRECTORY, FILE
from ..output import Output, output_options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from coworld_runner.episode import BatchArguments
    from coworld_runner.evaluation.gate import GateLook, GateOutcome, GateSettings
    from coworld_runner.package import Package

    from ..event_loop import Running

__all__ = ["commands"]

commands = NounGroup()

_ELSEWHERE = (
    *("hook", "hook_timeout_seconds"),
    *("watch", "manifest", "players", "player", "human", "admin", "verify_replay", "episodes"),
    *("seed", "output_dir", "overwrite", "max_programs"),
)
_REMEMBERED = ("variant", "metric", "forfeit", "count_starved")
"""Options that gate.toml has, too, unless they are given."""


@commands.command("gate")
@click.argument("bot", metavar="BOT")
@click.option(
    "--game",
    "-m",
    cls=SectionOption,
    section="What to play",
    metavar="MANIFEST",
    help="The game: a file, a directory that holds one, an address, or a cow_… id; remembered in gate.toml.  "
    "[default: that of gate.toml beside BOT, or the current directory]",
)
@click.option(
    "--opponent",
    "opponents",
    cls=SectionOption,
    section="What to play",
    multiple=True,
    metavar="PLAYER",
    help="A standing opponent; repeatable.  [default: those of gate.toml, or the other bots beside BOT]",
)
@click.option(
    "--seed",
    cls=SectionOption,
    section="What to play",
    type=int,
    metavar="N",
    help="Base seed. By default each version gets fresh ones, so that no bot is tuned on the seeds it is gated with.",
)
@margin_option("Also accept what is as good: differences of mean scores up to this do not matter.")
@click.option(
    "--accept",
    is_flag=True,
    cls=SectionOption,
    section="What counts",
    help="Accept this version as it is, without playing: you know better.",
)
@click.option(
    "--watch",
    is_flag=True,
    cls=SectionOption,
    section="What to play",
    help="Play a quick comparison at each save, until Ctrl-C; it accepts nothing. With --json, each is one line.",
)
@takes("options", CellOptions, without=_ELSEWHERE)
@output_options
def gate(
    out: Output,
    options: CellOptions,
    bot: str,
    game: str | None,
    opponents: tuple[str, ...],
    seed: int | None,
    margin: float | None,
    accept: bool,
    watch: bool,
) -> int:
    """Accept a new version of a bot if it is better.

    BOT is a file or a directory of yours. It is compared with its last accepted version and, if it is better, with the
    other bots beside it, against none of which it may do worse than that version, and with the three versions accepted
    before, so that versions do not go in a circle. Everything is kept in .history beside it: versions, results and
    ratings, which `coworld bots` shows.

    Exit status: 1 unless the version is accepted.
    """
    from ..event_loop import run_async

    if accept and watch:
        raise click.UsageError("--accept and --watch exclude each other.", click.get_current_context())
    if accept or watch:
        refuse_options({"store"}, "is for a gate that decides by measuring: not for --accept or --watch.")

    async def body(running: Running) -> int:
        from coworld_runner.evaluation.gate import (
            GateOutcome,
            accept_player,
            find_gate_folder,
            read_gate_settings,
            write_gate_settings,
        )

        from ..render.text import shown_path
        from ..run_preparation import evaluation_rules, find_package

        folder = find_gate_folder(bot)
        given = {name: getattr(options, name) for name in _REMEMBERED}
        how = read_gate_settings(folder.directory).but(game=game, opponents=opponents, margin=margin, **given)
        named = options.but(manifest=how.game or ".", **{name: getattr(how, name) for name in _REMEMBERED})
        package = await find_package(named, running)
        if watch:
            return await _watch(named, running, package, bot, how.opponents)
        if accept:
            record = accept_player(package, bot, rules=evaluation_rules(named, package))
            outcome = GateOutcome(folder=folder, record=record)
        else:
            outcome = await _gated(named, running, package, bot, how, seed=seed)
        if game is not None:
            file = write_gate_settings(folder.directory, package, game, variant=options.variant, opponents=opponents)
            if file is not None:
                out.note(f"{shown_path(file)} remembers the game: the next gate here needs no -m.")
        return _show(out, outcome)

    return run_async(out, body)


async def _gated(
    options: CellOptions,
    running: Running,
    package: Package,
    bot: str,
    how: GateSettings,
    *,
    seed: int | None,
) -> GateOutcome:
    """Play a gate, and show its progress."""
    from contextlib import AsyncExitStack
    from functools import partial

    import anyio.to_thread

    from coworld_runner.backend import Backend
    from coworld_runner.evaluation.gate import begin_gate, play_gate
    from coworld_runner.package import read_players

    from ..render.progress import show_progress
    from ..run_preparation import evaluation_rules, opened_for_cells, player_secrets, tell_players

    out = running.out
    rules = evaluation_rules(options, package, await player_secrets(options, out))
    begin = partial(begin_gate, package, bot, opponents=how.opponents, rules=rules, margin=how.margin, seed=seed)
    begun = await anyio.to_thread.run_sync(begin)
    if begun.unchanged:
        return await play_gate(begun)
    out.note(begun.plan)
    running.so_far = "What was played is kept."
    running.to_go_on = "Run the same command again to go on."
    async with AsyncExitStack() as stack:
        where = await stack.enter_async_context(opened_for_cells(options, package, running))
        if isinstance(backend := where.get("backend"), Backend):
            named = read_players(begun.players(), package)
            own, registered = [player.own for player in named], [player.registered for player in named]
            tell_players(options, own, rules.secret_env, package, backend, out, registered=registered, measured=True)
        progress = stack.enter_context(show_progress(running, package.manifest.game.name))
        run: BatchArguments = {
            **where,
            "options": options.episode(watch=out.live),
            "listeners": (progress,),
            "parallel": options.parallel,
            "episode_listeners": progress.episode_listeners,
        }
        return await play_gate(begun, **run)


def _show(out: Output, outcome: GateOutcome) -> int:
    from ..render.gate_text import gate_answer, gate_result

    out.answer(gate_answer(outcome))
    out.say(gate_result(outcome))
    return exitcodes.OK if outcome.accepted else exitcodes.ANSWER_IS_NO


async def _watch(
    options: CellOptions,
    running: Running,
    package: Package,
    bot: str,
    opponents: Sequence[str] | None,
) -> int:
    """Compare at each save, until Ctrl-C."""
    from functools import partial

    from coworld_runner.evaluation.gate import watch_player

    from ..render.gate_text import look_answer, look_line
    from ..run_preparation import evaluation_rules, player_secrets

    out = running.out
    rules = evaluation_rules(options, package, await player_secrets(options, out))

    def say(look: GateLook) -> None:
        if out.json:
            out.line(look_answer(look))
        else:
            out.say(look_line(look))

    out.note(f"Each save of {bot} is compared, and nothing is accepted. Ctrl-C ends it.")
    watched = partial(
        watch_player,
        package,
        bot,
        say=say,
        opponents=opponents,
        rules=rules,
        backend=options.backend,
        parallel=options.parallel,
        options=options.episode(watch=False),
    )
    await running.until_interrupted(watched)
    return exitcodes.OK


@commands.command("bots")
@click.argument("directory", required=False, type=DIRECTORY, default=".", metavar="[DIR]")
@click.option("--html", type=FILE, metavar="FILE", help="Write a page instead: one self-contained file.")
@overwrite_option
@output_options
def bots(out: Output, directory: Path, html: Path | None, overwrite: bool) -> int:
    """Show the bots of a folder: ratings, losses, worst games.

    DIR is the folder in which `coworld gate` has kept its history. You get the rating of each bot, against whom its
    accepted version loses, whether its versions go in a circle, and the last gates; --html adds ratings over time and
    the worst games, with the command that shows each.
    """
    from coworld_core.evaluation import bots_report
    from coworld_runner.evaluation.gate import GateFolder, folder_page

    from ..files import target_file, write_whole
    from ..render.gate_text import bots_text
    from ..render.text import shown_path

    folder = GateFolder(directory)
    page = target_file(html, "", overwrite=overwrite) if html is not None else None
    report = bots_report(folder.history(needed=True))
    if page is not None:
        write_whole(page, folder_page(folder, beside=page.parent).encode())
    out.answer({"html": str(page) if page is not None else None, **report.model_dump(mode="json")})
    out.say(f"Page: {shown_path(page)}" if page is not None else bots_text(report, folder))
    return exitcodes.OK
