"""Replays: listed, fetched, and shown in the browser."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import click

from coworld_client import AsyncPager, CoworldClient
from coworld_client.transfers import each
from coworld_core.api import EpisodeRequest
from coworld_core.errors import CoworldError, EpisodeError
from coworld_core.ids import is_safe_id, new_run_id
from coworld_runner.scratch import open_scratch

from . import exitcodes
from .browser import open_page, wants_browser
from .options import BackendFlags
from .platform_downloads import have_coworld
from .platform_files import new_directory, shown_progress
from .platform_logs import fetch_all, show_files
from .platform_options import Listing
from .platform_render import rows_table
from .platform_tables import REPLAYS
from .platform_transfers import resumable
from .playing import replay
from .running import Running
from .text import clean, command_line, plural, shown_path

__all__ = ["ReplayWish", "download_replays", "list_replays", "open_episode_replay"]

_INDEX = "index.json"


@dataclass(frozen=True, kw_only=True)
class ReplayWish:
    """Which replay is to be shown, and how."""

    episode: str
    hosted: bool
    timeout: float
    artifacts: Path | None
    """Where the files that players left go; None: nowhere."""
    mine: bool
    open_browser: bool | None
    flags: BackendFlags


def _entry(row: EpisodeRequest, path: Path | None) -> dict[str, Any]:
    """A replay as index.json has it."""
    data = row.model_dump(mode="json")
    return {
        "episode_request_id": row.id,
        "episode_id": row.episode_id,
        "job_id": row.job_id,
        "coworld_id": row.coworld_id,
        "replay_url": row.replay_url,
        "local_path": str(path) if path is not None else None,
        "file": path.name if path is not None else None,
        "seed": row.seed,
        "status": str(row.status),
        "participants": data["participants"],
        "scores": data["scores"],
    }


async def list_replays(pager: AsyncPager[EpisodeRequest], listing: Listing, running: Running) -> int:
    """List the episodes that have a replay, and the command that shows each."""
    out = running.out
    rows: list[EpisodeRequest] = []
    more = False
    async for page in pager.pages():
        more = page.has_more
        if listing.jsonl:
            for row in page.items:
                out.line(_entry(row, None))
        rows += page.items
    if not listing.jsonl:
        out.answer([_entry(row, None) for row in rows])
        shown = [(row, command_line("replay-open", row.id)) for row in rows]
        out.say(rows_table(REPLAYS, shown) if rows else "There are no replays.")
    if more:
        out.note(f"{plural(len(rows), 'replay')} shown; --all lists all of them.")
    return exitcodes.OK


async def download_replays(
    api: CoworldClient,
    pager: AsyncPager[EpisodeRequest],
    directory: Path,
    listing: Listing,
    running: Running,
    *,
    concurrency: int,
) -> int:
    """Fetch replays as the games wrote them, and an index of them.

    The index is written also when some failed or the command was interrupted: it lists what is there.
    """
    out = running.out
    root = new_directory(directory)
    resumable(running)
    running.evidence = str(root)
    rows = [row async for row in pager if is_safe_id(row.id)]
    have: dict[str, Path] = {}

    async def fetch(row: EpisodeRequest) -> Path:
        target = root / f"{row.id}.replay"
        # a file has its name only once it is whole
        if not target.exists():
            await api.episodes.download_replay(row, target)
            out.note(f"{row.id}: {len(have) + 1} of {len(rows)}")
        have[row.id] = directory / target.name
        return target

    try:
        results = await each(rows, fetch, concurrency=concurrency)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(
                _write_index, root, [_entry(row, have[row.id]) for row in rows if row.id in have]
            )
    failed = [(row, result) for row, result in zip(rows, results, strict=True) if isinstance(result, CoworldError)]
    out.answer([_entry(row, have[row.id]) for row in rows if row.id in have])
    out.say(f"{plural(len(have), 'replay')} in {shown_path(root)}, listed in {shown_path(root / _INDEX)}.")
    for row, error in failed:
        out.note(f"{row.id} could not be fetched: {clean(str(error), one_line=True)}")
    if failed:
        out.note("The same command tries those again.")
    return exitcodes.ANSWER_IS_NO if failed else exitcodes.OK


def _write_index(directory: Path, entries: Sequence[dict[str, Any]]) -> None:
    part = directory / f".{_INDEX}.{os.getpid()}"
    try:
        part.write_text(json.dumps(entries, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(directory / _INDEX)
    finally:
        part.unlink(missing_ok=True)


async def open_episode_replay(api: CoworldClient, wish: ReplayWish, running: Running) -> int:
    """Show an episode's replay, on the platform or here."""
    episode = await api.episodes.get(wish.episode)
    if wish.artifacts is not None:
        await _fetch_artifacts(api, episode, wish, wish.artifacts, running)
    for value, what in (
        (episode.replay_url, "replay"),
        (episode.coworld_id, "Coworld"),
        (episode.episode_id, "episode id"),
    ):
        if not value:
            status = clean(str(episode.status), one_line=True) or "in no known state"
            raise EpisodeError(
                f"The episode request {episode.id} has no {what}, or none yet: it is {status}.",
                code="no_replay",
                hint="Episodes that were completed have one.",
                context={"episode_request_id": episode.id, "status": str(episode.status)},
            )
    if wish.hosted:
        return await _hosted(api, episode, wish, running)
    return await _local(api, episode, wish, running)


async def _fetch_artifacts(
    api: CoworldClient, episode: EpisodeRequest, wish: ReplayWish, directory: Path, running: Running
) -> None:
    mine = await api.episodes.my_policy_versions() if wish.mine else None
    seats = [seat for seat in await api.episodes.agent_logs(episode) if seat.has_artifact is not False]
    wanted = [("artifact", seat.position) for seat in seats if mine is None or seat.policy_version_id in mine]
    files = await fetch_all(api, episode, wanted, directory, prefix="", running=running)
    if not running.out.json:
        show_files(running.out, episode.id, files)


async def _hosted(api: CoworldClient, episode: EpisodeRequest, wish: ReplayWish, running: Running) -> int:
    out = running.out
    assert episode.coworld_id is not None
    assert episode.episode_id is not None
    assert episode.replay_url is not None
    session = await api.hosted.replay_session(
        episode.coworld_id, episode.episode_id, episode.replay_url, timeout=wish.timeout
    )
    out.answer({"episode_request_id": episode.id, "viewer_url": session.viewer_url, "ready": session.ready})
    out.say(f"Watch:  {click.style(clean(session.viewer_url, one_line=True), bold=True)}")
    # a browser opens more than pages: files, programs
    if wants_browser(wish.open_browser) and session.viewer_url.startswith(("https://", "http://")):
        await open_page(session.viewer_url, out)
    return exitcodes.OK


async def _local(api: CoworldClient, episode: EpisodeRequest, wish: ReplayWish, running: Running) -> int:
    """Have the Coworld and the replay here, and show them like any other."""
    assert episode.coworld_id is not None
    resumable(running)
    manifest = await have_coworld(api, episode.coworld_id)
    async with open_scratch(new_run_id()) as scratch:
        file = scratch.directory("replay") / f"{wish.episode}.replay"
        with shown_progress(running.out, "replay") as tell:
            await api.episodes.download_replay(episode, file, on_progress=tell)
        running.so_far, running.to_go_on = "", None
        flags = dataclasses.replace(wish.flags, manifest=str(manifest))
        return await replay(flags, str(file), running, timeout=wish.timeout, open_browser=wish.open_browser)
