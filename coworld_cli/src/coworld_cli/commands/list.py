"""``coworld list``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..output import Output, output_options
from ..platform_options import Connection, Listing, connection_options, listing_options

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("list")
@listing_options(200, offset=True, noun="Coworlds")
@connection_options
@output_options
def command(out: Output, connection: Connection, listing: Listing) -> int:
    """List Coworlds."""
    from ..platform_render import show_list
    from ..platform_run import run_api
    from ..platform_tables import COWORLDS

    async def body(api: CoworldClient, _: Running) -> int:
        return await show_list(
            out, api.coworlds.list(limit=listing.limit, offset=listing.offset), COWORLDS, listing, noun="Coworld"
        )

    return run_api(out, connection, body)
