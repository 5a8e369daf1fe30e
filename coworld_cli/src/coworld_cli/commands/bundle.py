"""``coworld bundle``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import exitcodes
from ..output import Output, output_options
from ..platform_options import Connection, connection_options, id_type

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]

_PARTS = ("results", "replay", "error_info", "game_logs", "player_logs", "player_artifact")


@click.command("bundle")
@click.argument("episode", type=id_type("episode request"), metavar="EREQ_ID")
@click.option(
    "--include",
    type=click.Choice(_PARTS),
    multiple=True,
    help="Only this part; repeatable. Default: everything that you may see.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to.  [default: ./EREQ_ID.zip]",
)
@click.option("--overwrite", is_flag=True, help="Replace the file if it is there.")
@connection_options
@output_options
def command(
    out: Output,
    connection: Connection,
    episode: str,
    include: tuple[str, ...],
    output: Path | None,
    overwrite: bool,
) -> int:
    """Download everything of an episode in one file.

    It is a zip; manifest.json in it says what is there. Parts that you may not see are left out. Interrupted, the same
    command goes on where it was.
    """
    from ..platform_files import target_file
    from ..platform_run import run_api
    from ..platform_transfers import fetch_bundle

    target = target_file(output, f"{episode}.zip", overwrite=overwrite)

    async def body(api: CoworldClient, running: Running) -> int:
        await fetch_bundle(api, episode, target, include=include, running=running)
        return exitcodes.OK

    return run_api(out, connection, body)
