"""Suites that a platform plays, for the command that plays them on this machine, too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .event_loop import Running, opened_client
from .options.declarations import refuse_options
from .options.platform import Connection
from .options.play_options import PlayOptions
from .render.text import clean, shown_path

if TYPE_CHECKING:
    from coworld_core.episode.record import EpisodeRow
    from coworld_core.evaluation.suite_report import SuiteCell, SuiteReport
    from coworld_core.evaluation.suite_settings import SuiteSettings

__all__ = ["play_on_platform"]

_ALSO_THERE = ("file", "game", "player", "output_dir", "label", "parallel", "server", "on_platform", "json", "quiet")
"""Parameters that mean something on a platform; the others say how programs run on this machine."""
_AT_A_TIME = 4
"""Episodes that are requested at a time, unless it is said."""


async def play_on_platform(
    running: Running, options: PlayOptions, settings: SuiteSettings, game: str
) -> tuple[SuiteReport, Path]:
    """Have a platform play a suite, and keep its files.

    Args:
        running: The command.
        options: Its options.
        settings: The suite.
        game: The game: a Coworld's name or id, or a package on this machine that has its name.

    Returns:
        The report, and its directory.

    Raises:
        click.UsageError: There is no directory, or an option is about programs that run here.
    """
    from coworld_client.suites.hosted_suite import play_hosted_suite
    from coworld_runner.package.resolver import resolve_package

    ctx = click.get_current_context()
    here = [str(param.name) for param in ctx.command.params if param.name not in _ALSO_THERE]
    refuse_options(here, "is about programs that run here: it does not go with --on-platform.")
    if options.output_dir is None:
        raise click.UsageError("--on-platform needs a directory for the report: name one with -o.", ctx)
    directory = options.output_dir.expanduser().absolute()
    if _is_here(game):
        game = (await resolve_package(game)).manifest.game.name
    running.so_far = "What was played is kept, and what was requested goes on."
    running.to_go_on = f"Run the same command again to go on: -o {shown_path(directory)} has what is known so far."

    def tell(cell: SuiteCell, row: EpisodeRow) -> None:
        result = ", ".join(f"{score:g}" for score in row.scores) or row.message or str(row.status)
        running.out.note(clean(f"{cell.entry}, {cell.variant}: {row.run_id}: {result}", one_line=True))

    async with opened_client(Connection(server=options.server)) as api:
        report = await play_hosted_suite(
            api,
            settings,
            directory=directory,
            players=options.player,
            coworld=game,
            labels=options.labels,
            parallel=_AT_A_TIME if options.parallel == "auto" else options.parallel,
            on_episode=tell,
        )
    return report, directory


def _is_here(game: str) -> bool:
    return Path(game).expanduser().exists()
