"""Checks of a player: everything that an upload would find, in seconds, before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..measuring import BASE_SEED, game_option
from ..options.declarations import takes
from ..options.play_options import EvaluationOptions
from ..output import Output, output_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coworld_runner.doctor import Check
    from coworld_runner.episode import BatchArguments
    from coworld_runner.evaluation import PlayerReport

    from ..event_loop import Running

__all__ = ["checked_player", "commands", "show_checks"]

commands = NounGroup()

_LEFT_OUT = (
    "hook",
    "hook_timeout_seconds",
    "manifest",
    "players",
    "player",
    "human",
    "admin",
    "watch",
    "episodes",
    "parallel",
    "max_programs",
    "verify_replay",
    "max_blocks",
    "metric",
    "forfeit",
    "count_starved",
)


@commands.command("check")
@click.argument("bot")
@game_option
@takes(
    "options",
    EvaluationOptions,
    without=_LEFT_OUT,
    seed=BASE_SEED,
    output_dir={"help": "New or empty directory for the episodes' evidence. Default: none is kept."},
)
@output_options
def check(out: Output, options: EvaluationOptions, bot: str, game: str) -> int:
    """Check a player before you upload it.

    BOT is a file or a directory of yours, the id of a bundled player, or an image. What it is made of is checked as for
    an upload. Then it plays three short episodes: twice with itself, with the same seed, and once among the game's own
    players. You see whether it connects, acts, acts legally and in time, does the same again, and how much memory it
    takes.

    Exit status: 1 when a check fails.
    """
    from ..event_loop import run_async

    options = options.but(manifest=game)

    async def body(running: Running) -> int:
        report = await checked_player(options, running, bot)
        checks = show_checks(out, report.checks)
        if report.seed is not None:
            out.say(f"--seed {report.seed} plays the same episodes again.")
        out.answer({"player": report.player, "ok": report.ok, "checks": checks, "seed": report.seed})
        return exitcodes.OK if report.ok else exitcodes.ANSWER_IS_NO

    return run_async(out, body)


async def checked_player(options: EvaluationOptions, running: Running, bot: str) -> PlayerReport:
    """Check a player in the game that the options name."""
    from coworld_core.ids import new_run_id
    from coworld_runner.evaluation import check_player

    from ..render.progress import show_progress
    from ..run_preparation import evaluation_rules, find_package, opened_backend, player_secrets

    out = running.out
    package = await find_package(options, running)
    rules = evaluation_rules(options, package, await player_secrets(options, out))
    with show_progress(running, package.manifest.game.name) as progress:
        run: BatchArguments = {
            "options": options.episode(watch=False),
            "listeners": (progress,),
            "run_id": new_run_id(),
            "backend": "auto",
        }
        if options.output_dir is not None:
            run |= {"workspace": options.output_dir, "overwrite": options.overwrite}
        if options.backend == "auto" and not options.install:
            # Worker processes, if the game is one of the kit, or programs
            return await check_player(package, bot, rules=rules, **run)
        async with opened_backend(options, package, running) as backend:
            run["backend"] = backend
            return await check_player(package, bot, rules=rules, **run)


def show_checks(out: Output, checks: Sequence[Check]) -> list[dict[str, object]]:
    """Write a line for each check, and return them for programs."""
    from coworld_core.hints import hint_fields

    from ..render.results import check_lines

    out.say("\n".join(check_lines(checks)))
    failed = sum(one.status == "fail" for one in checks)
    warned = sum(one.status == "warn" for one in checks)
    verdict = f"{failed} of {len(checks)} checks failed." if failed else "Ready to upload."
    out.say()
    out.say(
        click.style(verdict, fg="red" if failed else "green", bold=True) + (f" {warned} to look at." if warned else "")
    )
    return [{"name": one.name, "status": one.status, "message": one.message, **hint_fields(one.hint)} for one in checks]
