"""``coworld run-episode``."""

from __future__ import annotations

from typing import Any

import click

from ..options import SectionCommand, episode_flags, episode_options, manifest_argument
from ..output import Output, output_options

__all__ = ["command"]


@click.command("run-episode", cls=SectionCommand)
@manifest_argument
@click.argument("players", nargs=-1, metavar="[EPISODE_REQUEST.json | PLAYER...]")
@episode_options(many=True, verify=True)
@output_options
def command(out: Output, **options: Any) -> int:
    """Play episodes of a Coworld, and keep scores, replay and logs.

    MANIFEST is a file, a directory that holds one, a file:// or http(s):// address, or a cow_… id.

    PLAYER is an image or the id of a bundled player: one for all seats, or one a seat. With none, the bundled players
    sit as the certification fixture has them. An episode request says all of it in a file.

    \b
    Examples:
      coworld run-episode examples/paintarena
      coworld run-episode examples/paintarena my-player:latest --run python --run -m --run my_player
      coworld run-episode examples/paintarena sweep-painter frontier-painter -n 20 --parallel 4
    """  # noqa: D301 (click reads the backspace)
    flags = episode_flags(**options)
    from ..episodes import run
    from ..running import run_async

    return run_async(out, lambda running: run(flags, running))
