"""``coworld clean``."""

from __future__ import annotations

import click

from .. import exitcodes
from ..options import BackendName, cluster_options, given_cluster
from ..output import Output, output_options

__all__ = ["command"]


@click.command("clean")
@click.option("--yes", "--apply", "apply", is_flag=True, help="Remove what is found. Without it, it is only listed.")
@click.option("--run", "run_id", metavar="RUN_ID", help="Only what this run left.")
@click.option("--force", is_flag=True, help="Take what belongs to runs that are still going, too.")
@click.option(
    "--backend",
    type=BackendName(),
    metavar="NAME",
    multiple=True,
    help="Look only there; repeatable. Default: on this machine.",
)
@cluster_options
@output_options
def command(out: Output, apply: bool, run_id: str | None, force: bool, backend: tuple[str, ...]) -> int:
    """Find and remove what a killed run left behind.

    Processes, containers, networks, volumes, directories and what is on a cluster carry the label of the run that
    made them, so exactly those of coworld, and of this user, are found. What belongs to a run that is still going is
    listed and left alone.

    The exit status is 3 when something could not be removed, or a --backend could not be asked.
    """
    from coworld_runner.backends.registry import ClusterOptions
    from coworld_runner.doctor import leftovers
    from coworld_runner.reaper import Sweep

    from ..render import sweep_result
    from ..running import Running, run_async

    async def sweep(_: Running) -> Sweep:
        cluster = ClusterOptions(**given_cluster())
        return await leftovers(backends=backend or None, run_id=run_id, apply=apply, force=force, cluster=cluster)

    swept = run_async(out, sweep)
    # a backend that was asked for by name must answer; another may well not be here
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
