"""Fetching things of one episode, and saying where they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import anyio.to_thread

from coworld_client import CoworldClient
from coworld_core.api import BundlePart
from coworld_core.errors import WorkspaceError

from .platform_files import shown_progress
from .running import Running
from .text import shown_path, size

__all__ = ["fetch_bundle", "fetch_results", "resumable"]


def resumable(running: Running) -> None:
    """What Ctrl-C says while something is fetched."""
    running.so_far = "What has arrived is kept."
    running.to_go_on = "The same command goes on from there."


async def fetch_bundle(
    api: CoworldClient, episode: str, target: Path, *, include: Sequence[str], running: Running
) -> None:
    """Fetch an episode's bundle into a file."""
    out = running.out
    resumable(running)
    with shown_progress(out, target.name) as tell:
        done = await api.episodes.download_bundle(
            episode, target, include=cast("Sequence[BundlePart]", include) or None, on_progress=tell
        )
    out.answer({"episode_request_id": episode, "path": str(done.path), "size": done.size, "resumed": done.resumed})
    out.say(f"Wrote {shown_path(done.path)}, {size(done.size)}.")


async def fetch_results(api: CoworldClient, episode: str, target: Path, *, running: Running) -> None:
    """Fetch an episode's results into a file, byte by byte as the game wrote them."""
    content = await api.episodes.artifact(episode, "results")
    target = await anyio.to_thread.run_sync(_write, target, content)
    running.out.answer({"episode_request_id": episode, "path": str(target), "size": len(content)})
    running.out.say(f"Wrote {shown_path(target)}, {size(len(content))}.")


def _write(target: Path, content: bytes) -> Path:
    """Have a file whole, or as it was; returns where it is."""
    target = target.expanduser().absolute()
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_bytes(content)
        part.replace(target)
    except OSError as error:
        raise WorkspaceError(
            f"{shown_path(target)} cannot be written: {error.strerror}.", code="path_unwritable"
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return target
