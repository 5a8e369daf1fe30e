"""What many episodes left, fetched into a directory: some files at a time, and one that fails loses none of the others.

A file has its name only once it is whole, so whatever is there already is not fetched again.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio
import anyio.to_thread

from coworld_core.api import BundlePart, EpisodeRequest
from coworld_core.errors import CoworldError, WorkspaceError
from coworld_core.ids import is_safe_id
from coworld_core.writing import write_whole

from ..errors import NotFound
from .files import each

if TYPE_CHECKING:
    from ..client import CoworldClient

__all__ = [
    "INDEX_NAME",
    "CollectedEpisode",
    "CollectedFile",
    "EvidenceKind",
    "collect_bundles",
    "collect_evidence",
    "collect_replays",
    "new_directory",
    "replay_entry",
]

INDEX_NAME = "index.json"
"""The list of the replays in a directory."""

EvidenceKind = Literal["log", "artifact"]
"""What a player left."""

OnFetched = Callable[[EpisodeRequest, int, int], object]
"""Told of each episode whose file has been fetched: the episode, how many are there now, and of how many."""


@dataclass(frozen=True, kw_only=True)
class CollectedEpisode:
    """An episode and its file, or why there is none."""

    episode: EpisodeRequest
    path: Path | None = None
    """Where the file is."""
    error: CoworldError | None = None
    """Why it could not be fetched; None also for an episode that is not over."""


@dataclass(frozen=True, kw_only=True)
class CollectedFile:
    """A log or an artifact that was fetched, or why it was not."""

    kind: EvidenceKind
    position: int
    """The player's slot."""
    path: Path
    """The file; the directory, where there is none."""
    size: int = 0
    """Bytes."""
    error: CoworldError | None = None


def new_directory(path: Path) -> Path:
    """A directory to put files into, made if it is not there; absolute.

    Raises:
        WorkspaceError: It cannot be made, or is something else.
    """
    path = path.expanduser().absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkspaceError(
            f"{path} cannot be made a directory: {error.strerror}.",
            code="path_unwritable",
            context={"path": str(path)},
        ) from error
    return path


async def collect_bundles(
    client: CoworldClient,
    requests: Sequence[str],
    directory: Path,
    *,
    include: Sequence[BundlePart] = (),
    concurrency: int = 4,
    on_fetched: OnFetched | None = None,
) -> tuple[CollectedEpisode, ...]:
    """One bundle, ``EREQ_ID.zip``, for each episode of experience requests that is over.

    Args:
        client: The platform.
        requests: Experience requests, ``xreq_…``.
        directory: Where to; made if it is not there.
        include: Parts of a bundle; none: all that one may see.
        concurrency: How many files at a time.
        on_fetched: Told of each file that was not there before.

    Returns:
        All episodes of the requests, in their order.

    Raises:
        WorkspaceError: The directory cannot be made.
        NotFound: There is no such request.
        ApiError, ApiConnectionError: The platform refused to list episodes, or cannot be reached.
    """
    root = new_directory(directory)
    rows: list[EpisodeRequest] = []
    for request in requests:
        rows += [row async for row in client.experience.episodes(request)]
    # the name of a file is made of the id
    rows = [row for row in rows if is_safe_id(row.id)]

    async def fetch(row: EpisodeRequest, target: Path) -> None:
        await client.episodes.download_bundle(row, target, include=include or None)

    over = [row for row in rows if row.status.is_terminal]
    found = await _collect(over, root, ".zip", fetch, concurrency, on_fetched)
    return tuple(found.get(row.id) or CollectedEpisode(episode=row) for row in rows)


