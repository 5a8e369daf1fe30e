"""``coworld next-version``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..output import Output, output_options
from ..platform_options import Connection, connection_options

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("next-version")
@click.argument("name")
@connection_options
@output_options
def command(out: Output, connection: Connection, name: str) -> int:
    """Print the version that comes next.

    It is that of the Coworld's canonical version, with one added to its last number. A name that the platform does not
    have is an error.
    """
    from .. import exitcodes
    from ..platform_run import run_api
    from ..text import clean

    async def body(api: CoworldClient, _: Running) -> int:
        version = await api.coworlds.next_version(name)
        out.answer({"name": name, "next_version": version})
        out.say(clean(version, one_line=True))
        return exitcodes.OK

    return run_api(out, connection, body)
