"""Experience requests: episodes to request, watch and download."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from coworld_core.text import plural

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_api
from ..options.common import concurrency_option, seconds_option
from ..options.platform import (
    Connection,
    Listing,
    include_option,
    label_filter,
    label_option,
    listing_options,
    mine_filter,
    platform_options,
)
from ..options.values import DIRECTORY, FILE, INPUT_FILE, IdType
from ..output import Output, published_option
from ..render import tables
from ..render.rows import dump, rows_table, show_list, show_one
from ..render.text import clean, command_line, shown_path
from .labels import warn_unlabelled

if TYPE_CHECKING:
    from coworld_client import Change, CoworldClient
    from coworld_client.checkpoints import Checkpoint
    from coworld_core.api import BundlePart

__all__ = ["commands"]

commands = NounGroup()

_XREQ = IdType("experience request")
_WATCH_SECONDS = 3600.0


@commands.group("xp-request", cls=NounGroup)
def xp_request() -> None:
    """Request episodes, watch and download them.

    An experience request is for episodes of a Coworld with policies of your choice.
    """


@xp_request.command("create")
@click.argument("body", type=INPUT_FILE, metavar="BODY")
@click.option(
    "--variant",
    metavar="ID",
    help="Variant to play, or a pattern ('small-*') for one request of each.  [default: the variant_id of BODY]",
)
@click.option("--title", metavar="TEXT", help="Title of the request, on platforms that have them.")
@click.option("--description", metavar="TEXT", help="Description of the request, likewise.")
@label_option("Label the episodes, besides the `tags` of BODY")
@click.option("--wait/--no-wait", default=False, help="Wait until all episodes have ended.")
@platform_options
def create(
    out: Output,
    connection: Connection,
    body: Path,
    variant: str | None,
    title: str | None,
    description: str | None,
    labels: dict[str, str],
    wait: bool,
) -> int:
    """Request episodes. BODY is a JSON file, or - for standard input.

    \b
    {"coworld_id": "cow_…", "variant_id": "quick", "num_episodes": 10,
     "roster": [{"player": {"policy_ref": "mine:v3"}, "slot": 0}, {"player": {"policy_ref": "rival:v1"}}]}

    Instead of coworld_id, target names a league_id or a division_id. A seat's player is a policy_ref, {"top_n": 3} or
    {"random": true}. With --wait, the exit status is 1 if an episode failed. For a pattern of variants, --json gives an
    object with `requests`.
    """  # noqa: D301 (click reads the backspace)
    from coworld_core.manifest import is_variant_pattern

    from ..files import json_object, read_bytes

    options = {"variant_id": variant, "title": title, "description": description}
    named = {key: text for key, text in options.items() if text is not None}
    given = {**json_object(read_bytes(body), what="The body"), **named}

    async def work(api: CoworldClient, running: Running) -> int:
        requests = await api.experience.create_each(given, labels=labels)
        warn_unlabelled(api, out, labels, requests[0].tags)
        ids = tuple(made.id for made in requests)
        if wait:
            for made in requests:
                out.note(f"{clean(made.id, one_line=True)}: {plural(made.episode_count, 'episode')} requested.")
            return await _watch(api, ids, running, timeout=_WATCH_SECONDS)
        rows = [dump(made) for made in requests]
        out.answer({"requests": rows} if is_variant_pattern(str(given.get("variant_id", ""))) else rows[0])
        for made in requests:
            out.say(tables.experience_details(made))
        out.say(f"\nWatch {'it' if len(ids) == 1 else 'them'}:  {command_line('xp-request', 'watch', *ids)}")
        return exitcodes.OK

    return run_api(out, connection, work, changes=True)


@xp_request.command("list")
@mine_filter
@label_filter
@listing_options(50, offset=True, cursor=True, noun="requests")
@platform_options
def list_(out: Output, connection: Connection, listing: Listing, mine: bool, labels: dict[str, str]) -> int:
    """List experience requests.

    Under --json it is an object with `entries`, `total_count`, `limit`, `offset` and `next_cursor`.
    """

    async def body(api: CoworldClient, _: Running) -> int:
        pager = api.experience.list(
            mine=mine, labels=labels, limit=listing.limit, offset=listing.offset, cursor=listing.cursor
        )
        return await show_list(out, pager, tables.EXPERIENCE, listing, noun="experience request", envelope=True)

    return run_api(out, connection, body)


@xp_request.command("get")
@click.argument("request", type=_XREQ, metavar="XREQ_ID")
@platform_options
def get(out: Output, connection: Connection, request: str) -> int:
    """Show an experience request and its episodes."""

    async def body(api: CoworldClient, _: Running) -> int:
        return await show_one(out, api.experience.get(request), tables.experience_details)

    return run_api(out, connection, body)


@xp_request.command("episodes")
@click.argument("request", type=_XREQ, metavar="XREQ_ID")
@listing_options(None, cursor=False, noun="episodes")
@published_option("--cursor", says="all episodes are listed, so there is nothing to continue.")
@published_option("--view", says="every episode is shown with its results.")
@published_option("--status", says="all statuses are listed; --jsonl is for filters.", multiple=True)
@published_option("--no-jsonl", says="that is the default.", is_flag=True)
@platform_options
def episodes(out: Output, connection: Connection, listing: Listing, request: str) -> int:
    """List the episodes of an experience request."""

    async def body(api: CoworldClient, _: Running) -> int:
        pager = api.experience.episodes(request, limit=listing.limit)
        return await show_list(out, pager, tables.EPISODES, listing, noun="episode")

    return run_api(out, connection, body)


@xp_request.command("cancel")
@click.argument("request", type=_XREQ, metavar="XREQ_ID")
@platform_options
def cancel(out: Output, connection: Connection, request: str) -> int:
    """Cancel an experience request: no more of its episodes begin.

    Cancelling it again changes nothing. A request that has ended cannot be cancelled.
    """

    async def body(api: CoworldClient, _: Running) -> int:
        return await show_one(out, api.experience.cancel(request), tables.experience_details)

    return run_api(out, connection, body, changes=True)


# --- watching -----------------------------------------------------------------------------------------------------


@xp_request.command("watch")
@click.argument(
    "requests", nargs=-1, required=True, type=IdType("experience request", "episode request"), metavar="ID..."
)
@click.option("--checkpoint", type=FILE, metavar="FILE", help="Save progress in this file, and continue from it.")
@click.option("--reset", is_flag=True, help="Ignore the checkpoint and start over.")
@seconds_option("--timeout", _WATCH_SECONDS, "Maximum time to watch.")
@published_option(
    "--until", says="it ends when all episodes have ended; xp-request download then fetches the evidence."
)
@published_option("--include", says="xp-request download fetches the evidence.", multiple=True)
@published_option("--view", says="every change is shown with its results.")
@published_option("--no-jsonl", says="that is the default.", is_flag=True)
@published_option("--no-reset", says="that is the default.", is_flag=True)
@click.option("--jsonl", is_flag=True, help="Write every change as a line of JSON, as it happens.")
@platform_options
def watch(
    out: Output,
    connection: Connection,
    requests: tuple[str, ...],
    checkpoint: Path | None,
    reset: bool,
    timeout: float,
    jsonl: bool,
) -> int:
    """Watch until all episodes have ended.

    ID is an experience request (xreq_…) or an episode (ereq_…), all of the same kind. The exit status is 1 if an
    episode failed or was cancelled, or if time ran out; with --json, `ended` and `timed_out` tell these apart.
    """
    if jsonl and out.json:
        raise click.UsageError("--json and --jsonl exclude each other.")
    if len({request.partition("_")[0] for request in requests}) > 1:
        raise click.UsageError("Watch either experience requests or episodes, not both.")
    if reset and checkpoint is None:
        raise click.UsageError("--reset needs --checkpoint.")

    async def body(api: CoworldClient, running: Running) -> int:
        return await _watch(api, requests, running, timeout=timeout, checkpoint=checkpoint, reset=reset, jsonl=jsonl)

    return run_api(out, connection, body)


async def _watch(
    api: CoworldClient,
    ids: tuple[str, ...],
    running: Running,
    *,
    timeout: float,
    checkpoint: Path | None = None,
    reset: bool = False,
    jsonl: bool = False,
) -> int:
    """Report changes of episodes until all have ended, or the time is up."""
    import anyio
    import anyio.to_thread

    from coworld_client.checkpoints import Checkpoint

    out = running.out
    watched = list(dict.fromkeys(ids))
    seen = Checkpoint(api.server, watched, checkpoint)
    if not reset:
        await anyio.to_thread.run_sync(seen.load)
    running.so_far = "The episodes continue."
    running.to_go_on = "Repeat the command to keep watching."
    if checkpoint is not None:
        running.to_go_on = f"Repeat the command to keep watching from {shown_path(checkpoint)}."
    with anyio.move_on_after(timeout) as scope:
        async with api.watch(watched, view="results", cursor=seen.cursor) as changes:
            async for change in changes:
                if seen.take(change) and not jsonl:
                    out.note(_change(change, seen))
                if jsonl:
                    out.line(_line(change))
                if checkpoint is not None:
                    await anyio.to_thread.run_sync(seen.save)
    ended = not scope.cancelled_caught
    ok = ended and seen.ok
    if not jsonl:
        rows = [dump(episode) for episode in seen.episodes.values()]
        out.answer({"ids": watched, "ended": ended, "timed_out": not ended, "ok": ok, "episodes": rows})
        out.say(f"{_counts(seen)}." if ended else f"Time ran out: {_counts(seen)}.")
    return exitcodes.OK if ok else exitcodes.ANSWER_IS_NO


def _counts(seen: Checkpoint) -> str:
    """The number of episodes by status: `7 completed, 1 failed`."""
    counts = [f"{count} {clean(status, one_line=True)}" for status, count in seen.counts().most_common()]
    return ", ".join(counts) or "no episodes"


def _change(change: Change, seen: Checkpoint) -> str:
    what = "gone" if change.episode is None else clean(str(change.episode.status), one_line=True)
    why = change.episode.error if change.episode is not None and change.episode.error else ""
    why = f"  ({clean(why, one_line=True)})" if why else ""
    return f"{clean(change.id, one_line=True)}  {what}{why}   [{_counts(seen)}]"


def _line(change: Change) -> object:
    return {
        "id": change.id,
        "experience_request_id": change.experience_request_id,
        "removed": change.removed,
        "episode": dump(change.episode) if change.episode is not None else None,
        "cursor": change.cursor,
    }


# --- fetching -----------------------------------------------------------------------------------------------------


@xp_request.command("download")
@click.argument("requests", nargs=-1, required=True, type=_XREQ, metavar="XREQ_ID...")
@include_option
@click.option(
    "--download-dir",
    "--directory",
    "-d",
    type=DIRECTORY,
    metavar="DIR",
    help="Directory to write to.  [default: ./XREQ_ID]",
)
@concurrency_option("files")
@published_option("--agent", says="files of all seats are fetched.", multiple=True)
@platform_options
def download(
    out: Output,
    connection: Connection,
    requests: tuple[str, ...],
    include: tuple[BundlePart, ...],
    download_dir: Path | None,
    concurrency: int,
) -> int:
    """Download the bundles of all episodes of experience requests.

    If the download was interrupted or some episodes had not ended, repeat the command to fetch what is missing. The
    exit status is 1 if anything is missing.
    """

    async def body(api: CoworldClient, running: Running) -> int:
        from coworld_client.transfers import collect_bundles, new_directory

        root = new_directory(download_dir or Path(requests[0]))
        running.resumable()
        running.evidence = str(root)
        found = await collect_bundles(
            api,
            list(dict.fromkeys(requests)),
            root,
            include=include,
            concurrency=concurrency,
            on_fetched=lambda row, there, _: out.note(f"{row.id}: {there} fetched"),
        )
        waiting = [item.episode for item in found if not item.episode.status.is_terminal]
        failed = [item for item in found if item.error is not None]
        out.answer(
            {
                "directory": str(root),
                "ok": not failed and not waiting,
                "episodes": [
                    {
                        "id": item.episode.id,
                        "status": str(item.episode.status),
                        "path": str(item.path) if item.path is not None else None,
                        "error": item.error.to_dict() if item.error is not None else None,
                    }
                    for item in found
                ],
            }
        )
        out.say(f"{plural(sum(item.path is not None for item in found), 'bundle')} in {shown_path(root)}.")
        for item in failed:
            out.note(f"Could not fetch {item.episode.id}: {clean(str(item.error), one_line=True)}")
        if waiting:
            out.note(f"{plural(len(waiting), 'episode')} not over yet:")
            out.note(rows_table(tables.EPISODES[:2], waiting))
        return exitcodes.ANSWER_IS_NO if failed or waiting else exitcodes.OK

    return run_api(out, connection, body)
