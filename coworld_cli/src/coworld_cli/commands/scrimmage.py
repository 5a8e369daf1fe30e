"""``coworld scrimmage``."""

from __future__ import annotations

from typing import Any

import click

from ..options import SectionCommand, episode_flags, episode_options, manifest_argument
from ..output import Output, output_options

__all__ = ["command"]


@click.command("scrimmage", cls=SectionCommand)
@manifest_argument
@click.argument("image")
@episode_options(verify=True)
@output_options
def command(out: Output, image: str, **options: Any) -> int:
    """Play one episode with one player in every seat.

    MANIFEST is a file, a directory that holds one, a file:// or http(s):// address, or a cow_… id. IMAGE is an image
    or the id of a bundled player.

    \b
    Example:
      coworld scrimmage examples/paintarena frontier-painter
    """  # noqa: D301 (click reads the backspace)
    flags = episode_flags(**options, players=(image,))
    from ..episodes import run
    from ..running import run_async

    return run_async(out, lambda running: run(flags, running))
