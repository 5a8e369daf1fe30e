"""``coworld show``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..output import Output, output_options
from ..platform_options import Connection, connection_options, id_type

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("show")
@click.argument("coworld", type=id_type("coworld"), metavar="COWORLD_ID")
@connection_options
@output_options
def command(out: Output, connection: Connection, coworld: str) -> int:
    """Show a Coworld.

    That needs no login.
    """
    from ..platform_render import show_one
    from ..platform_run import run_api
    from ..platform_tables import coworld_details

    async def body(api: CoworldClient, _: Running) -> int:
        return show_one(out, await api.coworlds.get(coworld), coworld_details)

    return run_api(out, connection, body, anonymous=True)
