"""``coworld whoami``."""

from __future__ import annotations

import click

from ..output import Output, output_options
from ..platform_options import Connection, connection_options

__all__ = ["command"]


@click.command("whoami")
@connection_options
@output_options
def command(out: Output, connection: Connection) -> int:
    """Show who you are to a server.

    The exit status is 3 when you are nobody: no token, one the server does not know, or a player's session that has
    ended.
    """
    from ..platform_run import run_api
    from ..platform_signin import show_identity

    return run_api(out, connection, show_identity)
