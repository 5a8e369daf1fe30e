"""``coworld images``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..output import Output, output_options
from ..platform_options import Connection, Listing, connection_options, id_type, listing_options

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("images")
@click.argument("image", required=False, type=id_type("image"), metavar="[IMAGE_ID]")
@listing_options(200, offset=True, noun="images")
@connection_options
@output_options
def command(out: Output, connection: Connection, listing: Listing, image: str | None) -> int:
    """List container images, or show one."""
    from ..platform_render import show_list, show_one
    from ..platform_run import run_api
    from ..platform_tables import IMAGES, image_details

    async def body(api: CoworldClient, _: Running) -> int:
        if image is not None:
            return show_one(out, await api.images.get(image), image_details)
        return await show_list(
            out, api.images.list(limit=listing.limit, offset=listing.offset), IMAGES, listing, noun="image"
        )

    return run_api(out, connection, body)
