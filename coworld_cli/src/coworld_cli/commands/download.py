"""``coworld download``."""

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


@click.command("download")
@click.argument("coworld", type=id_type("coworld", names=True), metavar="COWORLD_ID | NAME")
@click.option(
    "--output-dir",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("coworld"),
    metavar="DIR",
    help="Above the directory of the Coworld.  [default: ./coworld]",
)
@click.option("--refresh", is_flag=True, help="Ask the platform again, even when it is here.")
@click.option("--images/--no-images", default=True, help="Pull its images too.  [default: --images]")
@connection_options
@output_options
def command(out: Output, connection: Connection, coworld: str, output_dir: Path, refresh: bool, images: bool) -> int:
    """Download a Coworld, to play it here.

    DIR/COWORLD_ID gets coworld_manifest.json, coworld_images.json and AGENTS.md. An id needs no login; a name, which
    means the canonical version, does.
    """
    from ..platform_downloads import download_coworld
    from ..platform_run import run_api

    async def body(api: CoworldClient, running: Running) -> int:
        await download_coworld(api, coworld, output_dir, refresh=refresh, images=images, running=running)
        return exitcodes.OK

    return run_api(out, connection, body, anonymous=coworld.startswith("cow_"))
