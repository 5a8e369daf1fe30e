"""Commands that measure players alone, in mixtures, and by what they replace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from .._group import NounGroup
from ..measuring import (
    BASE_SEED,
    EPISODES,
    EPISODES_ELSEWHERE,
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
from ..options.declarations import SectionOption, refuse_options, takes
from ..options.play_options import MeasuringOptions
from ..output import Output, output_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..event_loop import Running

__all__ = ["commands"]

commands = NounGroup()


@commands.command("scrimmage", cls=GameCommand)
@first_game
@click.argument("bot")
@game_option
@takes(
    "options",
    MeasuringOptions,
    without=("manifest", "players", "human", "admin", "watch", "max_blocks", "others"),
    output_dir=RESUMABLE,
    episodes={"help": "Number of episodes. With 2 or more, each has its own seed, and you get means with intervals."},
    seed={"help": "Put this seed into the game config; with several episodes, derive their seeds from it."},
)
@markdown_option
@output_options
def scrimmage(out: Output, options: MeasuringOptions, game: str, bot: str, markdown: bool) -> int:
    """Measure a player that plays itself in every seat.

    BOT is a file, a directory, the id of a bundled player, or an image.

    A single episode is shown as run shows it. With -n 2 or more you get the mean score, how far scores spread,
    what each seat is worth, faults and times.
    """
    from ..event_loop import run_async
    from .episodes import play_episodes

    options = options.but(manifest=game)
    if options.episodes == 1:
        measures = {"max_cost", "metric", "forfeit", "count_starved", "markdown", "on_platform"}
        refuse_options(measures, "needs -n 2 or more: one episode measures nothing.")
        return run_async(out, lambda running: play_episodes(options.but(players=(bot,)), running))
    refuse_options({"verify_replay"}, "is for one episode.")

    async def body(running: Running) -> int:
        from coworld_runner.evaluation import scrimmage

        report, workspace = await play_evaluation(
            options,
            running,
            (bot,),
            lambda package, run, rules: scrimmage(package, bot, episodes=options.episodes, rules=rules, **run),
        )
        return show_report(report, workspace, out, ok=measured(report), markdown=markdown)

    return run_measuring(out, body)


@commands.command("mix", cls=GameCommand)
@first_game
@game_option
@click.option(
    "--player",
    "bots",
    cls=SectionOption,
    section="What to play",
    multiple=True,
    metavar="PLAYER[,proportion=X]",
    help="A player, and its share of the seats relative to the others; repeatable.  [default proportion: 1]",
)
@takes(
    "options",
    MeasuringOptions,
    without=(*EPISODES_ELSEWHERE, "others"),
    seed=BASE_SEED,
    output_dir=RESUMABLE,
    episodes=EPISODES,
)
@markdown_option
@output_options
def mix(out: Output, options: MeasuringOptions, game: str, bots: tuple[str, ...], markdown: bool) -> int:
    """Measure players that share the seats.

    PLAYER is a file, a directory, the id of a bundled player, or an image.

    The seats are shared in proportion. Each block is one seed and a full rotation, so every player has every seat
    equally often. You get means by player, by seat and by pair.
    """
    players = _proportions(bots)

    async def body(running: Running) -> int:
        from coworld_runner.evaluation import mix

        report, workspace = await play_evaluation(
            options.but(manifest=game),
            running,
            tuple(players),
            lambda package, run, rules: mix(package, players, episodes=options.episodes, rules=rules, **run),
        )
        return show_report(report, workspace, out, ok=measured(report), markdown=markdown)

    return run_measuring(out, body)


@commands.command("pickup", cls=GameCommand)
@first_game
@click.argument("bot")
@game_option
@click.option(
    "--pool",
    cls=SectionOption,
    section="What to play",
    multiple=True,
    metavar="PLAYER",
    help="A player that BOT replaces; repeatable.",
)
@click.option(
    "--team",
    is_flag=True,
    cls=SectionOption,
    section="What counts",
    help="Measure the mean of the whole table: for games that score a team with one number.",
)
@click.option(
    "--credit",
    type=click.Choice(["shapley"]),
    cls=SectionOption,
    section="What counts",
    help="Also measure what BOT, each player of the pool, and each pair of them add to the mean of the whole table.",
)
@takes(
    "options",
    MeasuringOptions,
    without=EPISODES_ELSEWHERE,
    seed=BASE_SEED,
    output_dir=RESUMABLE,
    episodes=EPISODES,
)
@markdown_option
@output_options
def pickup(
    out: Output,
    options: MeasuringOptions,
    game: str,
    bot: str,
    pool: tuple[str, ...],
    team: bool,
    credit: Literal["shapley"] | None,
    markdown: bool,
) -> int:
    """Measure what a player adds beyond the players it replaces.

    BOT and PLAYER are files, directories, ids of bundled players, or images.

    Each block is one seed, played with BOT in no seat, in one, and so on up to all; the pool has the other seats. The
    value is BOT's score in its seats minus the pool's score there.
    """

    async def body(running: Running) -> int:
        from coworld_runner.evaluation import pickup

        report, workspace = await play_evaluation(
            options.but(manifest=game),
            running,
            (bot, *pool),
            lambda package, run, rules: pickup(
                package,
                bot,
                pool,
                episodes=options.episodes,
                team=team,
                credit=credit or "",
                rules=rules,
                **run,
            ),
            others=credit is not None,
        )
        return show_report(report, workspace, out, ok=measured(report), markdown=markdown)

    return run_measuring(out, body)


def _proportions(bots: Sequence[str]) -> dict[str, float]:
    """Players and their shares of the seats.

    Raises:
        click.UsageError: No player is named, a proportion cannot be read, or a player is named twice.
    """
    if not bots:
        raise click.UsageError(
            "This measures players: name them with --player. To play an episode, use `coworld run MANIFEST`.",
            click.get_current_context(),
        )
    players: dict[str, float] = {}
    for bot in bots:
        name, given, text = bot.rpartition(",proportion=")
        try:
            proportion = float(text) if given else 1.0
        except ValueError:
            raise click.UsageError(
                f"--player {bot!r}: {text!r} is not a proportion. Write it as in {name},proportion=3.",
                click.get_current_context(),
            ) from None
        if (name or text) in players:
            raise click.UsageError(
                f"--player {name or text!r} is given twice: give it a larger proportion instead.",
                click.get_current_context(),
            )
        players[name or text] = proportion
    return players
