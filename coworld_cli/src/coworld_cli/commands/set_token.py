"""``coworld set-token``."""

from __future__ import annotations

from pathlib import Path

import click

from ..output import Output, output_options
from ..platform_options import platform_server_option

__all__ = ["command"]


@click.command("set-token")
@click.argument("token", required=False)
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True, allow_dash=True),
    metavar="FILE",
    help="The file that holds it.  [default: standard input]",
)
@platform_server_option
@output_options
def command(out: Output, server: str, token: str | None, file: Path | None) -> int:
    """Keep a token that you have.

    The server is asked whose it is first. It is read from standard input; TOKEN on the command line works too, but
    process lists and shell history show it.

    \b
    Example:
      coworld set-token --server http://127.0.0.1:8787 < token.txt
    """  # noqa: D301 (click reads the backspace)
    if token is not None and file is not None:
        raise click.UsageError("Give the token once: TOKEN and --file exclude each other.")

    from coworld_client.credentials import Token

    from ..platform_input import read_secret
    from ..platform_signin import keep_token
    from ..running import run_async

    if token is not None:
        out.warn("the token stood on the command line, where process lists and shell history show it.")
    given = Token(token if token is not None else read_secret(file, what="token"))
    return run_async(out, lambda running: keep_token(server, given, running))
