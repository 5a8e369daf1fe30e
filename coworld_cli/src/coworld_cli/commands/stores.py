"""Measurements that pods of a cluster play, by their store: follow them, and bring what was played."""

from __future__ import annotations

from pathlib import Path

import click

from coworld_core.text import plural

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_async
from ..options.values import DIRECTORY
from ..output import Output, output_options

__all__ = ["commands"]

commands = NounGroup()

_store = click.argument("store", metavar="URL")
_directory = click.argument("directory", type=DIRECTORY, metavar="DIR")


@commands.command("attach")
@_store
@_directory
@output_options
def attach(out: Output, store: str, directory: Path) -> int:
    """Follow a measurement that was detached, and show its result.

    URL is the --store with which it was begun. DIR is for its rows and its report: new, empty, or that of the same
    measurement. After Ctrl-C, the measurement goes on by itself.
    """
    from ..measuring import measured, show_report
    from ..render.progress import show_progress

    async def body(running: Running) -> int:
        from coworld_runner.jobs import attend_run

        running.so_far, running.to_go_on = "It goes on on the cluster.", "Run the same command again to follow it."
        with show_progress(running, "measurement") as progress:
            report = await attend_run(store, directory, listeners=(progress,))
        return show_report(report, directory, out, ok=measured(report), markdown=False)

    return run_async(out, body)


@commands.command("pull")
@_store
@_directory
@output_options
def pull(out: Output, store: str, directory: Path) -> int:
    """Bring what was played so far into a directory.

    URL is the --store of a measurement. DIR is new or empty, or has the same measurement, to which what is new is
    added. The command that began it goes on from there on this machine, with -o DIR in place of --store.
    """
    from ..render.text import shown_path

    async def bring(_: Running) -> int:
        from coworld_runner.jobs import pull_run

        return await pull_run(store, directory)

    count = run_async(out, bring)
    out.answer({"directory": str(directory), "episodes": count})
    out.say(f"{plural(count, 'episode')} in {shown_path(directory)}")
    return exitcodes.OK
