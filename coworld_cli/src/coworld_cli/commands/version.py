"""``coworld version``."""

from __future__ import annotations

import click

from .. import exitcodes
from ..output import Output, output_options

__all__ = ["command"]


@click.command("version")
@output_options
def command(out: Output) -> int:
    """Print the versions of coworld and of what it runs on."""
    from coworld_runner.doctor import machine_versions

    from ..running import Running, run_async
    from ..text import clean, table

    async def ask(_: Running) -> dict[str, str | None]:
        return dict(await machine_versions())

    versions = run_async(out, ask)
    out.answer(versions)
    out.say(table([(name, clean(version, one_line=True) if version else "-") for name, version in versions.items()]))
    return exitcodes.OK