async def collect_replays(
    client: CoworldClient,
    rows: Iterable[EpisodeRequest],
    directory: Path,
    *,
    concurrency: int = 4,
    on_fetched: OnFetched | None = None,
) -> tuple[CollectedEpisode, ...]:
    """The replays of episodes as the games wrote them, ``EREQ_ID.replay`` each, and an ``index.json`` of them.

    The index lists what is there, also when some failed or the fetching was cancelled.

    Args:
        client: The platform.
        rows: The episodes.
        directory: Where to; made if it is not there.
        concurrency: How many files at a time.
        on_fetched: Told of each file that was not there before.

    Raises:
        WorkspaceError: The directory cannot be made.
    """
    root = new_directory(directory)
    rows = [row for row in rows if is_safe_id(row.id)]

    async def fetch(row: EpisodeRequest, target: Path) -> None:
        await client.episodes.download_replay(row, target)

    try:
        found = await _collect(rows, root, ".replay", fetch, concurrency, on_fetched)
    finally:
        there = [(row, directory / f"{row.id}.replay") for row in rows]
        entries = [replay_entry(row, path) for row, path in there if (root / path.name).exists()]
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_write_index, root, entries)
    return tuple(found.values())


async def _collect(
    rows: Sequence[EpisodeRequest],
    root: Path,
    suffix: str,
    fetch: Callable[[EpisodeRequest, Path], Awaitable[object]],
    concurrency: int,
    on_fetched: OnFetched | None,
) -> dict[str, CollectedEpisode]:
    there = 0

    async def one(row: EpisodeRequest) -> CollectedEpisode:
        nonlocal there
        target = root / f"{row.id}{suffix}"
        fresh = not target.exists()
        if fresh:
            await fetch(row, target)
        there += 1
        if fresh and on_fetched is not None:
            on_fetched(row, there, len(rows))
        return CollectedEpisode(episode=row, path=target)

    results = await each(rows, one, concurrency=concurrency)
    return {
        row.id: CollectedEpisode(episode=row, error=result) if isinstance(result, CoworldError) else result
        for row, result in zip(rows, results, strict=True)
    }


def replay_entry(row: EpisodeRequest, path: Path | None = None) -> dict[str, Any]:
    """A replay as ``index.json`` has it.

    Args:
        row: The episode.
        path: Where it is on this machine; None: nowhere.
    """
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


def _write_index(directory: Path, entries: Sequence[dict[str, Any]]) -> None:
    text = json.dumps(entries, indent=2, ensure_ascii=False) + "\n"
    write_whole(directory / INDEX_NAME, text.encode())


async def collect_evidence(
    client: CoworldClient,
    episode: EpisodeRequest,
    wanted: Sequence[tuple[EvidenceKind, int]],
    directory: Path,
    *,
    prefix: str = "",
    concurrency: int = 4,
) -> tuple[CollectedFile, ...]:
    """Logs and artifacts of an episode's players.

    Args:
        client: The platform.
        episode: Whose.
        wanted: What of whom: the kind, and the player's slot.
        directory: Where to; made if it is not there.
        prefix: What names of files begin with. With one, artifacts are named like the logs.
        concurrency: How many files at a time.

    Returns:
        What was fetched and what could not be, without what is not there after all.

    Raises:
        WorkspaceError: The directory cannot be made.
    """
    root = new_directory(directory)

    async def fetch(item: tuple[EvidenceKind, int]) -> CollectedFile:
        kind, position = item
        if kind == "log":
            target = root / f"{prefix}policy_agent_{position}.log"
            done = await client.episodes.download_log(episode, target, position=position)
        else:
            name = f"policy_agent_{position}.zip" if prefix else f"policy_artifact_{position}.zip"
            target = root / f"{prefix}{name}"
            done = await client.episodes.download_artifact(episode, position, target)
        return CollectedFile(kind=kind, position=position, path=target, size=done.size)

    results = await each(wanted, fetch, concurrency=concurrency)
    return tuple(
        CollectedFile(kind=kind, position=position, path=root, error=result)
        if isinstance(result, CoworldError)
        else result
        for (kind, position), result in zip(wanted, results, strict=True)
        if not isinstance(result, NotFound)
    )
