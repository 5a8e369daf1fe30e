"""Episodes on a platform, with their statistics, results, logs and bundles."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coworld_core.text import plural, shown_size

from .. import exitcodes
from .._group import NounGroup
from ..event_loop import Running, run_api
from ..options.common import overwrite_option
from ..options.declarations import SectionCommand, refuse_options, takes
from ..options.platform import (
    Connection,
    Listing,
    division_filter,
    include_option,
    label_filter,
    league_filter,
    listing_options,
    mine_filter,
    platform_options,
    policy_filter,
    round_filter,
)
from ..options.values import DIRECTORY, FILE, IdType
from ..output import Output, to_json
from ..render import tables
from ..render.rows import show_list, show_one
from ..render.text import clean, command_line, shown_path
from ..render.transfers import shown_progress
from ..terminal import echo
from .local_runs import PlaceOptions

if TYPE_CHECKING:
    from coworld_client import CoworldClient
    from coworld_client.transfers import EvidenceKind
    from coworld_core.api import BundlePart, EpisodeRequest, PlayerEvidence

__all__ = ["commands", "show_collected"]

commands = NounGroup()

_EREQ = IdType("episode request")


@commands.command("episodes", cls=SectionCommand)
@click.argument("episode", required=False, type=_EREQ, metavar="[EREQ_ID]")
@league_filter
@division_filter
@round_filter
@policy_filter
@mine_filter
@click.option("--with-replay", is_flag=True, help="Only those with a replay.")
@label_filter
@click.option(
    "--local", is_flag=True, help="List the runs on this machine instead: those that are going on, and recent ones."
)
@click.option(
    "--status",
    "--state",
    "states",
    multiple=True,
    metavar="STATUS",
    help="With --local or --watch: pending, running, completed, failed, interrupted or lost (killed); repeatable.",
)
@click.option(
    "--watch", is_flag=True, help="Show changes as they happen, until Ctrl-C: --local, or of what you requested."
)
@listing_options(200, offset=True, noun="episodes")
@takes("places", PlaceOptions)
@platform_options
def episodes(
    out: Output,
    connection: Connection,
    listing: Listing,
    places: PlaceOptions,
    episode: str | None,
    local: bool,
    states: tuple[str, ...],
    labels: dict[str, str],
    watch: bool,
    **filters: Any,
) -> int:
    """List episodes, or show one.

    They are those of a platform or, with --local, of this machine: runs of any process, that are going on or have
    ended. `coworld stop` stops one.

    Filters apply before --limit, so a list is short only if there are no more.
    """
    if (local or watch) and (episode or any(filters.values()) or listing.offset or listing.cursor):
        raise click.UsageError("--local and --watch take --status and --label, and no other filters.")
    if local or watch:
        from .episode_control import list_local, watch_hosted

        if local:
            connection.refuse("is for episodes of a platform: it does not go with --local.")
            return list_local(out, places, listing, states=states, labels=labels, watch=watch)
        refuse_options({"root", "index"}, "needs --local.")
        return watch_hosted(out, connection, listing, states=states, labels=labels)
    if states or places.root or places.index:
        raise click.UsageError("--status needs --local or --watch; --root and --index need --local.")
    filters["labels"] = labels
    if episode and any(filters.values()):
        raise click.UsageError("Filters are for lists; they do not go with the id of an episode.")

    async def body(api: CoworldClient, _: Running) -> int:
        if episode is not None:
            return await show_one(out, api.episodes.get(episode), tables.episode_details)
        pager = api.episodes.list(**filters, limit=listing.limit, offset=listing.offset, cursor=listing.cursor)
        return await show_list(out, pager, tables.EPISODES, listing, noun="episode")

    return run_api(out, connection, body)


@commands.command("episode-stats")
@click.argument("episode", type=_EREQ, metavar="EREQ_ID")
@platform_options
def episode_stats(out: Output, connection: Connection, episode: str) -> int:
    """Show the statistics of an episode."""

    async def body(api: CoworldClient, _: Running) -> int:
        return await show_one(out, api.episodes.stats(episode), tables.stats_details)

    return run_api(out, connection, body)


@commands.command("episode-results")
@click.argument("episode", type=_EREQ, metavar="EREQ_ID")
@click.option(
    "--output",
    "-o",
    type=FILE,
    metavar="FILE",
    help="Write them to this file instead, exactly as the game wrote them.",
)
@platform_options
def episode_results(out: Output, connection: Connection, episode: str, output: Path | None) -> int:
    """Print the results of an episode.

    They are the JSON that the game wrote, with or without --json.
    """

    async def body(api: CoworldClient, _: Running) -> int:
        if output is None:
            echo(to_json(await api.episodes.results(episode)), nl=False)
            return exitcodes.OK
        from anyio import to_thread

        from ..files import write_whole

        content = await api.episodes.artifact(episode, "results")
        target = await to_thread.run_sync(write_whole, output, content)
        out.answer({"episode_request_id": episode, "path": str(target), "size": len(content)})
        out.say(f"Wrote {shown_path(target)}, {shown_size(len(content))}.")
        return exitcodes.OK

    return run_api(out, connection, body)


@commands.command("episode-bundle")
@click.argument("episode", type=_EREQ, metavar="EREQ_ID")
@include_option
@click.option("--output", "-o", type=FILE, metavar="FILE", help="File to write.  [default: ./EREQ_ID.zip]")
@overwrite_option
@platform_options
def bundle(
    out: Output,
    connection: Connection,
    episode: str,
    include: tuple[BundlePart, ...],
    output: Path | None,
    overwrite: bool,
) -> int:
    """Download everything about an episode as one file.

    It is a zip whose manifest.json lists the contents. Parts that you may not see are left out. If the download is
    interrupted, repeat the command to continue.
    """
    from ..files import target_file

    target = target_file(output, f"{episode}.zip", overwrite=overwrite)

    async def body(api: CoworldClient, running: Running) -> int:
        running.resumable()
        with shown_progress(out, target.name) as tell:
            done = await api.episodes.download_bundle(episode, target, include=include or None, on_progress=tell)
        out.answer({"episode_request_id": episode, "path": str(done.path), "size": done.size, "resumed": done.resumed})
        out.say(f"Wrote {shown_path(done.path)}, {shown_size(done.size)}.")
        return exitcodes.OK

    return run_api(out, connection, body)


# --- logs, and the files that players left ------------------------------------------------------------------------


@commands.command("episode-logs")
@click.argument("episode", type=_EREQ, metavar="EREQ_ID")
@click.option("--list", "listed", is_flag=True, help="List what there is. Default without other options.")
@click.option("--game", is_flag=True, help="The game's log.")
@click.option("--agent", type=click.IntRange(min=0), metavar="N", help="The log of the player at this position.")
@click.option("--mine", is_flag=True, help="Only positions of your policies.")
@click.option("--artifact", is_flag=True, help="The files that players left, instead of logs.")
@click.option(
    "--download-dir", "-d", type=DIRECTORY, metavar="DIR", help="Write files into this directory instead of printing."
)
@click.option("--output", "-o", type=FILE, metavar="FILE", help="Write a single log or artifact to this file.")
@platform_options
def episode_logs(
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
    """List, print and download logs and artifacts."""
    if game and (artifact or agent is not None or mine):
        raise click.UsageError("--game excludes --agent, --mine and --artifact: the game has a single log.")
    if output is not None and not (game or agent is not None):
        raise click.UsageError("--output is for a single file, so it needs --agent N or --game.")
    if output is not None and download_dir is not None:
        raise click.UsageError("--output and --download-dir exclude each other.")
    if listed and (game or agent is not None or download_dir is not None):
        raise click.UsageError("--list only lists, so it goes only with --mine and --artifact.")

    async def body(api: CoworldClient, running: Running) -> int:
        if game:
            return await _game_log(api, episode, download_dir, output, running)
        row = await api.episodes.get(episode)
        kind: EvidenceKind = "artifact" if artifact else "log"
        if download_dir is not None or agent is None:
            seats = await api.episodes.agent_logs(row, mine=mine)
            # If the server does not say whether a file exists, try to fetch it
            there = [seat for seat in seats if (seat.has_artifact if artifact else seat.has_log) is not False]
            there = [seat for seat in there if agent in (None, seat.position)]
            if download_dir is None:
                return _list(there, episode, kind, out)
            wanted: list[tuple[EvidenceKind, int]] = []
            for seat in there:
                if not artifact:
                    wanted.append(("log", seat.position))
                if seat.has_artifact:
                    wanted.append(("artifact", seat.position))
            return await show_collected(api, row, wanted, download_dir, running, prefix=f"{episode}-")
        if artifact or output is not None:
            return await _one_file(api, row, kind, agent, output, running)
        return _print(out, episode, agent, await api.episodes.agent_log(row, agent))

    return run_api(out, connection, body)


def _print(out: Output, episode: str, agent: int | None, text: str) -> int:
    """Write a log: as it is to a pipe, without control sequences to a terminal."""
    out.answer({"episode_request_id": episode, "agent": agent, "log": text})
    if not out.json:
        shown = clean(text) if sys.stdout.isatty() else text
        echo(shown, nl=not shown.endswith("\n"))
    return exitcodes.OK


def _list(seats: Sequence[PlayerEvidence], episode: str, kind: EvidenceKind, out: Output) -> int:
    out.answer(
        {
            "episode_request_id": episode,
            "kind": kind,
            "agents": [
                {
                    "agent": seat.position,
                    "filename": tables.evidence_name(kind, seat.position),
                    "policy_version_id": seat.policy_version_id,
                    "policy_name": seat.policy_name,
                    "has_log": seat.has_log,
                    "has_artifact": seat.has_artifact,
                }
                for seat in seats
            ],
        }
    )
    out.say(tables.evidence_table(seats, kind) if seats else f"There are no player {kind}s that you may see.")
    if kind == "log" and any(seat.has_artifact for seat in seats):
        out.note(f"Players left files, too: {command_line('episode-logs', episode, '--artifact')}")
    return exitcodes.OK


async def _game_log(
    api: CoworldClient, episode: str, directory: Path | None, output: Path | None, running: Running
) -> int:
    from coworld_client.transfers import new_directory

    from ..files import target_file

    if directory is None and output is None:
        return _print(running.out, episode, None, await api.episodes.game_log(episode))
    name = f"{episode}-game.log"
    target = new_directory(directory) / name if directory else target_file(output, name, overwrite=True)
    running.resumable()
    done = await api.episodes.download_log(episode, target)
    return _wrote(running.out, episode, "game", None, done.path, done.size)


async def _one_file(
    api: CoworldClient, row: EpisodeRequest, kind: EvidenceKind, agent: int, output: Path | None, running: Running
) -> int:
    from ..files import target_file

    running.resumable()
    if kind == "artifact":
        # Overwrite a file only if the user named it
        target = target_file(output, f"{row.id}-policy_agent_{agent}.zip", overwrite=output is not None)
        done = await api.episodes.download_artifact(row, agent, target)
    else:
        target = target_file(output, "", overwrite=True)
        done = await api.episodes.download_log(row, target, position=agent)
    return _wrote(running.out, row.id, kind, agent, done.path, done.size)


def _wrote(out: Output, episode: str, kind: str, agent: int | None, path: Path, count: int) -> int:
    file = {"kind": kind, "agent": agent, "path": str(path), "size": count}
    out.answer({"episode_request_id": episode, "ok": True, "files": [file]})
    out.say(f"Wrote {shown_path(path)}, {shown_size(count)}.")
    return exitcodes.OK


async def show_collected(
    api: CoworldClient,
    row: EpisodeRequest,
    wanted: Sequence[tuple[EvidenceKind, int]],
    directory: Path,
    running: Running,
    *,
    prefix: str,
    answer: bool = True,
) -> int:
    """Fetch logs and artifacts into a directory, and report which were fetched and which could not be.

    Args:
        api: The client.
        row: The episode.
        wanted: The files: kind and slot of each.
        directory: The directory to write to.
        running: The command.
        prefix: The beginning of file names.
        answer: Whether the files are the command's result.
    """
    from coworld_client.transfers import collect_evidence, new_directory

    out = running.out
    running.resumable()
    root = new_directory(directory)
    running.evidence = str(root)
    files = await collect_evidence(api, row, wanted, root, prefix=prefix)
    failed = [file for file in files if file.error is not None]
    rows = [
        {"kind": file.kind, "agent": file.position, "path": str(file.path)}
        | ({"error": file.error.to_dict()} if file.error else {"size": file.size})
        for file in files
    ]
    if answer:
        out.answer({"episode_request_id": row.id, "ok": not failed, "files": rows})
    elif out.json:
        return exitcodes.OK
    for file in files:
        if file.error is None:
            out.say(f"Wrote {shown_path(file.path)}, {shown_size(file.size)}.")
        else:
            why = clean(str(file.error), one_line=True)
            out.note(f"Could not fetch the {file.kind} of player {file.position}: {why}")
    if not files:
        out.say("There is nothing to fetch.")
    elif failed:
        out.note(f"{plural(len(failed), 'file')} missing; repeat the command to try again.")
    return exitcodes.ANSWER_IS_NO if failed else exitcodes.OK
