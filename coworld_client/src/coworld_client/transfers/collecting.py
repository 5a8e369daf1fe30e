"""Download the files of many episodes into a directory, several at a time. One failure does not affect the others.

A file gets its final name only when it is complete, so files that already exist are not downloaded again.
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
"""File that lists the replays in a directory."""

EvidenceKind = Literal["log", "artifact"]
"""Kinds of files that players leave."""

OnFetched = Callable[[EpisodeRequest, int, int], object]
"""Called after each download, with the episode, the number of files present so far, and the number of episodes."""


@dataclass(frozen=True, kw_only=True)
class CollectedEpisode:
    """An episode and its file, or the reason why there is none."""

    episode: EpisodeRequest
    path: Path | None = None
    """The file."""
    error: CoworldError | None = None
    """Why the download failed; None also for an episode that has not ended."""


@dataclass(frozen=True, kw_only=True)
class CollectedFile:
    """A downloaded log or artifact, or the reason why the download failed."""

    kind: EvidenceKind
    position: int
    """The player's slot."""
    path: Path
    """The file; on failure, the directory."""
    size: int = 0
    """Size in bytes."""
    error: CoworldError | None = None


def new_directory(path: Path) -> Path:
    """Create a directory if it does not exist, and return its absolute path.

    Raises:
        WorkspaceError: It cannot be created, or is not a directory (``path_unwritable``).
    """
    path = path.expanduser().absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkspaceError(
            f"{path} cannot be created as a directory: {error.strerror}.",
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
    """Download a bundle, ``EREQ_ID.zip``, for each finished episode of some experience requests.

    Args:
        client: The platform.
        requests: Experience requests, ``xreq_…``.
        directory: The target directory; created if it does not exist.
        include: Parts of the bundle; when empty, all that you may see.
        concurrency: Number of files at a time.
        on_fetched: Called for each file that did not exist before.

    Returns:
        All episodes of the requests, in order, including those that have not ended.

    Raises:
        WorkspaceError: The directory cannot be created.
        NotFound: There is no such request.
        ApiError: The platform refused to list the episodes, or cannot be reached.
    """
    root = new_directory(directory)
    rows: list[EpisodeRequest] = []
    for request in requests:
        rows += await client.experience.episodes(request)
    # the file name contains the id
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
    """Download the replays of episodes as the games wrote them, ``EREQ_ID.replay`` each, and write ``index.json``.

    The index lists the files that exist, even if some downloads failed or the call was cancelled.

    Args:
        client: The platform.
        rows: The episodes.
        directory: The target directory; created if it does not exist.
        concurrency: Number of files at a time.
        on_fetched: Called for each file that did not exist before.

    Raises:
        WorkspaceError: The directory cannot be created.
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
    """Return the entry of a replay in ``index.json``.

    Args:
        row: The episode.
        path: The replay on this machine; None if it was not downloaded.
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
    """Download logs and artifacts of an episode's players.

    Args:
        client: The platform.
        episode: The episode.
        wanted: The files to download, each as a kind and a player's slot.
        directory: The target directory; created if it does not exist.
        prefix: Prefix of the file names. With a prefix, artifacts are named like logs, ``policy_agent_N.zip``.
        concurrency: Number of files at a time.

    Returns:
        The downloads that succeeded or failed; files that the platform does not have are left out.

    Raises:
        WorkspaceError: The directory cannot be created.
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
