"""``coworld events``."""

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
    player_filter,
    policy_filter,
    round_filter,
)

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("events")
@league_filter
@division_filter
@round_filter
@click.option("--event-type", metavar="TYPE", help="Only those of this type.")
@click.option("--audience", metavar="AUDIENCE", help="Only those for this audience.")
@policy_filter
@player_filter
@listing_options(50, noun="events")
@connection_options
@output_options
def command(
    out: Output,
    connection: Connection,
    listing: Listing,
    league: str | None,
    division: str | None,
    round: str | None,
    event_type: str | None,
    audience: str | None,
    policy: str | None,
    player: str | None,
) -> int:
    """List what happened in competitions."""
    from ..platform_render import show_list
    from ..platform_run import run_api
    from ..platform_tables import EVENTS

    async def body(api: CoworldClient, _: Running) -> int:
        pager = api.events.list(
            league=league,
            division=division,
            round=round,
            event_type=event_type,
            audience=audience,
            policy=policy,
            player=player,
            limit=listing.limit,
        )
        return await show_list(out, pager, EVENTS, listing, noun="event")

    return run_api(out, connection, body)
