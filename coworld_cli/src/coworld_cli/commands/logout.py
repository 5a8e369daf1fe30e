"""``coworld logout``."""

from __future__ import annotations

import click

from ..output import Output, output_options
from ..platform_options import platform_server_option

__all__ = ["command"]


@click.command("logout")
@platform_server_option
@output_options
def command(out: Output, server: str) -> int:
    """Forget the token and the player sessions of a server."""
    from ..platform_signin import forget
    from ..running import run_async

    return run_async(out, lambda _: forget(server, out))
