"""``coworld retire-membership``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..output import Output, output_options
from ..platform_options import Connection, connection_options, id_type

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("retire-membership")
@click.argument("membership", type=id_type("membership"), metavar="LPM_ID")
@click.option("--reason", metavar="TEXT", help="Why, for whoever looks at it later.")
@connection_options
@output_options
def command(out: Output, connection: Connection, membership: str, reason: str | None) -> int:
    """Take a policy out of its league."""
    from .. import exitcodes
    from ..platform_render import dump, rows_table
    from ..platform_run import run_api
    from ..platform_tables import MEMBERSHIPS

    async def body(api: CoworldClient, _: Running) -> int:
        retired = await api.memberships.retire(membership, reason=reason)
        out.answer(dump(retired))
        out.say(rows_table(MEMBERSHIPS, [retired]))
        return exitcodes.OK

    return run_api(out, connection, body, changes=True)
