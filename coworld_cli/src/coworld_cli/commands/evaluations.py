"""Commands that diagnose a player, and show what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..measuring import (
    BASE_SEED,
    ELSEWHERE,
    RESUMABLE,
    GameCommand,
    first_game,
    game_option,
    markdown_option,
    measured,
    play_evaluation,
    run_measuring,
    show_report,
)
from ..options.common import overwrite_option
from ..options.declarations import SectionOption, takes
from ..options.play_options import MeasuringOptions
from ..options.values import DIRECTORY, FILE
from ..output import Output, output_options

if TYPE_CHECKING:
    from pathlib import Path

    from ..event_loop import Running

__all__ = ["commands"]

commands = NounGroup()


@commands.group("evaluation", cls=NounGroup)
def evaluation() -> None:
    """Diagnose a player, and report what was measured."""


@evaluation.command("diagnose", cls=GameCommand)
@first_game
@click.argument("bot")
@game_option
@click.option(
    "--baseline",
    cls=SectionOption,
    section="What to play",
    metavar="PLAYER",
    help="A weak player: it scores 0 on the normalised scale.",
)
@click.option(
    "--strong",
    cls=SectionOption,
    section="What to play",
    metavar="PLAYER",
    help="A strong player: it scores 1 on the normalised scale.",
)
@click.option(
    "--compare",
    "before",
    cls=SectionOption,
    section="What counts",
    type=DIRECTORY,
    metavar="DIR",
    help="Say what has certainly changed since the diagnosis in this directory.",
)
@takes(
    "options",
    MeasuringOptions,
    without=ELSEWHERE,
    seed=BASE_SEED,
    output_dir=RESUMABLE,
    variant={"help": "Variant to play, or a pattern ('small-*') for several, block by block. Default: all of them."},
    max_blocks={"default": 10, "show_default": True, "help": "Play this many blocks of each variant."},
)
@markdown_option
@output_options
def diagnose(
    out: Output,
    options: MeasuringOptions,
    game: str,
    bot: str,
    baseline: str | None,
    strong: str | None,
    before: Path | None,
    markdown: bool,
) -> int:
    """Find out what is wrong with a player.

    BOT and PLAYER are files, directories, ids of bundled players, or images.

    BOT plays a battery over the game's variants. Each block is one seed: BOT with itself in every seat, in the first
    two blocks twice, and then in one seat among the game's own players, in turn with --baseline and --strong. You get
    faults, turns that BOT let pass, times, the effects of seats and seeds, and what to look at first.
    """

    async def body(running: Running) -> int:
        from coworld_runner.evaluation import diagnose

        report, workspace = await play_evaluation(
            options.but(manifest=game),
            running,
            [player for player in (bot, baseline, strong) if player is not None],
            lambda package, run, rules: diagnose(
                package, bot, baseline=baseline, strong=strong, before=before, rules=rules, **run
            ),
            others=True,
        )
        return show_report(report, workspace, out, ok=measured(report), markdown=markdown)

    return run_measuring(out, body)


@evaluation.command("report")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=DIRECTORY)
@click.option("--html", type=FILE, metavar="FILE", help="Write a page instead: one self-contained file.")
@overwrite_option
@click.option("--markdown", is_flag=True, help="Write Markdown, for a pull request.")
@output_options
def report(out: Output, runs: tuple[Path, ...], html: Path | None, overwrite: bool, markdown: bool) -> int:
    """Show the results of any of these measurements.

    RUN is a directory that compare, rank, scrimmage, mix, pickup or diagnose wrote, even if it has not ended.
    """
    from coworld_core.evaluation import report_markdown
    from coworld_runner.evaluation import different_games, read_evaluation, report_page

    from ..files import target_file, write_whole
    from ..render.evaluation_text import evaluation_result
    from ..render.text import shown_path

    if html is not None and markdown:
        raise click.UsageError("--html and --markdown exclude each other.", click.get_current_context())
    page = target_file(html, "", overwrite=overwrite) if html is not None else None
    played = [read_evaluation(run) for run in runs]
    differ = different_games([one.report for one in played])
    if page is not None:
        write_whole(page, report_page(played, beside=page.parent).encode())
    out.answer(
        {
            "html": str(page) if page is not None else None,
            "different_games": differ or None,
            "runs": [{"workspace": str(one.workspace), **one.report.model_dump(mode="json")} for one in played],
        }
    )
    if differ:
        out.warn(differ)
    if page is not None:
        out.say(f"Page: {shown_path(page)}")
    else:
        texts = [
            report_markdown(one.report).rstrip("\n") if markdown else evaluation_result(one.report, one.workspace)
            for one in played
        ]
        out.say("\n\n".join(texts))
    return exitcodes.OK


@evaluation.command("replay")
@click.argument("run", metavar="RUN", type=DIRECTORY)
@click.argument("episode", metavar="EPISODE")
@click.option(
    "--game", "-m", metavar="MANIFEST", help="The game, if it is no longer where it was: a directory or a manifest."
)
@output_options
def replay(out: Output, run: Path, episode: str, game: str | None) -> int:
    """Play an episode again of which only its row was kept.

    RUN is the directory of a measurement or a tournament, EPISODE the key of one of its rows: block-0007.1-2. It is
    played with the same seed and the same players, and leaves its evidence in RUN, with a replay. An episode that has
    its evidence is not played again.

    Exit status: 1 when it ended differently, as a player does not always do the same with the same seed.
    """
    from ..event_loop import run_async

    async def body(running: Running) -> int:
        del running
        from coworld_runner.evaluation import play_row_again

        from ..render.text import command_line, shown_path

        again = await play_row_again(run, episode, what=game)
        out.answer(
            {
                "workspace": str(again.directory),
                "played": again.played,
                "same": again.same,
                **again.record.model_dump(mode="json"),
            }
        )
        if not again.same:
            out.warn("it ended differently: a player does not always do the same with the same seed.")
        out.say(f"{again.record}\nShow it with {command_line('replay', shown_path(again.directory))}")
        return exitcodes.OK if again.same else exitcodes.ANSWER_IS_NO

    return run_async(out, body)
