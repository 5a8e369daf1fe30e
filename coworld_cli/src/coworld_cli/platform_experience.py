"""Experience requests: made, watched, and what their episodes left fetched."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread

from coworld_client import Change, CoworldClient
from coworld_client.transfers import each
from coworld_core.api import BundlePart, EpisodeProgress, EpisodeRequest, ExperienceDetail
from coworld_core.errors import CoworldError, UsageError, WorkspaceError
from coworld_core.ids import is_safe_id

from . import exitcodes
from .output import Output
from .platform_files import new_directory
from .platform_render import dump, rows_table
from .platform_tables import EPISODES, experience_details
from .platform_transfers import resumable
from .running import Running
from .text import clean, command_line, plural, shown_path

__all__ = ["create_request", "download_requests", "watch_requests"]


async def create_request(
    api: CoworldClient, body: Mapping[str, Any], running: Running, *, answer: bool
) -> ExperienceDetail:
    """Ask for episodes.

    Args:
        api: The client.
        body: What is wanted, sent as it is.
        running: The command.
        answer: Whether that is the command's result.
    """
    out = running.out
    made = await api.experience.create(body)
    if answer:
        out.answer(dump(made))
        out.say(experience_details(made))
        out.say(f"\nWatch it:  {command_line('xp-request', 'watch', made.id)}")
    else:
        out.note(f"{clean(made.id, one_line=True)}: {plural(made.episode_count, 'episode')} asked for.")
    return made


# --- watching -----------------------------------------------------------------------------------------------------


async def watch_requests(
    api: CoworldClient,
    ids: Sequence[str],
    running: Running,
    *,
    timeout: float,
    checkpoint: Path | None = None,
    reset: bool = False,
    jsonl: bool = False,
) -> int:
    """Tell changes of episodes until all have ended, or the time is up.

    Args:
        api: The client.
        ids: Experience requests, or episodes.
        running: The command.
        timeout: Seconds.
        checkpoint: A file that holds how far the watching is.
        reset: Whether to begin anew, whatever it says.
        jsonl: Whether to write each change as a line for a program.
    """
    out = running.out
    seen = _Seen(api.server, ids)
    cursor = None
    if checkpoint is not None:
        cursor = None if reset else await anyio.to_thread.run_sync(seen.load, checkpoint)
        running.so_far = "The episodes go on."
        running.to_go_on = f"The same command goes on watching from {shown_path(checkpoint)}."
    else:
        running.so_far = "The episodes go on."
        running.to_go_on = "The same command watches on."
    with anyio.move_on_after(timeout) as scope:
        async with api.watch(list(ids), view="results", cursor=cursor) as changes:
            async for change in changes:
                if seen.take(change) or jsonl:
                    _tell(change, seen, out, jsonl=jsonl)
                if checkpoint is not None:
                    await anyio.to_thread.run_sync(seen.save, checkpoint, change.cursor)
    ended = not scope.cancelled_caught
    ok = ended and seen.ok
    if not jsonl:
        out.answer({"ids": list(ids), "ended": ended, "timed_out": not ended, "ok": ok, **seen.answer()})
        out.say(f"{seen.counts()}." if ended else f"The time is up: {seen.counts()}.")
    return exitcodes.OK if ok else exitcodes.ANSWER_IS_NO


class _Seen:
    """What is known of the episodes that are watched.

    Args:
        server: Whose.
        ids: What is watched.
    """

    def __init__(self, server: str, ids: Sequence[str]) -> None:
        self._of = {"server": server, "ids": sorted(ids)}
        self._episodes: dict[str, EpisodeProgress] = {}

    def take(self, change: Change) -> bool:
        """Take a change in; returns whether the episode stands otherwise than before."""
        before = self._episodes.pop(change.id, None)
        if change.removed or change.episode is None:
            return before is not None
        self._episodes[change.id] = change.episode
        return before is None or before.status != change.episode.status

    @property
    def ok(self) -> bool:
        """Whether all episodes were completed."""
        return all(episode.status.is_success for episode in self._episodes.values())

    def counts(self) -> str:
        """How many stand how: ``7 completed, 1 failed``."""
        counts = Counter(clean(str(episode.status), one_line=True) for episode in self._episodes.values())
        return ", ".join(f"{count} {status}" for status, count in counts.most_common()) or "no episodes"

    def answer(self) -> dict[str, Any]:
        """The episodes for a program."""
        return {"episodes": [dump(episode) for episode in self._episodes.values()]}

    def save(self, path: Path, cursor: str | None) -> None:
        """Keep how far the watching is; whole, or as it was."""
        state = {**self._of, "cursor": cursor, "episodes": {id: dump(row) for id, row in self._episodes.items()}}
        part = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            part.write_text(json.dumps(state) + "\n", encoding="utf-8")
            part.replace(path)
        except OSError as error:
            raise WorkspaceError(
                f"The checkpoint {shown_path(path)} cannot be written: {error.strerror}.", code="path_unwritable"
            ) from error
        finally:
            part.unlink(missing_ok=True)

    def load(self, path: Path) -> str | None:
        """Go on from what a file holds; returns the cursor, None when there is no such file.

        Raises:
            UsageError: It is no checkpoint, or of something else.
        """
        try:
            state: Any = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(
                f"{shown_path(path)} is not a checkpoint.", code="bad_checkpoint", hint="--reset begins it anew."
            ) from error
        if not isinstance(state, dict):
            state = {}
        held = cast("dict[str, Any]", state)
        if {name: held.get(name) for name in self._of} != self._of:
            raise UsageError(
                f"{shown_path(path)} is the checkpoint of something else.",
                code="other_checkpoint",
                hint="Name another file, or begin it anew with --reset.",
            )
        rows: Any = held.get("episodes")
        if isinstance(rows, dict):
            for id, row in cast("dict[str, Any]", rows).items():
                self._episodes[id] = EpisodeProgress.read(row)
        cursor: Any = held.get("cursor")
        return cursor if isinstance(cursor, str) else None


def _tell(change: Change, seen: _Seen, out: Output, *, jsonl: bool) -> None:
    if jsonl:
        episode = dump(change.episode) if change.episode is not None else None
        out.line(
            {
                "id": change.id,
                "experience_request_id": change.experience_request_id,
                "removed": change.removed,
                "episode": episode,
                "cursor": change.cursor,
            }
        )
        return
    what = "gone" if change.episode is None else clean(str(change.episode.status), one_line=True)
    why = change.episode.error if change.episode is not None and change.episode.error else ""
    why = f"  ({clean(why, one_line=True)})" if why else ""
    out.note(f"{clean(change.id, one_line=True)}  {what}{why}   [{seen.counts()}]")


# --- fetching -----------------------------------------------------------------------------------------------------


async def download_requests(
    api: CoworldClient,
    requests: Sequence[str],
    directory: Path,
    *,
    include: Sequence[str],
    concurrency: int,
    running: Running,
) -> int:
    """Fetch one bundle an episode; what is there already is not fetched again.

    Args:
        api: The client.
        requests: Experience requests.
        directory: Where to.
        include: Parts of a bundle; none: all that one may see.
        concurrency: How many files at a time.
        running: The command.
    """
    out = running.out
    root = new_directory(directory)
    resumable(running)
    running.evidence = str(root)
    rows: list[EpisodeRequest] = []
    for request in requests:
        rows += [row async for row in api.experience.episodes(request)]
    # the name of a file is made of the id
    rows = [row for row in rows if is_safe_id(row.id)]
    over = [row for row in rows if row.status.is_terminal]
    fetched = 0

    async def fetch(row: EpisodeRequest) -> Path:
        nonlocal fetched
        target = root / f"{row.id}.zip"
        if not target.exists():
            await api.episodes.download_bundle(row, target, include=cast("Sequence[BundlePart]", include) or None)
            fetched += 1
            out.note(f"{row.id}: {fetched} fetched")
        return target

    results = await each(over, fetch, concurrency=concurrency)
    paths = {row.id: path for row, path in zip(over, results, strict=True) if isinstance(path, Path)}
    failed = {row.id: error for row, error in zip(over, results, strict=True) if isinstance(error, CoworldError)}
    waiting = [row for row in rows if not row.status.is_terminal]
    out.answer(
        {
            "directory": str(root),
            "ok": not failed and not waiting,
            "episodes": [
                {
                    "id": row.id,
                    "status": str(row.status),
                    "path": str(paths[row.id]) if row.id in paths else None,
                    "error": failed[row.id].to_dict() if row.id in failed else None,
                }
                for row in rows
            ],
        }
    )
    out.say(f"{plural(len(paths), 'bundle')} in {shown_path(root)}.")
    for id, error in failed.items():
        out.note(f"{id} could not be fetched: {clean(str(error), one_line=True)}")
    if waiting:
        out.note(f"{plural(len(waiting), 'episode')} not over yet:")
        out.note(rows_table(EPISODES[:2], waiting))
    return exitcodes.ANSWER_IS_NO if failed or waiting else exitcodes.OK
