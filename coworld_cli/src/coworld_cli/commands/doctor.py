"""``coworld doctor``."""

from __future__ import annotations

import click

from .. import exitcodes
from ..options import BackendName, cluster_options, given_cluster
from ..output import Output, output_options

__all__ = ["command"]

_MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}


@click.command("doctor")
@click.option(
    "--backend",
    type=BackendName(),
    metavar="NAME",
    multiple=True,
    help="Look only at this; repeatable. Default: what is on this machine.",
)
@cluster_options
@output_options
def command(out: Output, backend: tuple[str, ...]) -> int:
    """Check what this machine, or a cluster, has for Coworlds.

    One line a check, and what to do where something is missing. Nothing is changed. The exit status is 3 when no
    backend works at all.
    """
    from coworld_runner.backends.registry import ClusterOptions
    from coworld_runner.doctor import Machine, check_machine

    from ..running import Running, run_async
    from ..text import clean, table

    async def look(_: Running) -> Machine:
        cluster = ClusterOptions(**given_cluster())
        return await check_machine(backends=backend or None, cluster=cluster)

    machine = run_async(out, look)
    out.answer(
        {
            "ok": machine.ok,
            "backends": list(machine.backends),
            "checks": [
                {"name": check.name, "status": check.status, "message": check.message, "hint": check.hint}
                for check in machine.checks
            ],
        }
    )
    lines = table(
        [
            (
                click.style(_MARKS[check.status][0], fg=_MARKS[check.status][1], bold=True),
                check.name,
                clean(check.message, one_line=True),
            )
            for check in machine.checks
        ]
    ).splitlines()
    for check, line in zip(machine.checks, lines, strict=True):
        out.say(line)
        if check.hint:
            out.say(f"     {click.style('hint:', fg='cyan')} {clean(check.hint, one_line=True)}")
    out.say()
    if machine.backends:
        out.say(f"Backends that work here: {', '.join(machine.backends)}.")
    else:
        out.say(click.style("No backend works here.", fg="red", bold=True))
    return exitcodes.OK if machine.ok else exitcodes.ENVIRONMENT
