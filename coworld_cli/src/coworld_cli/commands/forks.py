"""Games that are continued another way."""

from __future__ import annotations

from pathlib import Path

import click

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_async
from ..options.values import DIRECTORY
from ..output import Output, output_options

__all__ = ["commands", "seat_option"]

commands = NounGroup()

seat_option = click.option(
    "--seat",
    "seats",
    type=(click.IntRange(min=0), str),
    multiple=True,
    metavar="SEAT PLAYER",
    help="Who plays now in a seat, counted from 0: a player of the Coworld, a file, or random; repeatable.",
)


@commands.command("fork")
@click.argument("run", metavar="RUN")
@click.argument("package", required=False, metavar="[PACKAGE]")
@click.option("--at", type=click.IntRange(min=0), required=True, metavar="TICK", help="The tick to go on from.")
@seat_option
@click.option(
    "--times", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Number of continuations."
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="SEED",
    help="What the random numbers of several continuations follow from.",
)
@click.option("--output", "-o", type=DIRECTORY, metavar="DIR", help="Keep the continuations in this directory.")
@output_options
def fork(
    out: Output,
    run: str,
    package: str | None,
    at: int,
    seats: tuple[tuple[int, str], ...],
    times: int,
    seed: int,
    output: Path | None,
) -> int:
    """Continue an episode another way, from a tick.

    Up to that tick, what was recorded is done; then its players act, or those that are named with --seat. All of them
    see the game from its beginning. One continuation has the random numbers of the game. Of several, each has others
    from that tick on, and what is shown is each seat's share of the points, with its 95 % interval.

    RUN is the directory of an episode, RUN/N, or latest. PACKAGE is the game, which is executed: by default the one
    that the record names, if its manifest is still the same. Of games that are not of the kit, what seats sent must
    have been recorded (run --backend process --record frames).
    """

    async def work(running: Running) -> int:
        from coworld_runner.evaluation import fork_run

        from ..render.forks import fork_text
        from ..render.progress import Progress

        report = await fork_run(
            run,
            at=at,
            players=dict(seats),
            times=times,
            seed=seed,
            game=package,
            workspace=output,
            listeners=(Progress(running),),
        )
        out.answer(report.model_dump(mode="json"))
        out.say(fork_text(report))
        return exitcodes.OK if report.completed else exitcodes.ANSWER_IS_NO

    return run_async(out, work)
