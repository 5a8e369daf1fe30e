"""``coworld patch-commissioner``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .. import exitcodes
from ..output import Output, output_options
from ..platform_options import Connection, connection_options

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("patch-commissioner")
@click.argument("name")
@click.argument("image")
@click.option("--runnable-id", metavar="ID", help="Which commissioner, when the Coworld has several.")
@click.option("--version", metavar="VERSION", help="Version to make. Default: the next one.")
@connection_options
@output_options
def command(
    out: Output, connection: Connection, name: str, image: str, runnable_id: str | None, version: str | None
) -> int:
    """Give a Coworld another commissioner.

    That makes a new version of it. IMAGE is one that the Docker engine here has, or the img_… id of one that the
    platform has.
    """
    from ..platform_run import run_api
    from ..platform_uploads import patch_commissioner

    async def body(api: CoworldClient, running: Running) -> int:
        await patch_commissioner(api, name, image, runnable=runnable_id, version=version, running=running)
        return exitcodes.OK

    return run_api(out, connection, body, changes=True)
