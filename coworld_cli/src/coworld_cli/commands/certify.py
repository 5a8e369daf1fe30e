"""``coworld certify``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from coworld_core import durations

from ..options import Seconds, backend_options, manifest_argument, server_option
from ..output import Output, output_options

__all__ = ["command"]


@click.command("certify")
@manifest_argument
@click.option(
    "--output-dir",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="New or empty directory for the evidence. Default: a fresh one under results/certification/.",
)
@click.option("--overwrite", is_flag=True, help="Empty an output directory of an earlier run first.")
@backend_options
@server_option
@click.option(
    "--timeout-seconds",
    type=Seconds(least=1),
    default=durations.SMOKE_EPISODE,
    help=f"Deadline of the smoke episode.  [default: {durations.SMOKE_EPISODE:g}]",
)
@click.option("--offline", is_flag=True, help="Do not ask GitHub whether sources are there.")
@click.option(
    "--open-report/--no-open-report",
    "open_browser",
    default=None,
    help="Open the report in a browser. Default: only from a terminal with a desktop.",
)
@output_options
def command(out: Output, **options: Any) -> int:
    """Check in ten steps that a Coworld keeps the runtime contract.

    MANIFEST is a file, a directory that holds one, a file:// or http(s):// address, or a cow_… id.

    A failed step does not end it: whatever can still be checked is. The answer is written as certification.json and,
    for people, as certification.html. The exit status is 1 when the Coworld is not certified.
    """
    from ..certifying import CertifyFlags, run
    from ..running import run_async

    flags = CertifyFlags(**options)
    return run_async(out, lambda running: run(flags, running))
