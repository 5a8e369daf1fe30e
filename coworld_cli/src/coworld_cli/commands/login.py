"""``coworld login``."""

from __future__ import annotations

import click

from ..output import Output, output_options
from ..platform_options import platform_server_option

__all__ = ["command"]


@click.command("login")
@click.option("--no-browser", is_flag=True, help="Only show the address, and open no browser.")
@click.option("--force", "-f", is_flag=True, help="Sign in even when you are.")
@click.option("--with-token", is_flag=True, help="Read a token from standard input instead.")
@platform_server_option
@output_options
def command(out: Output, server: str, no_browser: bool, force: bool, with_token: bool) -> int:
    """Sign in with the browser, and keep the token.

    It is kept in ~/.softmax/credentials.yaml (SOFTMAX_CONFIG_DIR names another directory), for you alone. COWORLD_TOKEN
    comes before it and is never written down.
    """
    from ..platform_signin import keep_token, sign_in_here
    from ..running import run_async

    if not with_token:
        return run_async(out, lambda running: sign_in_here(server, running, force=force, browser=not no_browser))

    from pathlib import Path

    from coworld_client.credentials import Token

    from ..platform_input import read_line

    token = Token(read_line(Path("-"), what="token"))
    return run_async(out, lambda running: keep_token(server, token, running))
