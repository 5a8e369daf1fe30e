"""``coworld play``."""

from __future__ import annotations

from typing import Any

import click

from ..options import SectionCommand, browser_option, episode_flags, episode_options, manifest_argument
from ..output import Output, output_options

__all__ = ["command"]


@click.command("play", cls=SectionCommand)
@manifest_argument
@click.argument("players", nargs=-1, metavar="[EPISODE_REQUEST.json | PLAYER...]")
@episode_options(people=True)
@browser_option
@output_options
def command(out: Output, **options: Any) -> int:
    """Play in the browser: with people, bots or both.

    MANIFEST is a file, a directory that holds one, a file:// or http(s):// address, or a cow_… id. PLAYER is an image
    or the id of a bundled player: one for all seats, or one a seat.

    Without --human bots sit in all seats and you watch. The links hold the seats' tokens: whoever has one can play.

    \b
    Examples:
      coworld play examples/paintarena
      coworld play examples/paintarena --human 0
    """  # noqa: D301 (click reads the backspace)
    flags = episode_flags(**options)
    from ..playing import play
    from ..running import run_async

    return run_async(out, lambda running: play(flags, running))
