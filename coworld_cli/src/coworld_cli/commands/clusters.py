"""Clusters that play episodes by themselves."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from coworld_core import time_limits

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_async
from ..options.declarations import declared_by
from ..options.platform import server_for
from ..options.play_options import PlayOptions, WhereOptions, package_server_option
from ..output import Output, output_options

__all__ = ["commands"]

commands = NounGroup()


@commands.group("kubernetes", cls=NounGroup)
def kubernetes() -> None:
    """Make the Job in which a cluster plays an episode.

    Nothing is sent to a cluster. To play on a cluster from here, use `coworld run --backend kubernetes`.
    """


@kubernetes.command("job")
@click.argument("spec")
@click.option(
    "--variant",
    metavar="ID",
    help="Variant of a package, or a pattern that matches only one; by default its certification fixture.",
)
@click.option(
    "--player", "players", multiple=True, metavar="IMAGE", help="Player image: one for all slots, or one per slot."
)
@click.option("--run", multiple=True, metavar="WORD", help="Command of those images, one word at a time.")
@declared_by(PlayOptions, "assignments")
@declared_by(PlayOptions, "config")
@declared_by(PlayOptions, "steps")
@click.option(
    "--worker-image", "--image-worker", metavar="IMAGE", help="The worker's image; by default this version's."
)
@click.option("--job-id", metavar="ID", help="Used in names and labels; by default a new one.")
@click.option("--namespace", metavar="NAME", help="Namespace to write into the Job.")
@click.option("--service-account", metavar="NAME", default="coworld-worker", show_default=True, help="Of the worker.")
@click.option(
    "--deadline-seconds",
    type=click.IntRange(min=1),
    default=time_limits.JOB,
    show_default=True,
    help="Deadline of the whole Job.",
)
@click.option(
    "--timeout-seconds", type=click.FloatRange(min=1), help="Deadline of the episode; by default the remaining time."
)
@click.option(
    "--ttl-seconds",
    type=click.IntRange(min=0),
    default=time_limits.JOB_KEPT,
    show_default=True,
    help="Seconds to keep the Job after it has ended.",
)
@click.option("--output-url", metavar="URL", help="URL below which every output is PUT.")
@click.option("--output", "outputs", multiple=True, metavar="NAME=URL", help="URL of one output.")
@click.option("--output-claim", metavar="NAME", help="PersistentVolumeClaim for outputs that have no URL.")
@click.option("--output-secret", metavar="NAME", help="Secret with the worker's variables for outputs.")
@click.option("--spec-url", metavar="URL", help="URL of SPEC for the cluster; by default it is part of the Job.")
@click.option("--secrets-url", metavar="URL", help="URL of the policies' secrets for the worker.")
@click.option("--player-cpu", default="250m", show_default=True, metavar="QUANTITY", help="Requested by each player.")
@click.option(
    "--player-memory", default="256Mi", show_default=True, metavar="QUANTITY", help="Requested by each player."
)
@click.option("--pull-policy", type=click.Choice(["Always", "IfNotPresent", "Never"]), help="For game and players.")
@click.option(
    "--run-as-user", type=click.IntRange(min=0), metavar="UID", help="The game's user; by default its image's."
)
@click.option("--workload-type", metavar="NAME", help="Nodes with the label and taint workload-type.")
@click.option("--capacity-type", metavar="NAME", help="Nodes with the label karpenter.sh/capacity-type, for players.")
@declared_by(WhereOptions, "pods")
@declared_by(WhereOptions, "allow_privileged")
@package_server_option
@output_options
def job(
    out: Output,
    spec: str,
    variant: str | None,
    players: tuple[str, ...],
    run: tuple[str, ...],
    assignments: tuple[str, ...],
    config: str | None,
    steps: int | None,
    worker_image: str | None,
    job_id: str | None,
    output_url: str | None,
    outputs: tuple[str, ...],
    deadline_seconds: int,
    timeout_seconds: float | None,
    ttl_seconds: int,
    server: str | None,
    **options: Any,
) -> int:
    """Print the Job in which the hosted worker plays one episode, to pipe into kubectl.

    SPEC is an episode request, or a Coworld: a file, a directory, a file:// or http(s):// address, or a cow_… id.

    \b
    Outputs are results, replay, debug, error-info, timings, record, log-SLOT and artifact-SLOT.
    """  # noqa: D301 (click reads the backspace)
    from coworld_core.errors import UsageError
    from coworld_runner.worker import JobOptions, make_worker_job, output_addresses, read_job_spec

    from ..run_preparation import config_changes

    changed = PlayOptions(assignments=assignments, config=config, steps=steps)
    given = {"worker_image": worker_image, "job_id": job_id}

    async def read(_: Running) -> Any:
        address = server_for(spec, server)
        changes = partial(config_changes, changed)
        return await read_job_spec(spec, variant=variant, players=players, run=run, config=changes, server=address)

    loaded = run_async(out, read)
    addresses: dict[str, str] = {}
    if output_url is not None:
        addresses |= output_addresses(output_url, len(getattr(loaded, "request", loaded).players))
    for item in outputs:
        name, equals, address = item.partition("=")
        if not equals:
            raise UsageError(f"--output {name!r} has no address.", hint="Write --output results=https://…")
        addresses[name] = address
    made = make_worker_job(
        loaded,
        JobOptions(
            **{name: value for name, value in given.items() if value is not None},
            deadline=deadline_seconds,
            timeout=timeout_seconds,
            ttl=ttl_seconds,
            outputs=addresses,
            **options,
        ),
    )
    if out.json:
        out.answer(made)
    else:
        import yaml

        click.echo(yaml.safe_dump(made, sort_keys=False, allow_unicode=True), nl=False)
    return exitcodes.OK
