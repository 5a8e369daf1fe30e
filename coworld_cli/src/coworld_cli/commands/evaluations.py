"""Players measured: which of two is better."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .._group import NounGroup
from ..options import REQUIREMENTS, EvaluationOptions, SectionCommand, SectionOption, takes
from ..output import Output, output_options

if TYPE_CHECKING:
    from pathlib import Path

    from coworld_core.evaluation.comparison import ComparisonReport

    from ..running import Running

__all__ = ["commands", "passes"]

commands = NounGroup()

_BETTER = "better"
_ELSEWHERE = ("manifest", "players", "human", "admin", "verify_replay", "resume", "episodes")
"""Options of playing that measuring says otherwise, or has no use for."""
_SEED = {"default": 0, "show_default": True, "help": "Base seed: every block has one of its own, made of it."}
_OUTPUT = {
    "help": "Directory for the evidence: new, empty, or that of the same command, which goes on there. "
    "Default: a fresh one under results/ beside the manifest."
}
_game_option = click.option(
    "--game",
    "-m",
    cls=SectionOption,
    section="What to play",
    default=".",
    metavar="MANIFEST",
    help="The game: a file, a directory that holds one, an address, or a cow_… id.  [default: the current directory]",
)
_markdown_option = click.option(
    "--markdown",
    is_flag=True,
    cls=SectionOption,
    section="Evidence",
    help="Write the result as Markdown, for a pull request.",
)


@commands.command("compare", cls=SectionCommand)
@click.argument("new")
@click.argument("old")
@_game_option
@takes(
    "options",
    EvaluationOptions,
    without=_ELSEWHERE,
    seed=_SEED,
    output_dir=_OUTPUT,
    require={
        "type": click.Choice([_BETTER, *REQUIREMENTS]),
        "section": "What counts",
        "help": f"Fail unless NEW is {_BETTER}; or refuse to start on a backend that cannot enforce this. Repeatable.",
    },
)
@click.option(
    "--margin",
    cls=SectionOption,
    section="What counts",
    type=click.FloatRange(min=0),
    metavar="X",
    help="Differences of mean scores up to this are not worth having: stop when there is certainly no larger one.",
)
@_markdown_option
@output_options
def compare(
    out: Output, options: EvaluationOptions, new: str, old: str, game: str, margin: float | None, markdown: bool
) -> int:
    """Find out whether one player is better than another.

    NEW and OLD are images or ids of bundled players. They play in blocks, each on one seed and in both orders; with
    more than two seats, in the same seat one after the other. It ends as soon as the evidence decides: better, worse,
    no difference worth having (--margin), or not enough evidence.

    Exit status: 1 when NEW is worse or nothing could be measured, and with --require better whenever it is not better.

    \b
    Examples:
      coworld compare frontier-painter sweep-painter -m examples/paintarena --variant quick
      coworld compare my-player:2 my-player:1 -m examples/paintarena --require better --markdown
    """  # noqa: D301 (click reads the backspace)
    from ..running import run_async

    must_win = _BETTER in options.require
    options = options.but(manifest=game, require=tuple(word for word in options.require if word != _BETTER))

    async def body(running: Running) -> int:
        report, workspace = await _compare(options, running, new, old, margin)
        return _show(report, workspace, options, out, must_win=must_win, markdown=markdown)

    return run_async(out, body)


async def _compare(
    options: EvaluationOptions, running: Running, new: str, old: str, margin: float | None
) -> tuple[ComparisonReport, Path]:
    from coworld_core.ids import new_run_id
    from coworld_runner.evaluation import compare
    from coworld_runner.evaluation.playing import EvaluationRun

    from ..preparing import evidence_directory, find_package, opened_backend, player_secrets
    from ..render.progress import show_progress
    from ..render.text import shown_path

    out = running.out
    package = await find_package(options, out)
    secrets = await player_secrets(options, out)
    run_id = new_run_id()
    workspace = evidence_directory(options, package, run_id)
    where = "" if options.output_dir is not None else f" with -o {shown_path(workspace)}"
    async with opened_backend(options, package, running) as backend:
        running.to_go_on = f"The same command{where} goes on from there."
        with show_progress(running, package.manifest.game.name) as progress:
            report = await compare(
                package,
                new,
                old,
                run=EvaluationRun(
                    backend=backend,
                    workspace=workspace,
                    parallel=options.parallel,
                    options=options.episode(watch=out.live),
                    overwrite=options.overwrite,
                    listeners=(progress,),
                    episode_listeners=progress.episode_listeners,
                    latest=options.output_dir is None,
                    run_id=run_id,
                ),
                variant=options.variant,
                command=options.run,
                secret_env=secrets,
                seed=options.seed or 0,
                max_blocks=options.max_blocks,
                margin=margin,
                metric=options.metric,
                forfeit=options.forfeit,
                starved=options.count_starved,
            )
    return report, workspace


def passes(report: ComparisonReport, *, must_win: bool) -> bool:
    """Whether a comparison ends well.

    Args:
        report: What it came to.
        must_win: Whether only a better player will do.
    """
    if must_win:
        return report.verdict == "better"
    return report.verdict != "worse" and report.stopped not in ("never_started", "game_faults", "spoiled")


def _show(
    report: ComparisonReport,
    workspace: Path,
    options: EvaluationOptions,
    out: Output,
    *,
    must_win: bool,
    markdown: bool,
) -> int:
    """Write the result of a comparison, and return the exit status."""
    from .. import exitcodes
    from ..render.evaluations import comparison_result

    ok = passes(report, must_win=must_win)
    names = {"plan": "plan.json", "episodes": "episodes.jsonl", "report": "report.json", "markdown": "report.md"}
    out.answer(
        {
            "workspace": str(workspace),
            "paths": {name: str(workspace / file) for name, file in names.items()},
            "ok": ok,
            **report.model_dump(mode="json"),
        }
    )
    if markdown:
        from coworld_core.evaluation import comparison_markdown

        out.say(comparison_markdown(report).rstrip("\n"))
    else:
        out.say(comparison_result(report, workspace))
    return exitcodes.OK if ok else exitcodes.ANSWER_IS_NO
