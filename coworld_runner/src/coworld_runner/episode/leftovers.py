"""Removes what a killed runner has left of the episodes that it was playing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container
from pathlib import Path

import anyio
import anyio.to_thread

from coworld_core.episode.events import Notice, read_events
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.errors import CoworldError
from coworld_core.files.locks import is_free
from coworld_core.hints import Hint
from coworld_core.text.phrases import listed

from ..runs._workspace_contents import OwnEpisodes, read_contents
from .run_start import OpenRun

__all__ = ["remove_leftovers"]


async def remove_leftovers(run: OpenRun, sweep: Callable[[str], Awaitable[object]], kept: Container[str]) -> None:
    """Remove interrupted episodes and their units; whatever else is in the workspace stays.

    Args:
        run: The run that continues the killed one.
        sweep: Removes the programs of the episode with a label.
        kept: The names of the directories of episodes that have ended.
    """

    def warn(directory: Path, why: str, *, hint: str | None = None) -> None:
        message = f"Leftovers of {directory.name} from an earlier run may still exist: {why}"
        run.bus.publish(Notice(level="warning", message=message, hint=hint))

    async def clear(directory: Path) -> None:
        events = EpisodeLayout(directory).events
        if not own.has(directory):
            # A run of its own, which was put there
            return
        try:
            left = await anyio.to_thread.run_sync(lambda: read_contents(directory, nested=True))
        except OSError as error:
            warn(directory, f"{error.filename or directory}: {error.strerror}.")
            return
        if left.foreign or not is_free(events):
            # A user's, or a run's of its own
            if left.files:
                warn(directory, f"{listed(left.foreign[:3]) or 'another run'} is in it, so nothing is removed.")
            return
        try:
            # An episode without events had not begun
            for event in read_events(directory)[:1] if events.exists() else ():
                await sweep(event.run_id)
        except CoworldError as error:
            warn(directory, error.message, hint=Hint("sweep", "sweep finds them."))
        try:
            await anyio.to_thread.run_sync(left.remove)
            await anyio.to_thread.run_sync(directory.rmdir)
        except OSError as error:
            warn(directory, f"{error.filename or directory}: {error.strerror}.")

    own = await anyio.to_thread.run_sync(OwnEpisodes, run.layout.workspace)
    async with anyio.create_task_group() as group:
        for entry in sorted(run.layout.workspace.iterdir()):
            if entry.is_dir() and not entry.is_symlink() and entry.name not in kept:
                group.start_soon(clear, entry)
