"""``coworld exchange-code``."""

from __future__ import annotations

import click

from ..output import Output, output_options
from ..platform_options import platform_server_option

__all__ = ["command"]


@click.command("exchange-code")
@click.argument("code", required=False)
@platform_server_option
@output_options
def command(out: Output, server: str, code: str | None) -> int:
    """Finish a sign-in with the code that the browser showed.

    Without CODE it is read from standard input. A code is good once, and not for long.
    """
    from ..platform_input import read_secret
    from ..platform_signin import finish_sign_in
    from ..running import run_async

    given = code if code is not None else read_secret(None, what="code")
    return run_async(out, lambda running: finish_sign_in(server, given, running))
