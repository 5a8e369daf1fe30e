"""``coworld submissions``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..output import Output, output_options
from ..platform_options import (
    Connection,
    Listing,
    connection_options,
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


@click.command("submissions")
@league_filter
@policy_filter
@player_filter
@mine_filter
@listing_options(None, noun="submissions")
@connection_options
@output_options
def command(
    out: Output,
    connection: Connection,
    listing: Listing,
    league: str | None,
    policy: str | None,
    player: str | None,
    mine: bool,
) -> int:
    """List submissions of policies to leagues."""
    from ..platform_render import show_list
    from ..platform_run import run_api
    from ..platform_tables import SUBMISSIONS

    async def body(api: CoworldClient, _: Running) -> int:
        pager = api.submissions.list(league=league, policy=policy, player=player, mine=mine, limit=listing.limit)
        return await show_list(out, pager, SUBMISSIONS, listing, noun="submission")

    return run_api(out, connection, body)
