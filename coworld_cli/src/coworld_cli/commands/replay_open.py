"""``coworld replay-open``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from coworld_core import durations

from ..options import Seconds, backend_options, browser_option
from ..output import Output, output_options
from ..platform_options import Connection, connection_options, id_type

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("replay-open")
@click.argument("episode", type=id_type("episode request"), metavar="EREQ_ID")
@click.option("--hosted", is_flag=True, help="Let the platform show it, rather than this machine.")
@click.option(
    "--timeout-seconds",
    type=Seconds(),
    default=durations.REPLAY_SHOWN,
    help=f"For the replay to be fetched, and for the game to show it.  [default: {durations.REPLAY_SHOWN:g}]",
)
@click.option("--with-artifacts", is_flag=True, help="Download the files that players left, too.")
@click.option(
    "--artifacts-dir",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where to.  [default: ./EREQ_ID-artifacts]",
)
@click.option("--mine", is_flag=True, help="With --with-artifacts: only those of your players.")
@browser_option
@backend_options
@connection_options
@output_options
def command(
    out: Output,
    connection: Connection,
    episode: str,
    hosted: bool,
    timeout_seconds: float,
    with_artifacts: bool,
    artifacts_dir: Path | None,
    mine: bool,
    open_browser: bool | None,
    backend: str,
    platform: str | None,
) -> int:
    """Show an episode's replay in the browser.

    Here, the Coworld is downloaded if it is not yet, its game started in replay mode, and the page shown until Ctrl-C.
    With --hosted the platform does that, and only the address is printed.
    """
    if (artifacts_dir is not None or mine) and not with_artifacts:
        raise click.UsageError("--artifacts-dir and --mine need --with-artifacts.")

    from ..options import BackendFlags
    from ..platform_replays import ReplayWish, open_episode_replay
    from ..platform_run import run_api

    wish = ReplayWish(
        episode=episode,
        hosted=hosted,
        timeout=timeout_seconds,
        artifacts=(artifacts_dir or Path(f"{episode}-artifacts")) if with_artifacts else None,
        mine=mine,
        open_browser=open_browser,
        flags=BackendFlags(manifest="", backend=backend, server=connection.server, platform=platform),
    )

    async def body(api: CoworldClient, running: Running) -> int:
        return await open_episode_replay(api, wish, running)

    return run_api(out, connection, body)
