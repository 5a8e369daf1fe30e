"""``coworld status``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from coworld_core import durations

from ..options import Seconds
from ..output import Output, output_options
from ..platform_options import Connection, connection_options, id_type

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("status")
@click.argument("coworld", type=id_type("coworld"), metavar="COWORLD_ID")
@click.option(
    "--wait-hosted-smoke/--no-wait-hosted-smoke", default=False, help="Wait for the first hosted episodes to end."
)
@click.option(
    "--hosted-smoke-timeout-seconds",
    type=Seconds(),
    default=durations.HOSTED_SMOKE,
    help=f"How long to wait.  [default: {durations.HOSTED_SMOKE:g}]",
)
@connection_options
@output_options
def command(
    out: Output,
    connection: Connection,
    coworld: str,
    wait_hosted_smoke: bool,
    hosted_smoke_timeout_seconds: float,
) -> int:
    """Show a Coworld and how its hosted episodes went.

    The exit status is 1 when one of them failed, and when they have not ended in the time there was to wait.
    """
    from ..platform_run import run_api
    from ..platform_smoke import show_status

    timeout = hosted_smoke_timeout_seconds if wait_hosted_smoke else None

    async def body(api: CoworldClient, running: Running) -> int:
        return await show_status(api, coworld, wait=timeout, running=running)

    return run_api(out, connection, body)
