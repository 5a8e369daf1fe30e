"""Players measured: which of two is better, and how several stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

from .._group import NounGroup
from ..options import REQUIREMENTS, EvaluationOptions, SectionCommand, SectionOption, takes
from ..output import Output, output_options

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from coworld_core.evaluation.comparison import ComparisonReport
    from coworld_core.evaluation.reports import EvaluationReport
    from coworld_runner.evaluation import EvaluationRules, EvaluationRun
    from coworld_runner.package.resolving import Package

    from ..running import Running

    _Report = TypeVar("_Report", bound=EvaluationReport)

__all__ = ["commands", "passes"]

commands = NounGroup()

_BETTER = "better"
_ELSEWHERE = ("manifest", "players", "player", "human", "admin", "verify_replay", "resume", "episodes")
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

    NEW and OLD are files or directories of yours, ids of bundled players, or images. They play in blocks, each on one
    seed and in both orders; with more than two seats, in the same seat one after the other. It ends as soon as the
    evidence decides: better, worse, no difference worth having (--margin), or not enough evidence.

    Exit status: 1 when NEW is worse or nothing could be measured, and with --require better whenever it is not better.

    \b
    Examples:
      coworld compare frontier-painter sweep-painter -m examples/paintarena --variant quick
      coworld compare ./new.py ./old.py -m examples/nim
      coworld compare my-player:2 my-player:1 -m examples/paintarena --require better --markdown
    """  # noqa: D301 (click reads the backspace)
    from ..running import run_async

    must_win = _BETTER in options.require
    options = options.but(manifest=game, require=tuple(word for word in options.require if word != _BETTER))

    async def body(running: Running) -> int:
        from coworld_core.evaluation import comparison_markdown
        from coworld_runner.evaluation import compare

        from ..render.evaluations import comparison_result

        report, workspace = await _play(
            options,
            running,
            (new, old),
            lambda package, run, rules: compare(package, new, old, run=run, rules=rules, margin=margin),
        )
        said = comparison_markdown(report).rstrip("\n") if markdown else comparison_result(report, workspace)
        return _show(report, workspace, out, ok=passes(report, must_win=must_win), said=said)

    return run_async(out, body)


@commands.command("rank", cls=SectionCommand)
@click.argument("manifest")
@click.argument("bots", metavar="PLAYER PLAYER...", nargs=-1, required=True)
@takes("options", EvaluationOptions, without=_ELSEWHERE, seed=_SEED, output_dir=_OUTPUT)
@_markdown_option
@output_options
def rank(out: Output, options: EvaluationOptions, manifest: str, bots: tuple[str, ...], markdown: bool) -> int:
    """Find out who is better than whom among several players.

    MANIFEST is a file, a directory that holds one, a file:// or http(s):// address, or a cow_… id. PLAYER is a file
    or a directory of yours, the id of a bundled player, or an image.

    They play a round robin of blocks: each a group of as many players as there are seats, on one seed, with everybody
    in every seat. It ends when everybody is told apart, or after --max-blocks.

    \b
    Example:
      coworld rank examples/paintarena frontier-painter sweep-painter --variant quick
    """  # noqa: D301 (click reads the backspace)
    from ..running import run_async

    async def body(running: Running) -> int:
        from coworld_core.evaluation import ranking_markdown
        from coworld_core.evaluation.reports import UNMEASURED
        from coworld_runner.evaluation import rank

        from ..render.evaluations import ranking_result

        report, workspace = await _play(
            options.but(manifest=manifest),
            running,
            bots,
            lambda package, run, rules: rank(package, bots, run=run, rules=rules),
        )
        said = ranking_markdown(report).rstrip("\n") if markdown else ranking_result(report, workspace)
        return _show(report, workspace, out, ok=report.stopped not in UNMEASURED, said=said)

    return run_async(out, body)


async def _play(
    options: EvaluationOptions,
    running: Running,
    players: Sequence[str],
    play: Callable[[Package, EvaluationRun, EvaluationRules], Awaitable[_Report]],
) -> tuple[_Report, Path]:
    """Have an evaluation played, shown while it goes on; its report, and where its files are."""
    from coworld_core.ids import new_run_id
    from coworld_runner.evaluation import EvaluationRules, EvaluationRun
    from coworld_runner.players import read_players

    from ..preparing import evidence_directory, find_package, opened_backend, player_secrets, tell_housing
    from ..render.progress import show_progress
    from ..render.text import shown_path

    out = running.out
    package = await find_package(options, out)
    # before a backend is asked for anything
    own = [player.own for player in read_players(players, package)]
    rules = EvaluationRules(
        variant=options.variant,
        command=options.run,
        secret_env=await player_secrets(options, out),
        seed=options.seed or 0,
        max_blocks=options.max_blocks,
        metric=options.metric,
        forfeit=options.forfeit,
        starved=options.count_starved,
    )
    run_id = new_run_id()
    workspace = evidence_directory(options, package, run_id)
    where = "" if options.output_dir is not None else f" with -o {shown_path(workspace)}"
    async with opened_backend(options, package, running) as backend:
        running.to_go_on = f"The same command{where} goes on from there."
        tell_housing(own, package, backend, out)
        with show_progress(running, package.manifest.game.name) as progress:
            run = EvaluationRun(
                backend=backend,
                workspace=workspace,
                parallel=options.parallel,
                options=options.episode(watch=out.live),
                overwrite=options.overwrite,
                listeners=(progress,),
                episode_listeners=progress.episode_listeners,
                latest=options.output_dir is None,
                run_id=run_id,
            )
            return await play(package, run, rules), workspace


def passes(report: ComparisonReport, *, must_win: bool) -> bool:
    """Whether a comparison ends well.

    Args:
        report: What it came to.
        must_win: Whether only a better player will do.
    """
    if must_win:
        return report.verdict == "better"
    from coworld_core.evaluation.reports import UNMEASURED

    return report.verdict != "worse" and report.stopped not in UNMEASURED


def _show(report: EvaluationReport, workspace: Path, out: Output, *, ok: bool, said: str) -> int:
    """Write the result of an evaluation, and return the exit status."""
    from .. import exitcodes

    names = {"plan": "plan.json", "episodes": "episodes.jsonl", "report": "report.json", "markdown": "report.md"}
    out.answer(
        {
            "workspace": str(workspace),
            "paths": {name: str(workspace / file) for name, file in names.items()},
            "ok": ok,
            **report.model_dump(mode="json"),
        }
    )
    out.say(said)
    return exitcodes.OK if ok else exitcodes.ANSWER_IS_NO
