"""``coworld episode-stats``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..output import Output, output_options
from ..platform_options import Connection, connection_options, id_type

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("episode-stats")
@click.argument("episode", type=id_type("episode request"), metavar="EREQ_ID")
@connection_options
@output_options
def command(out: Output, connection: Connection, episode: str) -> int:
    """Show the statistics of an episode."""
    from ..platform_render import show_one
    from ..platform_run import run_api
    from ..platform_tables import stats_details

    async def body(api: CoworldClient, _: Running) -> int:
        return show_one(out, await api.episodes.stats(episode), stats_details)

    return run_api(out, connection, body)
