"""The episodes of this machine as a store: the same words as for those of a platform."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from coworld_core.documents.records import record_unreadable
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.errors import UsageError
from coworld_core.files.regular import read_regular
from coworld_core.records.episode_store import samples_of, too_few, with_labels
from coworld_core.records.run_entries import FoundEpisodes, StoredEpisode
from coworld_core.records.run_filter import RunFilter
from coworld_core.records.samples import RecordedSample, iter_samples, recording_end
from coworld_core.rules.replay import MAX_REPLAY

from .local_runs import LocalRuns

__all__ = ["LocalStore"]

_T = TypeVar("_T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0
"""Seconds between two looks at the folders."""


class LocalStore:
    """The episodes of this machine: an `EpisodeStore` over `LocalRuns`.

    ::

        store = LocalStore()
        for episode in await store.episodes(labels={"exp": "a"}):
            turns = [turn async for turn in store.iter_samples(episode)]

    Args:
        places: As for `LocalRuns`.
        index: As for `LocalRuns`.
    """

    def __init__(self, *places: str | os.PathLike[str], index: str | os.PathLike[str] | None = None) -> None:
        self._opened = partial(LocalRuns, *places, index=index)

    async def episodes(
        self,
        asked: RunFilter | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> FoundEpisodes:
        """Return episodes, those of the newest run first; `EpisodeStore.episodes`."""
        wanted = with_labels(asked, labels)
        return await self._ask(lambda runs: runs.episodes(wanted, limit=limit))

    async def wait_for(
        self,
        count: int,
        asked: RunFilter | None = None,
        *,
        timeout: float,
        labels: Mapping[str, str] | None = None,
    ) -> FoundEpisodes:
        """Wait until so many episodes are over; `EpisodeStore.wait_for`."""
        found = await self.episodes(asked, labels=labels, limit=count)
        pause = _FIRST_PAUSE
        with anyio.move_on_after(timeout):
            while len(found) < count:
                await anyio.sleep(pause)
                before, found = len(found), await self.episodes(asked, labels=labels, limit=count)
                pause = _FIRST_PAUSE if len(found) > before else min(pause * 1.5, _LONGEST_PAUSE)
        if len(found) < count:
            raise too_few(len(found), count, timeout)
        return found

    async def iter_samples(self, episode: StoredEpisode | str) -> AsyncIterator[RecordedSample]:
        """Iterate over the turns of an episode; `EpisodeStore.iter_samples`."""
        name = _id(episode)
        place = await self._ask(lambda runs: _directory(runs, name))
        layout = EpisodeLayout(place) if place is not None else None
        replay = layout.replay if layout is not None else None
        if layout is not None and await anyio.to_thread.run_sync(_has_recording, layout):
            for sample in iter_samples(layout.samples):
                yield dataclasses.replace(sample, episode=name)
            return
        if replay is None or not await anyio.Path(replay).is_file():
            raise UsageError(
                f"The episode {name} has no samples: "
                + ("only its row is kept." if replay is None else "it left no replay."),
                code="no_samples",
                context={"episode": name},
            )
        for row in samples_of(await anyio.to_thread.run_sync(_content, replay), episode=name):
            yield row

    async def delete(self, episode: StoredEpisode | str) -> None:
        """Delete an episode that is a run of its own, with its workspace; `EpisodeStore.delete`.

        Raises:
            WorkspaceError: A run writes to it, or it has files of others.
        """
        name = _id(episode)
        await self._ask(lambda runs: runs.remove(name))

    async def _ask(self, question: Callable[[LocalRuns], _T]) -> _T:
        def asked() -> _T:
            # Opened each time, so that the index has what was played meanwhile
            with self._opened() as runs:
                return question(runs)

        return await anyio.to_thread.run_sync(asked)


def _id(episode: StoredEpisode | str) -> str:
    return episode if isinstance(episode, str) else episode.id


def _content(replay: Path) -> bytes:
    try:
        return read_regular(replay, most=MAX_REPLAY)
    except OSError as error:
        raise record_unreadable(replay, replay.name, error) from error


def _has_recording(layout: EpisodeLayout) -> bool:
    """Whether an episode's recording tells at least as much as its replay."""
    if not layout.samples.is_file():
        return False
    end = recording_end(layout.samples)
    return (end is not None and end.complete) or not layout.replay.is_file()


def _directory(runs: LocalRuns, name: str) -> Path | None:
    """The directory of an episode; None if only its row is kept."""
    found = runs.find(name)
    if found.episode is not None:
        return found.episode.path
    if found.run.kind != "episode":
        raise UsageError(
            f"{name} is a run of {found.run.episodes} episodes.",
            code="several_episodes",
            hint="Name one of them: the run, a slash, and its number.",
        )
    return found.run.path
