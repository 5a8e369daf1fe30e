"""``coworld leagues``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..output import Output, output_options
from ..platform_options import Connection, Listing, connection_options, id_type, listing_options

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("leagues")
@click.argument("league", required=False, type=id_type("league"), metavar="[LEAGUE_ID]")
@listing_options(None, noun="leagues")
@connection_options
@output_options
def command(out: Output, connection: Connection, listing: Listing, league: str | None) -> int:
    """List leagues, or show one."""
    from ..platform_render import show_list, show_one
    from ..platform_run import run_api
    from ..platform_tables import LEAGUES, league_details

    async def body(api: CoworldClient, _: Running) -> int:
        if league is not None:
            return show_one(out, await api.leagues.get(league), league_details)
        return await show_list(out, api.leagues.list(limit=listing.limit), LEAGUES, listing, noun="league")

    return run_api(out, connection, body, anonymous=True)
