"""``coworld divisions``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..output import Output, output_options
from ..platform_options import Connection, Listing, connection_options, id_type, league_filter, listing_options

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("divisions")
@click.argument("division", required=False, type=id_type("division"), metavar="[DIVISION_ID]")
@league_filter
@listing_options(None, noun="divisions")
@connection_options
@output_options
def command(out: Output, connection: Connection, listing: Listing, division: str | None, league: str | None) -> int:
    """List divisions, or show one."""
    if division and league:
        raise click.UsageError("A division is shown by its id alone: --league is for lists.")

    from ..platform_render import show_list, show_one
    from ..platform_run import run_api
    from ..platform_tables import DIVISIONS, division_details

    async def body(api: CoworldClient, _: Running) -> int:
        if division is not None:
            return show_one(out, await api.divisions.get(division), division_details)
        return await show_list(
            out, api.divisions.list(league=league, limit=listing.limit), DIVISIONS, listing, noun="division"
        )

    return run_api(out, connection, body, anonymous=True)
