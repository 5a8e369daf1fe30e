"""Commands that measure players against each other: one with another, and several in a ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .. import exitcodes
from .._group import NounGroup
from ..measuring import (
    BASE_SEED,
    ELSEWHERE,
    RESUMABLE,
    GameCommand,
    game_option,
    margin_option,
    markdown_option,
    measured,
    play_evaluation,
    run_measuring,
    show_report,
)
from ..options.declarations import SectionOption, refuse_options, takes
from ..options.play_options import REQUIREMENTS, MeasuringOptions
from ..options.values import RATINGS
from ..output import Output, output_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coworld_core.evaluation import ComparisonReport, RatingName

    from ..event_loop import Running

__all__ = ["commands", "passes"]

commands = NounGroup()

_BETTER = "better"
_FAILED = ("worse", "not_better")


@commands.command("compare")
@click.argument("new")
@click.argument("old")
@game_option
@takes(
    "options",
    MeasuringOptions,
    without=ELSEWHERE,
    seed=BASE_SEED,
    output_dir=RESUMABLE,
    require={
        "type": click.Choice([_BETTER, *REQUIREMENTS]),
        "section": "What counts",
        "help": f"Fail unless NEW is {_BETTER}; or refuse to start on a backend that cannot enforce this. Repeatable.",
    },
)
@margin_option("Differences of mean scores up to this do not matter: stop when there is certainly no larger one.")
@click.option(
    "--elo1",
    cls=SectionOption,
    section="What counts",
    type=float,
    metavar="ELO",
    help="Test instead whether NEW is better by more than --elo0, as Fishtest does: an Elo difference worth having.",
)
@click.option(
    "--elo0",
    cls=SectionOption,
    section="What counts",
    type=float,
    metavar="ELO",
    help="In that test, an Elo difference that is not worth having.  [default: 0]",
)
@click.option(
    "--alpha",
    cls=SectionOption,
    section="What counts",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    metavar="RISK",
    help="How often an equal player may be called better or worse, or one of --elo0 pass.",
)
@click.option(
    "--beta",
    cls=SectionOption,
    section="What counts",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    metavar="RISK",
    help="How often a player that is better by --elo1 may fail that test.",
)
@click.option(
    "--plan",
    "only_plan",
    is_flag=True,
    cls=SectionOption,
    section="What to play",
    help="Play nothing: say how many blocks it takes for which difference.",
)
@markdown_option
@output_options
def compare(
    out: Output,
    options: MeasuringOptions,
    new: str,
    old: str,
    game: str,
    margin: float | None,
    elo0: float | None,
    elo1: float | None,
    alpha: float,
    beta: float,
    only_plan: bool,
    markdown: bool,
) -> int:
    """Find out whether one player is better than another.

    NEW and OLD are files or directories of yours, ids of bundled players, or images. They play in blocks, each on one
    seed and in both orders; with more than two seats, one after the other in the same seat. The comparison ends as soon
    as the evidence decides: better, worse, no difference worth having (--margin), or not enough evidence.

    Exit status: 1 when NEW is worse, fails a test (--elo1), or nothing could be measured; with --require better
    whenever it is not better.
    """
    from ..event_loop import run_async

    if elo0 is not None and elo1 is None:
        raise click.UsageError("--elo0 needs --elo1.", click.get_current_context())
    if elo1 is not None:
        refuse_options({"margin"}, "and --elo1 exclude each other.")
    must_win = _BETTER in options.require
    options = options.but(manifest=game, require=tuple(word for word in options.require if word != _BETTER))
    if only_plan:
        refuse_options({"markdown", "max_cost", "output_dir", "on_platform", "others"}, "has no meaning with --plan.")
        terms = {"margin": margin, "elo0": elo0, "elo1": elo1, "alpha": alpha, "beta": beta}
        return run_async(out, lambda running: _forecast(options, running, new, old, terms))

    async def body(running: Running) -> int:
        from coworld_runner.evaluation import compare

        report, workspace = await play_evaluation(
            options,
            running,
            (new, old),
            lambda package, run, rules: compare(
                package, new, old, rules=rules, margin=margin, elo0=elo0, elo1=elo1, alpha=alpha, beta=beta, **run
            ),
        )
        return show_report(report, workspace, out, ok=passes(report, must_win=must_win), markdown=markdown)

    return run_measuring(out, body)


@commands.command("rank", cls=GameCommand)
@click.argument("bots", metavar="PLAYER PLAYER...", nargs=-1, required=True)
@game_option
@click.option(
    "--rating",
    type=click.Choice(RATINGS),
    cls=SectionOption,
    section="What counts",
    help="Rating system; the same command with another one rates the episodes again, without playing.  "
    "[default: plackett-luce for games of more than two seats, otherwise bradley-terry]",
)
@takes("options", MeasuringOptions, without=ELSEWHERE, seed=BASE_SEED, output_dir=RESUMABLE)
@markdown_option
@output_options
def rank(
    out: Output,
    options: MeasuringOptions,
    game: str,
    bots: tuple[str, ...],
    rating: RatingName | None,
    markdown: bool,
) -> int:
    """Rank several players.

    PLAYER is a file or a directory of yours, the id of a bundled player, or an image.

    They play a round robin of blocks: each has a group of as many players as there are seats, on one seed, with every
    player in every seat. It ends when all players can be told apart, or after --max-blocks.
    """

    async def body(running: Running) -> int:
        from coworld_runner.evaluation import rank

        report, workspace = await play_evaluation(
            options.but(manifest=game),
            running,
            bots,
            lambda package, run, rules: rank(package, bots, rating=rating, rules=rules, **run),
        )
        return show_report(report, workspace, out, ok=measured(report), markdown=markdown)

    return run_measuring(out, body)


async def _forecast(options: MeasuringOptions, running: Running, new: str, old: str, terms: Mapping[str, Any]) -> int:
    """Say how many blocks a comparison takes."""
    from coworld_runner.evaluation import ComparisonTerms, forecast_comparison

    from ..render.evaluation_text import forecast_text
    from ..run_preparation import evaluation_rules, find_package

    package = await find_package(options, running)
    found = await forecast_comparison(
        package, new, old, rules=evaluation_rules(options, package), terms=ComparisonTerms(**terms)
    )
    running.out.answer(found.model_dump(mode="json"))
    running.out.say(forecast_text(found))
    return exitcodes.OK


def passes(report: ComparisonReport, *, must_win: bool) -> bool:
    """Whether a comparison passes.

    Args:
        report: The comparison's report.
        must_win: Whether NEW must be better; otherwise it must not be worse, nor fail a test.
    """
    return report.verdict == "better" if must_win else report.verdict not in _FAILED and measured(report)
