"""What commands that measure players share: their options, playing an evaluation, and showing its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click
from click.core import ParameterSource

from . import exitcodes
from .options.declarations import SectionCommand, SectionOption
from .options.play_options import MeasuringOptions
from .output import Output

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from coworld_core.evaluation import ShownReport
    from coworld_runner.episode import BatchArguments
    from coworld_runner.evaluation import EvaluationRules
    from coworld_runner.package import Package

    from .event_loop import Running

    _Report = TypeVar("_Report", bound=ShownReport)
    _Command = TypeVar("_Command", bound=Callable[..., object])

__all__ = [
    "BASE_SEED",
    "ELSEWHERE",
    "EPISODES",
    "EPISODES_ELSEWHERE",
    "RESUMABLE",
    "GameCommand",
    "first_game",
    "game_option",
    "margin_option",
    "markdown_option",
    "measured",
    "play_evaluation",
    "run_measuring",
    "show_report",
]

ELSEWHERE = ("watch", "manifest", "players", "player", "human", "admin", "verify_replay", "episodes")
"""Options for playing that commands which measure declare differently, or do not need."""
BASE_SEED = {
    "help": "Base seed: that of a report repeats it. A player may guess small numbers.  [default: a fresh one]"
}
RESUMABLE = {
    "help": "Directory for the evidence: new, empty, or that of the same command, which then resumes. "
    "Default: a fresh one under results/ beside the manifest."
}
EPISODES_ELSEWHERE = ("watch", "max_blocks", *(name for name in ELSEWHERE if name != "episodes"))
"""The same, for commands that take a number of episodes instead of blocks."""
EPISODES = {"default": 50, "help": "Minimum number of episodes to play: the last block is played whole."}
game_option = click.option(
    "--game",
    "-m",
    cls=SectionOption,
    section="What to play",
    default=".",
    metavar="MANIFEST",
    help="The game: a file, a directory that holds one, an address, or a cow_… id.  [default: the current directory]",
)


class _FirstGame(click.Argument):
    """The game in front of the players, as these commands took it before they had `--game`; the help leaves it out."""

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        return []


first_game = click.argument("manifest", nargs=-1, cls=_FirstGame)


class GameCommand(SectionCommand):
    """A command that takes its game by `--game`, or as its first argument.

    The argument is that of `first_game`; a command with any number of players has none, and takes the first of them.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments."""
        rest = super().parse_args(ctx, args)
        named = ctx.get_parameter_source("game") is not ParameterSource.DEFAULT
        first: tuple[str, ...] | None = ctx.params.pop("manifest", None)
        if first is None:
            players = self.params[0]
            first, ctx.params[str(players.name)] = _game_and_players(ctx.params[str(players.name)], named=named)
            if not ctx.params[str(players.name)]:
                raise click.MissingParameter(ctx=ctx, param=players)
        if first and named:
            ctx.fail("The game is given twice: as the first argument, and by --game.")
        if len(first) > 1:
            ctx.fail(f"Got unexpected extra argument ({first[1]})")
        if first:
            ctx.params["game"] = first[0]
            ctx.set_parameter_source("game", ParameterSource.COMMANDLINE)
        return rest


def _game_and_players(arguments: tuple[str, ...], *, named: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    from coworld_runner.package import names_game

    first = not named and (names_game(arguments[0]) or not names_game("."))
    return arguments[:first], arguments[first:]


markdown_option = click.option(
    "--markdown",
    is_flag=True,
    cls=SectionOption,
    section="Evidence",
    help="Write the result as Markdown, for a pull request.",
)


def margin_option(says: str) -> Callable[[_Command], _Command]:
    """The option `--margin`.

    Args:
        says: What it is for, for `--help`.
    """
    return click.option(
        "--margin",
        cls=SectionOption,
        section="What counts",
        type=click.FloatRange(min=0),
        metavar="X",
        help=says,
    )


def run_measuring(out: Output, body: Callable[[Running], Awaitable[int]]) -> int:
    """Run the body of a command that measures, as `run_async`; one that was detached has nothing to show yet."""
    from coworld_runner.jobs import Detached

    from .event_loop import run_async
    from .render.text import clean, command_line
    from .run_preparation import ending_command

    try:
        return run_async(out, body)
    except Detached as detached:
        out.answer({"ok": True, "detached": True, "run_id": detached.run_id, "store": detached.store})
        out.say(
            clean(
                f"The measurement goes on on the cluster, as {detached.run_id}.\n"
                f"Follow it:  {command_line('attach', detached.store, 'DIR')}\n"
                f"End it:     {ending_command(detached.store, detached.cluster)}"
            )
        )
        return exitcodes.OK


async def play_evaluation(
    options: MeasuringOptions,
    running: Running,
    players: Sequence[str],
    play: Callable[[Package, BatchArguments, EvaluationRules], Awaitable[_Report]],
    *,
    others: bool = False,
) -> tuple[_Report, Path]:
    """Play an evaluation and show its progress; returns its report and its directory.

    Args:
        options: The options of the command.
        running: The command that runs.
        players: The players.
        play: Plays it.
        others: Whether the game's own players sit among them even if there are only two seats.
    """
    from contextlib import AsyncExitStack
    from dataclasses import replace

    from coworld_core.ids import new_run_id
    from coworld_runner.evaluation import Entrants
    from coworld_runner.package import read_players

    from .render.progress import show_progress
    from .render.text import shown_path
    from .run_preparation import (
        batch_arguments,
        episode_arguments,
        evaluation_rules,
        evidence_directory,
        find_package,
        opened_for_measuring,
        opened_jobs,
        opened_platform,
        player_secrets,
        tell_players,
    )

    out = running.out
    async with AsyncExitStack() as stack:
        everyone = [*players, *([options.others] if options.others is not None else [])]
        if options.on_platform:
            opened = opened_platform(options, everyone, running)
            package, venue = await stack.enter_async_context(opened)
        else:
            package, venue = await find_package(options, running), None
        # Report a wrong player before opening a backend
        named = read_players(everyone, package)
        secrets = await player_secrets(options, out)
        rules = replace(evaluation_rules(options, package, secrets), others=options.others, max_cost=options.max_cost)
        run_id = new_run_id()
        workspace = evidence_directory(options, package, run_id)
        where = "" if options.output_dir is not None else f" with -o {shown_path(workspace)}"
        if options.store is not None:
            detach = everyone if options.detach else ()
            venue = await stack.enter_async_context(opened_jobs(options, options, package, running, detach=detach))
        elif venue is None:
            # Whether variants fit together is for the measurement to say
            entrants = Entrants(package, {player: player for player in players}, rules, any_seats=True)
            opened = opened_for_measuring(options, package, entrants, running, others=others or entrants.seats > 2)
            venue = await stack.enter_async_context(opened)
        running.to_go_on = f"Run the same command{where} again to resume."
        own, registered = [player.own for player in named], [player.registered for player in named]
        tell_players(options, own, rules.secret_env, package, venue.backend, out, registered=registered, measured=True)
        progress = stack.enter_context(show_progress(running, package.manifest.game.name))
        episode = episode_arguments(options, progress, None, workspace, run_id, watch=out.live)
        run = batch_arguments(options, progress, episode, venue=venue)
        return await play(package, run, rules), workspace


def measured(report: ShownReport) -> bool:
    """Whether anything could be measured."""
    from coworld_core.evaluation import UNMEASURED

    return report.stopped not in UNMEASURED


def show_report(report: ShownReport, workspace: Path, out: Output, *, ok: bool, markdown: bool) -> int:
    """Write the result of an evaluation, and return the exit status."""
    from coworld_core.evaluation import report_markdown

    from .render.evaluation_text import evaluation_result

    names = {"plan": "plan.json", "episodes": "episodes.jsonl", "report": "report.json", "markdown": "report.md"}
    out.answer(
        {
            "workspace": str(workspace),
            "paths": {name: str(workspace / file) for name, file in names.items()},
            "ok": ok,
            **report.model_dump(mode="json"),
        }
    )
    out.say(report_markdown(report).rstrip("\n") if markdown else evaluation_result(report, workspace))
    return exitcodes.OK if ok else exitcodes.ANSWER_IS_NO
