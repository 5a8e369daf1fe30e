"""``coworld memberships``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..output import Output, output_options
from ..platform_options import (
    Connection,
    Listing,
    connection_options,
    division_filter,
    league_filter,
    listing_options,
    mine_filter,
    player_filter,
    policy_filter,
)

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("memberships")
@league_filter
@division_filter
@policy_filter
@player_filter
@mine_filter
@click.option("--active-only", is_flag=True, help="Only those that compete.")
@click.option("--champions-only", is_flag=True, help="Only those that their owners nominated.")
@listing_options(None, noun="memberships")
@connection_options
@output_options
def command(
    out: Output,
    connection: Connection,
    listing: Listing,
    league: str | None,
    division: str | None,
    policy: str | None,
    player: str | None,
    mine: bool,
    active_only: bool,
    champions_only: bool,
) -> int:
    """List the policies that are in leagues."""
    from ..platform_render import show_list
    from ..platform_run import run_api
    from ..platform_tables import MEMBERSHIPS

    async def body(api: CoworldClient, _: Running) -> int:
        pager = api.memberships.list(
            league=league,
            division=division,
            policy=policy,
            player=player,
            mine=mine,
            active_only=active_only,
            champions_only=champions_only,
            limit=listing.limit,
        )
        return await show_list(out, pager, MEMBERSHIPS, listing, noun="membership")

    return run_api(out, connection, body)
