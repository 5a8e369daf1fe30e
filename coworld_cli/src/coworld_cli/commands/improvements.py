"""The command that improves a player, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..measuring import GameCommand, first_game, game_option, margin_option
from ..options.declarations import SectionOption, takes
from ..options.play_options import CellOptions
from ..options.values import Seconds
from ..output import Output, output_options

if TYPE_CHECKING:
    from coworld_runner.episode import Venue

    from ..event_loop import Running

__all__ = ["commands"]

commands = NounGroup()

_ELSEWHERE = (
    *("hook", "hook_timeout_seconds"),
    *("watch", "manifest", "players", "player", "human", "admin", "verify_replay", "episodes", "overwrite"),
    "seed",
)


@commands.command("improve", cls=GameCommand)
@first_game
@click.argument("bot", metavar="PLAYER")
@game_option
@click.option(
    "--with",
    "improver",
    cls=SectionOption,
    section="What improves it",
    metavar="COMMAND",
    help="What changes the player: a file with a function optimize(task, player), a command line, which gets the task "
    "on its standard input and changes the files in its directory, an optimizer of the manifest, or an image.  "
    "[default: the manifest's only optimizer]",
)
@click.option(
    "--budget",
    cls=SectionOption,
    section="What improves it",
    default="10",
    show_default=True,
    metavar="BUDGET",
    help="When to end: 10 (steps), 500ep (episodes), 30m or 2h, or the first of several: 10,2h. The same command with "
    "a larger budget goes on.",
)
@click.option(
    "--goal",
    cls=SectionOption,
    section="What improves it",
    default="",
    metavar="TEXT",
    help="What to achieve, in words.  [default: to win more]",
)
@click.option(
    "--improver-network",
    cls=SectionOption,
    section="What improves it",
    type=click.Choice(["none", "open"]),
    default="none",
    show_default=True,
    help="Whether it reaches the network. A command runs as you, with yours.",
)
@click.option(
    "--improver-secret-env",
    cls=SectionOption,
    section="What improves it",
    multiple=True,
    metavar="NAME",
    help="Pass it this variable of your environment, such as the key of a service; repeatable.",
)
@click.option(
    "--improver-seconds",
    cls=SectionOption,
    section="What improves it",
    type=Seconds(least=1),
    default=1800.0,
    help="Time for each change.  [default: 1800]",
)
@click.option(
    "--evidence",
    "evidence",
    cls=SectionOption,
    section="What improves it",
    type=click.IntRange(min=1),
    default=6,
    show_default=True,
    metavar="N",
    help="Episodes of the best player so far, among the game's own players.",
)
@click.option(
    "--grader",
    cls=SectionOption,
    section="What improves it",
    metavar="GRADER",
    help="Grade them with this.  [default: the manifest's only grader, if there is one]",
)
@click.option(
    "--diagnoser",
    cls=SectionOption,
    section="What improves it",
    metavar="DIAGNOSER",
    help="Diagnose them with this.  [default: the manifest's only diagnoser, if there is one]",
)
@margin_option("Differences of mean scores up to this do not matter.")
@click.option(
    "--seed",
    cls=SectionOption,
    section="What to play",
    type=int,
    metavar="N",
    help="Base seed, from which all others are derived.  [default: a fresh one, which the plan has]",
)
@takes(
    "options",
    CellOptions,
    without=_ELSEWHERE,
    run={"section": "What improves it", "help": "Command of an image, one word each: --run python --run my.py."},
    max_blocks={"help": "Compare a changed player with the best so far in at most this many blocks of 2 episodes."},
    output_dir={
        "help": "Directory for everything: new, empty, or that of the same command, which then goes on. "
        "Default: one for this player among the game's results."
    },
)
@output_options
def improve(
    out: Output,
    options: CellOptions,
    game: str,
    bot: str,
    improver: str | None,
    budget: str,
    goal: str,
    improver_network: str,
    improver_secret_env: tuple[str, ...],
    improver_seconds: float,
    evidence: int,
    grader: str | None,
    diagnoser: str | None,
    margin: float | None,
    seed: int | None,
) -> int:
    """Let a program improve a player, step by step.

    PLAYER is a file or a directory of yours, which is never changed.

    Each step plays the best player so far, hands the episodes, their grades and diagnoses and a copy of the player's
    files to the program, and compares what it makes of them with the best so far, as `coworld compare` does. Only what
    is better is kept. At the end, the best is compared with PLAYER on new seeds, beyond the budget. A command that was
    interrupted goes on when it is repeated.

    Exit status: 1 unless the best player is better than PLAYER.
    """
    from ..event_loop import run_async

    options = options.but(manifest=game, seed=seed)

    async def body(running: Running) -> int:
        from contextlib import AsyncExitStack

        from coworld_core.roles import read_budget
        from coworld_runner.improvement import ImprovementRules, improve_player, improvement_workspace
        from coworld_runner.package import files_player
        from coworld_runner.records import remember_directory
        from coworld_runner.roles import RoleOptions, find_optimizer

        from ..render.improvement_text import improvement_answer, improvement_result
        from ..render.progress import show_progress
        from ..run_preparation import (
            batch_arguments,
            episode_arguments,
            evaluation_rules,
            find_package,
            opened_backend,
            opened_jobs,
            player_secrets,
            read_secrets,
            tell_players,
        )

        limit = read_budget(budget)
        package = await find_package(options, running)
        own = files_player(bot, package)
        optimizer = find_optimizer(package, improver, run=options.run)
        rules = ImprovementRules(
            goal=goal,
            # The command is that of the program, not of players
            evaluation=evaluation_rules(options.but(run=()), package, await player_secrets(options, out)),
            margin=margin,
            episodes=evidence,
            grader=grader,
            diagnoser=diagnoser,
            optimizer=RoleOptions(
                timeout=improver_seconds,
                network="open" if improver_network == "open" else "none",
                secret_env=read_secrets(improver_secret_env, (), out).values,
                platform=options.platform,
            ),
            looking=RoleOptions(platform=options.platform),
        )
        workspace = options.output_dir or improvement_workspace(package, own)
        remember_directory(workspace)
        async with AsyncExitStack() as stack:
            stored = options.store is not None
            # Programs run on a backend, whoever plays comparisons
            backend = await stack.enter_async_context(opened_backend(options, package, running, store=stored))
            # A comparison knows best where to play, unless that was said
            measuring: Venue | str | None = "auto" if options.backend == "auto" and not options.install else None
            if stored:
                jobs = opened_jobs(options.but(backend="auto"), options, package, running)
                measuring = await stack.enter_async_context(jobs)
            running.to_go_on = "Run the same command again to go on."
            tell_players(options, [own], rules.evaluation.secret_env, package, backend, out)
            with show_progress(running, package.manifest.game.name) as progress:
                episode = episode_arguments(options, progress, backend, workspace, "", watch=out.live)
                run = batch_arguments(options, progress, {**episode, "run_id": None})
                done = await improve_player(
                    package,
                    bot,
                    improver=optimizer,
                    budget=limit,
                    rules=rules,
                    measuring=measuring,
                    **run,
                )
        out.answer(improvement_answer(done))
        out.say(improvement_result(done))
        return exitcodes.OK if done.report.improved else exitcodes.ANSWER_IS_NO

    return run_async(out, body)
