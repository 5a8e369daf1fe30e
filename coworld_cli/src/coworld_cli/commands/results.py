"""``coworld results``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .. import exitcodes
from ..output import Output, output_options
from ..platform_options import Connection, connection_options, id_type

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("results")
@click.argument("target", type=id_type("league", "division", "round"), metavar="LEAGUE_ID | DIVISION_ID | ROUND_ID")
@click.option(
    "--include-recent-rounds",
    type=click.IntRange(min=0),
    default=3,
    metavar="N",
    show_default=True,
    help="With each row of a division, the last N rounds (under --json).",
)
@connection_options
@output_options
def command(out: Output, connection: Connection, target: str, include_recent_rounds: int) -> int:
    """Show the standings of a league, a division or a round.

    A league has its divisions in order, a division its players, a round what each policy scored in it.
    """
    from ..platform_render import dump, rows_table
    from ..platform_run import run_api
    from ..platform_tables import LADDER, LEADERBOARD, ROUND_RESULTS

    async def body(api: CoworldClient, _: Running) -> int:
        if target.startswith("league_"):
            ladder = await api.leagues.ladder(target)
            out.answer([dump(row) for row in ladder])
            out.say(rows_table(LADDER, ladder) if ladder else "The league has no divisions.")
        elif target.startswith("div_"):
            board = await api.divisions.leaderboard(target, recent_rounds=include_recent_rounds)
            out.answer([dump(row) for row in board])
            out.say(rows_table(LEADERBOARD, board) if board else "Nobody has played in this division yet.")
        else:
            results = (await api.rounds.get(target)).results
            out.answer([dump(row) for row in results])
            out.say(rows_table(ROUND_RESULTS, results) if results else "The round has no results yet.")
        return exitcodes.OK

    return run_api(out, connection, body)
