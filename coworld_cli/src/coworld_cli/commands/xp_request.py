"""``coworld xp-request``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import exitcodes
from .._group import NounGroup
from ..options import Seconds
from ..output import Output, output_options
from ..platform_options import Connection, Listing, connection_options, id_type, listing_options, mine_filter

if TYPE_CHECKING:
    from coworld_client import CoworldClient

    from ..running import Running

__all__ = ["command"]

_XREQ = id_type("experience request")
_WATCH_SECONDS = 3600.0
_PARTS = ("results", "replay", "error_info", "game_logs", "player_logs", "player_artifact")


@click.group("xp-request", cls=NounGroup)
def command() -> None:
    """Have episodes played, watch and fetch them.

    An experience request asks for episodes of a Coworld with policies of your choice.
    """


@command.command("create")
@click.argument("body", type=click.Path(path_type=Path, dir_okay=False, exists=True, allow_dash=True), metavar="BODY")
@click.option("--wait/--no-wait", default=False, help="Wait until all episodes have ended.")
@connection_options
@output_options
def create(out: Output, connection: Connection, body: Path, wait: bool) -> int:
    """Ask for episodes. BODY is a JSON file, or - for standard input.

    \b
    {"coworld_id": "cow_…", "variant_id": "quick", "num_episodes": 10,
     "roster": [{"player": {"policy_ref": "mine:v3"}, "slot": 0}, {"player": {"policy_ref": "rival:v1"}}]}

    In place of coworld_id, target names a league_id or a division_id; a seat's player is a policy_ref, {"top_n": 3} or
    {"random": true}. With --wait the exit status is 1 when an episode failed.
    """  # noqa: D301 (click reads the backspace)
    from ..platform_experience import create_request, watch_requests
    from ..platform_input import json_object, read_bytes
    from ..platform_run import run_api

    given = json_object(read_bytes(body), what="The body")

    async def work(api: CoworldClient, running: Running) -> int:
        made = await create_request(api, given, running, answer=not wait)
        if not wait:
            return exitcodes.OK
        return await watch_requests(api, [made.id], running, timeout=_WATCH_SECONDS)

    return run_api(out, connection, work, changes=True)


@command.command("list")
@mine_filter
@listing_options(50, offset=True, noun="requests")
@connection_options
@output_options
def list_(out: Output, connection: Connection, listing: Listing, mine: bool) -> int:
    """List experience requests.

    Under --json it is an object with `entries`, `total_count`, `limit` and `offset`.
    """
    from ..platform_render import show_list
    from ..platform_run import run_api
    from ..platform_tables import EXPERIENCE

    async def body(api: CoworldClient, _: Running) -> int:
        pager = api.experience.list(mine=mine, limit=listing.limit, offset=listing.offset)
        return await show_list(out, pager, EXPERIENCE, listing, noun="experience request", envelope=True)

    return run_api(out, connection, body)


@command.command("get")
@click.argument("request", type=_XREQ, metavar="XREQ_ID")
@connection_options
@output_options
def get(out: Output, connection: Connection, request: str) -> int:
    """Show an experience request and its episodes."""
    from ..platform_render import show_one
    from ..platform_run import run_api
    from ..platform_tables import experience_details

    async def body(api: CoworldClient, _: Running) -> int:
        return show_one(out, await api.experience.get(request), experience_details)

    return run_api(out, connection, body)


@command.command("episodes")
@click.argument("request", type=_XREQ, metavar="XREQ_ID")
@listing_options(None, noun="episodes")
@connection_options
@output_options
def episodes(out: Output, connection: Connection, listing: Listing, request: str) -> int:
    """List the episodes of an experience request."""
    from ..platform_render import show_list
    from ..platform_run import run_api
    from ..platform_tables import EPISODES

    async def body(api: CoworldClient, _: Running) -> int:
        return await show_list(
            out, api.experience.episodes(request, limit=listing.limit), EPISODES, listing, noun="episode"
        )

    return run_api(out, connection, body)


@command.command("cancel")
@click.argument("request", type=_XREQ, metavar="XREQ_ID")
@connection_options
@output_options
def cancel(out: Output, connection: Connection, request: str) -> int:
    """Cancel an experience request: what has not begun will not.

    To cancel it again changes nothing. One that has ended is refused.
    """
    from ..platform_render import show_one
    from ..platform_run import run_api
    from ..platform_tables import experience_details

    async def body(api: CoworldClient, _: Running) -> int:
        return show_one(out, await api.experience.cancel(request), experience_details)

    return run_api(out, connection, body, changes=True)


@command.command("watch")
@click.argument(
    "requests", nargs=-1, required=True, type=id_type("experience request", "episode request"), metavar="ID..."
)
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keep in this file how far the watching is, and go on from there.",
)
@click.option("--reset", is_flag=True, help="Begin anew, whatever the checkpoint says.")
@click.option(
    "--timeout", type=Seconds(), default=_WATCH_SECONDS, help=f"How long to watch.  [default: {_WATCH_SECONDS:g}]"
)
@click.option("--jsonl", is_flag=True, help="Write every change as JSON, one a line, as it happens.")
@connection_options
@output_options
def watch(out: Output, connection: Connection, jsonl: bool, **options: Any) -> int:
    """Watch until all episodes have ended.

    ID is an experience request (xreq_…) or an episode (ereq_…), all of one kind. The exit status is 1 when an episode
    failed or was cancelled, or when the time was up; under --json `ended` and `timed_out` tell that apart.
    """
    requests: tuple[str, ...] = options["requests"]
    if jsonl and out.json:
        raise click.UsageError("--json and --jsonl exclude each other.")
    if len({request.partition("_")[0] for request in requests}) > 1:
        raise click.UsageError("Watch experience requests or episodes, not both at once.")
    if options["reset"] and options["checkpoint"] is None:
        raise click.UsageError("--reset needs --checkpoint.")

    from ..platform_experience import watch_requests
    from ..platform_run import run_api

    async def body(api: CoworldClient, running: Running) -> int:
        return await watch_requests(
            api,
            list(dict.fromkeys(requests)),
            running,
            timeout=options["timeout"],
            checkpoint=options["checkpoint"],
            reset=options["reset"],
            jsonl=jsonl,
        )

    return run_api(out, connection, body)


@command.command("download")
@click.argument("requests", nargs=-1, required=True, type=_XREQ, metavar="XREQ_ID...")
@click.option(
    "--include",
    type=click.Choice(_PARTS),
    multiple=True,
    help="Only this part; repeatable. Default: everything that you may see.",
)
@click.option(
    "--download-dir",
    "-d",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where to.  [default: ./XREQ_ID]",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 16),
    default=4,
    metavar="N",
    show_default=True,
    help="How many files at a time.",
)
@connection_options
@output_options
def download(
    out: Output,
    connection: Connection,
    requests: tuple[str, ...],
    include: tuple[str, ...],
    download_dir: Path | None,
    concurrency: int,
) -> int:
    """Download what the episodes of experience requests left: one bundle an episode.

    Interrupted, or with episodes that had not ended, the same command fetches what is missing. The exit status is 1
    when something is.
    """
    from ..platform_experience import download_requests
    from ..platform_run import run_api

    async def body(api: CoworldClient, running: Running) -> int:
        return await download_requests(
            api,
            list(dict.fromkeys(requests)),
            download_dir or Path(requests[0]),
            include=include,
            concurrency=concurrency,
            running=running,
        )

    return run_api(out, connection, body)
