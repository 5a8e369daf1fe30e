"""``coworld replay``."""

from __future__ import annotations

import click

from coworld_core import durations

from ..options import BackendFlags, Seconds, backend_options, browser_option, manifest_argument, server_option
from ..output import Output, output_options

__all__ = ["command"]


@click.command("replay")
@manifest_argument
@click.argument("replay")
@backend_options
@server_option
@click.option(
    "--timeout-seconds",
    type=Seconds(),
    default=durations.REPLAY_SHOWN,
    help=f"For the replay to be fetched, and for the game to show it.  [default: {durations.REPLAY_SHOWN:g}]",
)
@browser_option
@output_options
def command(
    out: Output,
    manifest: str,
    replay: str,
    backend: str,
    server: str,
    platform: str | None,
    timeout_seconds: float,
    open_browser: bool | None,
) -> int:
    """Show a replay in the browser, until Ctrl-C.

    MANIFEST is a file, a directory that holds one, a file:// or http(s):// address, or a cow_… id. REPLAY is a file,
    the directory of an episode, or a file://, http(s):// or s3:// address; gzip and zlib are undone.

    \b
    Example:
      coworld replay examples/paintarena examples/paintarena/results/latest
    """  # noqa: D301 (click reads the backspace)
    flags = BackendFlags(manifest=manifest, backend=backend, server=server, platform=platform)
    from ..playing import replay as show
    from ..running import run_async

    return run_async(
        out, lambda running: show(flags, replay, running, timeout=timeout_seconds, open_browser=open_browser)
    )
