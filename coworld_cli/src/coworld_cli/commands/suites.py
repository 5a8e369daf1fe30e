"""Suites: named sets of variants and line-ups in a file, measured with one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..options.common import overwrite_option
from ..options.declarations import takes
from ..options.play_options import MeasuringOptions
from ..options.values import DIRECTORY, FILE
from ..output import Output, output_options

if TYPE_CHECKING:
    from coworld_core.evaluation import SuiteReport

    from ..event_loop import Running

__all__ = ["commands"]

commands = NounGroup()

_LEFT_OUT = (
    *("manifest", "players", "variant", "assignments", "config", "steps", "seed", "episodes"),
    *(
        "human",
        "admin",
        "watch",
        "verify_replay",
        "overwrite",
        "max_blocks",
        "max_cost",
        "metric",
        "forfeit",
        "count_starved",
        "others",
        "store",
        "detach",
        "worker_image",
        "isolated",
    ),
)
"""Options for playing that the suite's file sets, or that have no meaning here."""


@commands.group("suite", cls=NounGroup)
def suite() -> None:
    """Measure players in a suite of variants and line-ups.

    A suite is a TOML file. Each line-up of an entry is measured in each of its variants, by as many episodes as it
    says; the players of a line-up share the seats, and {player} stands for the players that you name.

    \b
    Example:
      game = "examples/nim"
      episodes = 20

    \b
      [[entry]]
      name = "plain"
      variants = ["default", "long"]
      lineups = [["{player}", "random-taker"], ["{player}", "counter"]]

    \b
      [[entry]]
      name = "short"
      config = { sticks = 5 }
      lineups = [["{player}", "random-taker"]]
    """  # noqa: D301 (click reads the backspace)


@suite.command("run")
@click.argument("file", type=FILE)
@click.option("--game", "-m", metavar="MANIFEST", help="The game.  [default: the one that the file names]")
@takes(
    "options",
    MeasuringOptions,
    without=_LEFT_OUT,
    player={"help": "A player that {player} stands for: a file, a directory, an id, or an image. Repeatable."},
    output_dir={
        "help": "Directory for the evidence: new, empty, or that of the same suite, which then resumes. "
        "Default: a fresh one under results/ beside the manifest."
    },
)
@output_options
def run(out: Output, options: MeasuringOptions, file: Path, game: str | None) -> int:
    """Play a suite, or go on with it.

    FILE is the suite. Everything in it is checked before the first game starts. With --on-platform, each episode is
    requested of the platform, and the same command again, from anywhere, requests nothing twice.

    Exit status: 1 when something could not be measured.
    """
    from ..event_loop import run_async

    return run_async(out, lambda running: _run(out, running, options, file, game))


async def _run(out: Output, running: Running, options: MeasuringOptions, file: Path, game: str | None) -> int:
    from contextlib import AsyncExitStack

    from coworld_core.ids import new_run_id
    from coworld_runner.backend import Backend
    from coworld_runner.episode import BatchArguments
    from coworld_runner.evaluation.suite import play_suite, read_suite_settings

    from ..render.progress import show_progress
    from ..render.text import shown_path
    from ..run_preparation import evidence_directory, find_package, opened_backend, opened_platform, player_secrets

    settings = read_suite_settings(file)
    game = game or settings.game
    if not game:
        raise click.UsageError("The suite names no game: give it with -m.", click.get_current_context())
    named = options.but(manifest=game)
    async with AsyncExitStack() as stack:
        backend: Backend | str = options.backend
        running.so_far = "What was played is kept."
        if options.on_platform:
            words = (*settings.players, *options.player)
            package, venue = await stack.enter_async_context(opened_platform(named, words, running))
        else:
            package, venue = await find_package(named, running), None
        secrets = await player_secrets(options, out)
        workspace = evidence_directory(options, package, new_run_id())
        where = "" if options.output_dir is not None else f" with -o {shown_path(workspace)}"
        running.to_go_on = f"Run the same command{where} again to go on."
        options.refuse_cluster()
        # Each measurement knows best where it is played, unless that was said
        if venue is None and (backend != "auto" or options.install):
            backend = await stack.enter_async_context(opened_backend(named, package, running))
        progress = stack.enter_context(show_progress(running, settings.name))
        how: BatchArguments = {
            "backend": backend,
            "venue": venue,
            "workspace": workspace,
            "options": options.episode(watch=out.live),
            "listeners": (progress,),
            "labels": options.labels,
            "hooks": options.hook,
            "parallel": options.parallel,
            "max_programs": options.max_programs,
            "episode_listeners": progress.episode_listeners,
        }
        report = await play_suite(
            settings, package=package, players=options.player, command=options.run, secret_env=secrets, **how
        )
    return _show(out, report, workspace, markdown=False, html=None)


@suite.command("show")
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@click.option("--html", type=FILE, metavar="FILE", help="Write a page instead: one self-contained file.")
@overwrite_option
@click.option("--markdown", is_flag=True, help="Write Markdown, for a pull request.")
@output_options
def show(out: Output, directory: Path, html: Path | None, overwrite: bool, markdown: bool) -> int:
    """Show the results of a suite, also while it is being played."""
    from coworld_runner.evaluation import report_page
    from coworld_runner.evaluation.suite import read_suite

    from ..files import target_file, write_whole

    if html is not None and markdown:
        raise click.UsageError("--html and --markdown exclude each other.", click.get_current_context())
    page = target_file(html, "", overwrite=overwrite) if html is not None else None
    report, played = read_suite(directory)
    if page is not None:
        write_whole(page, report_page(played, beside=page.parent, summary=report).encode())
    return _show(out, report, directory, markdown=markdown, html=page)


def _show(out: Output, report: SuiteReport, workspace: Path, *, markdown: bool, html: Path | None) -> int:
    """Write the report of a suite, and return the exit status."""
    from coworld_core.evaluation import MARKDOWN_NAME, SUITE_NAME, report_markdown

    from ..render.evaluation_text import evaluation_result
    from ..render.text import shown_path

    out.answer(
        {
            "workspace": str(workspace),
            "paths": {"report": str(workspace / SUITE_NAME), "markdown": str(workspace / MARKDOWN_NAME)},
            "html": str(html) if html is not None else None,
            "ok": report.ok,
            **report.model_dump(mode="json"),
        }
    )
    if html is not None:
        out.say(f"Page: {shown_path(html)}")
    else:
        out.say(report_markdown(report).rstrip("\n") if markdown else evaluation_result(report, workspace))
    return exitcodes.OK if report.ok else exitcodes.ANSWER_IS_NO
