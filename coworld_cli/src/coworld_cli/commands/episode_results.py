"""``coworld episode-results``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import exitcodes
from ..output import Output, output_options, to_json
from ..platform_options import Connection, connection_options, id_type

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("episode-results")
@click.argument("episode", type=id_type("episode request"), metavar="EREQ_ID")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write them to this file instead, byte by byte as the game did.",
)
@connection_options
@output_options
def command(out: Output, connection: Connection, episode: str, output: Path | None) -> int:
    """Print the results of an episode.

    They are JSON as the game wrote it, with or without --json.
    """
    from ..platform_run import run_api
    from ..platform_transfers import fetch_results
    from ..terminal import echo

    async def body(api: CoworldClient, running: Running) -> int:
        if output is not None:
            await fetch_results(api, episode, output, running=running)
        else:
            echo(to_json(await api.episodes.results(episode)), nl=False)
        return exitcodes.OK

    return run_api(out, connection, body)
