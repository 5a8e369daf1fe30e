"""``coworld episodes``."""

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
    listing_options,
    mine_filter,
    policy_filter,
    round_filter,
)

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("episodes")
@click.argument("episode", required=False, type=id_type("episode request"), metavar="[EREQ_ID]")
@division_filter
@round_filter
@policy_filter
@mine_filter
@click.option("--with-replay", is_flag=True, help="Only those that have a replay.")
@listing_options(200, offset=True, noun="episodes")
@connection_options
@output_options
def command(
    out: Output,
    connection: Connection,
    listing: Listing,
    episode: str | None,
    division: str | None,
    round: str | None,
    policy: str | None,
    mine: bool,
    with_replay: bool,
) -> int:
    """List episodes, or show one.

    Filters apply before --limit: a list is short only when there are no more.
    """
    if episode and (division or round or policy or mine or with_replay):
        raise click.UsageError("An episode is shown by its id alone: the filters are for lists.")

    from ..platform_render import show_list, show_one
    from ..platform_run import run_api
    from ..platform_tables import EPISODES, episode_details

    async def body(api: CoworldClient, _: Running) -> int:
        if episode is not None:
            return show_one(out, await api.episodes.get(episode), episode_details)
        pager = api.episodes.list(
            division=division,
            round=round,
            policy=policy,
            mine=mine,
            with_replay=with_replay,
            limit=listing.limit,
            offset=listing.offset,
        )
        return await show_list(out, pager, EPISODES, listing, noun="episode")

    return run_api(out, connection, body)
