"""``coworld episode-logs``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..output import Output, output_options
from ..platform_options import Connection, connection_options, id_type

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]


@click.command("episode-logs")
@click.argument("episode", type=id_type("episode request"), metavar="EREQ_ID")
@click.option("--list", "listed", is_flag=True, help="List what there is; so it is without any other option.")
@click.option("--game", is_flag=True, help="The game's log.")
@click.option("--agent", type=click.IntRange(min=0), metavar="N", help="The log of the player at this position.")
@click.option("--mine", is_flag=True, help="Only positions at which a policy of yours played.")
@click.option("--artifact", is_flag=True, help="Not logs, but the files that players left.")
@click.option(
    "--download-dir",
    "-d",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write files here instead of printing.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the one log or artifact to this file.",
)
@connection_options
@output_options
def command(
    out: Output,
    connection: Connection,
    episode: str,
    listed: bool,
    game: bool,
    agent: int | None,
    mine: bool,
    artifact: bool,
    download_dir: Path | None,
    output: Path | None,
) -> int:
    """List, print and download logs and artifacts.

    \b
    Examples:
      coworld episode-logs EREQ_ID                   what there is
      coworld episode-logs EREQ_ID --game            print the game's log
      coworld episode-logs EREQ_ID --agent 0         print a player's log
      coworld episode-logs EREQ_ID --mine -d logs    logs and artifacts of your players
      coworld episode-logs EREQ_ID --artifact --agent 0
    """  # noqa: D301 (click reads the backspace)
    if game and (artifact or agent is not None or mine):
        raise click.UsageError("The game's log is one: --game goes with none of --agent, --mine and --artifact.")
    if output is not None and not (game or agent is not None):
        raise click.UsageError("--output is one file, so it needs --agent N or --game.")
    if output is not None and download_dir is not None:
        raise click.UsageError("--output and --download-dir exclude each other.")
    if listed and (game or agent is not None or download_dir is not None):
        raise click.UsageError("--list only lists: it goes with --mine and --artifact.")

    from ..platform_logs import LogWish, show_logs
    from ..platform_run import run_api

    wish = LogWish(
        episode=episode,
        game=game,
        agent=agent,
        mine=mine,
        artifact=artifact,
        directory=download_dir,
        output=output,
    )

    async def body(api: CoworldClient, running: Running) -> int:
        return await show_logs(api, wish, running)

    return run_api(out, connection, body)
