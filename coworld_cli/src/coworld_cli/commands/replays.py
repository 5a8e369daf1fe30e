"""``coworld replays``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..output import Output, output_options
from ..platform_options import (
    Connection,
    Listing,
    connection_options,
    division_filter,
    listing_options,
    mine_filter,
    policy_filter,
    round_filter,
)

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("replays")
@division_filter
@round_filter
@policy_filter
@mine_filter
@click.option(
    "--download-dir",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Download them here, with an index.json.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 16),
    default=4,
    metavar="N",
    show_default=True,
    help="How many downloads at a time.",
)
@listing_options(1000, offset=True, noun="replays")
@connection_options
@output_options
def command(
    out: Output,
    connection: Connection,
    listing: Listing,
    division: str | None,
    round: str | None,
    policy: str | None,
    mine: bool,
    download_dir: Path | None,
    concurrency: int,
) -> int:
    """List replays, or download them.

    Downloaded replays are as the game wrote them, EREQ_ID.replay each. What is there already is not fetched again; one
    that fails stops no other, and makes the exit status 1.
    """
    if download_dir is not None and listing.jsonl:
        raise click.UsageError("--jsonl is for lists; a download writes index.json, and --json prints it.")

    from ..platform_replays import download_replays, list_replays
    from ..platform_run import run_api

    async def body(api: CoworldClient, running: Running) -> int:
        pager = api.episodes.list(
            division=division,
            round=round,
            policy=policy,
            mine=mine,
            with_replay=True,
            limit=listing.limit,
            offset=listing.offset,
        )
        if download_dir is None:
            return await list_replays(pager, listing, running)
        return await download_replays(api, pager, download_dir, listing, running, concurrency=concurrency)

    return run_api(out, connection, body)
