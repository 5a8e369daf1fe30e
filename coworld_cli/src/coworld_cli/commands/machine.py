"""This machine: its equipment, what runs on it, and what was left behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_async
from ..manifest_fixes import fix_manifest, yes_option
from ..options.declarations import refuse_options, takes
from ..options.play_options import WhereOptions
from ..options.values import BackendName, PathType
from ..output import Output, output_options
from ..render.results import machine_checks, sweep_result
from ..render.text import clean, table

if TYPE_CHECKING:
    from coworld_runner.doctor import Machine
    from coworld_runner.runs import Sweep

__all__ = ["commands"]

commands = NounGroup()

_ELSEWHERE = ("backend", "platform", "install")
"""Options of `WhereOptions` that these commands do not have, or declare differently."""


@commands.command("doctor")
@click.option(
    "--backend",
    type=BackendName(),
    metavar="NAME",
    multiple=True,
    help="Check only this backend; repeatable. Default: those on this machine.",
)
@click.option("--fix", type=PathType(), metavar="PATH", help="Fix a manifest, as `validate --fix` does.")
@yes_option
@takes("where", WhereOptions, without=_ELSEWHERE)
@output_options
def doctor(out: Output, where: WhereOptions, backend: tuple[str, ...], fix: Path | None, yes: bool) -> int:
    """Check what this machine, or a cluster, has for Coworlds.

    Prints one line per check, and what to do if something is missing. Nothing is changed, except with --fix, which
    fixes a manifest instead. The exit status is 3 if no backend works at all.
    """
    if fix is not None:
        refuse_options({"backend"}, "does not go with --fix.")
    where.refuse_cluster(backend)
    if fix is not None:
        return fix_manifest(out, fix, yes=yes)
    refuse_options({"yes"}, "goes with --fix.")
    from coworld_core.hints import hint_fields
    from coworld_runner.doctor import check_machine

    async def look(_: Running) -> Machine:
        return await check_machine(backends=backend or None, cluster=where.cluster())

    machine = run_async(out, look)
    out.answer(
        {
            "ok": machine.ok,
            "backends": list(machine.backends),
            "checks": [
                {"name": check.name, "status": check.status, "message": check.message, **hint_fields(check.hint)}
                for check in machine.checks
            ],
        }
    )
    out.say(machine_checks(machine))
    return exitcodes.OK if machine.ok else exitcodes.ENVIRONMENT


@commands.command("clean")
@click.option("--yes", "--apply", "apply", is_flag=True, help="Remove what is found, instead of only listing it.")
@click.option("--run", "run_id", metavar="RUN_ID", help="Only what this run left.")
@click.option("--force", is_flag=True, help="Include what belongs to runs that are still going.")
@click.option(
    "--backend",
    type=BackendName(),
    metavar="NAME",
    multiple=True,
    help="Look only in this backend; repeatable. Default: on this machine.",
)
@takes("where", WhereOptions, without=_ELSEWHERE)
@output_options
def clean_up(
    out: Output, where: WhereOptions, apply: bool, run_id: str | None, force: bool, backend: tuple[str, ...]
) -> int:
    """Find and remove what a killed run left behind.

    Processes, containers, networks, volumes, directories and objects on a cluster carry the label of the run that
    created them, so only those of coworld and of this user are found. What belongs to a run that is still going is
    listed, but not removed.

    The exit status is 3 if something could not be removed, or a --backend did not answer.
    """
    from coworld_runner.doctor import leftovers

    where.refuse_cluster(backend)

    async def sweep(_: Running) -> Sweep:
        return await leftovers(
            backends=backend or None, run_id=run_id, apply=apply, force=force, cluster=where.cluster()
        )

    swept = run_async(out, sweep)
    # A backend named by the user must answer; any other may be missing
    ok = swept.ok and not (backend and swept.unavailable)
    became = {id(item.found): item for item in swept.reaped}
    out.answer(
        {
            "dry_run": not apply,
            "applied": apply,
            "ok": ok,
            "items": [
                {
                    "kind": item.kind,
                    "id": item.id,
                    "name": item.name,
                    "run_id": item.run_id,
                    "alive": item.alive,
                    "age_seconds": item.age_seconds,
                    "removed": became[id(item)].removed if id(item) in became else False,
                    "reason": became[id(item)].reason if id(item) in became else "",
                }
                for item in swept.found
            ],
            "unavailable": list(swept.unavailable),
        }
    )
    out.say(sweep_result(swept, apply=apply, force=force))
    return exitcodes.OK if ok else exitcodes.ENVIRONMENT


@commands.command("version")
@output_options
def version(out: Output) -> int:
    """Print the versions of coworld and of what it runs on."""
    from coworld_runner.doctor import machine_versions

    async def ask(_: Running) -> dict[str, str | None]:
        return dict(await machine_versions())

    versions = run_async(out, ask)
    out.answer(versions)
    out.say(table([(name, clean(version, one_line=True) if version else "-") for name, version in versions.items()]))
    return exitcodes.OK
