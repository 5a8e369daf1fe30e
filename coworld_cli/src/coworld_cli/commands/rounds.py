"""``coworld rounds``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..output import Output, output_options
from ..platform_options import (
    Connection,
    Listing,
    connection_options,
    division_filter,
    id_type,
    league_filter,
    listing_options,
)

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("rounds")
@click.argument("round", required=False, type=id_type("round"), metavar="[ROUND_ID]")
@league_filter
@division_filter
@click.option("--status", metavar="STATUS", help="Only those with this status.")
@listing_options(25, offset=True, noun="rounds")
@connection_options
@output_options
def command(
    out: Output,
    connection: Connection,
    listing: Listing,
    round: str | None,
    league: str | None,
    division: str | None,
    status: str | None,
) -> int:
    """List rounds, or show one.

    Under --json a list is an object with `entries`, `total_count`, `limit` and `offset`.
    """
    if round and (league or division or status):
        raise click.UsageError("A round is shown by its id alone: the filters are for lists.")

    from ..platform_render import show_list, show_one
    from ..platform_run import run_api
    from ..platform_tables import ROUNDS, round_details

    async def body(api: CoworldClient, _: Running) -> int:
        if round is not None:
            return show_one(out, await api.rounds.get(round), round_details)
        pager = api.rounds.list(
            league=league, division=division, status=status, limit=listing.limit, offset=listing.offset
        )
        return await show_list(out, pager, ROUNDS, listing, noun="round", envelope=True)

    return run_api(out, connection, body)
