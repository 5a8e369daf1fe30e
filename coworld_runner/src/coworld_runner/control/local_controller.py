"""Starts episodes on this machine, finds those of other processes, and follows both."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from coworld_core.controller import (
    EPISODE_STATES,
    EpisodeChange,
    EpisodeInfo,
    EpisodeSpec,
    EpisodeState,
    read_states,
)
from coworld_core.episode.events import BaseEvent, RunStarted
from coworld_core.errors import CoworldError, UsageError
from coworld_core.ids import new_run_id
from coworld_core.records.labels import check_labels
from coworld_core.records.run_entries import RunEntry
from coworld_core.records.run_filter import RunFilter

from ..backend import Backend
from ..episode.episode_options import EpisodeOptions
from ..episode.episode_record import versions
from ..episode.run_context import entered_backend, find_plan
from ..episode.single import run_episode
from ..errors import unwrapped
from ..records.known_places import remember_directory
from ..records.local_runs import LocalRuns
from ..runs.workspace import LATEST, default_workspace
from .local_episode import LocalEpisode, OwnRun, read_info, state_of

__all__ = ["LocalController"]

_LOOK_SECONDS = 0.25
"""Seconds between two looks at the runs that are going on, and least seconds between two for new ones."""
_SHARE = 10
"""A look for new runs among very many takes its time; the next one follows after as many times as long."""


class LocalController:
    """The episodes of this machine, an `EpisodeController`; use as an async context manager.

    ::

        async with LocalController() as controller:
            episode = await controller.start(EpisodeSpec(coworld="examples/nim", players=("counter",)))
            print((await episode.result()).scores)

    Leaving the context stops the episodes that it has started, as Ctrl-C does. Those of other processes go on.

    Args:
        places: Directories in which to look for runs, as for `LocalRuns`; none: those that are known.
        backend: Where to play: an entered backend, or the name of one.
        results: The directory for the evidence, a new one in it for each episode; None: `results` beside the manifest.
        options: How to run each episode.
        index: The file of the index of runs; None: the user's own.
    """

    def __init__(
        self,
        *places: str | os.PathLike[str],
        backend: Backend | str = "auto",
        results: str | os.PathLike[str] | None = None,
        options: EpisodeOptions | None = None,
        index: str | os.PathLike[str] | None = None,
    ) -> None:
        self._places = [Path(place) for place in places]
        self._backend = backend
        self._results = Path(results).absolute() if results is not None else None
        self._options = options
        self._index = index
        self._own: dict[str, LocalEpisode] = {}

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.enter_context(unwrapped())
            self._tasks: TaskGroup = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(self._tasks.cancel_scope.cancel)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, value, traceback)

    async def start(
        self, spec: EpisodeSpec, *, labels: Mapping[str, str] | None = None, idempotency_key: str = ""
    ) -> LocalEpisode:
        """Start an episode, and return once it has begun.

        Args:
            spec: What is to be played.
            labels: Further labels, above those of the spec.
            idempotency_key: See `EpisodeController.start`. The run's id follows from it.

        Raises:
            CoworldError: It cannot be played, as for `run_episode`; nothing was started.
        """
        held = check_labels({**spec.labels, **(labels or {})})
        run_id = hashlib.sha256(idempotency_key.encode()).hexdigest()[:16] if idempotency_key else new_run_id()
        if idempotency_key:
            try:
                return await self.episode(run_id)
            except UsageError as error:
                if error.code != "no_such_run":
                    raise
        starting = _Starting(run_id)
        self._tasks.start_soon(self._play, spec, held, starting)
        try:
            await starting.settled.wait()
        except anyio.get_cancelled_exc_class():
            # Nobody would have its handle
            starting.own.scope.cancel()
            raise
        if starting.problem is not None:
            raise starting.problem
        assert starting.workspace is not None
        await anyio.to_thread.run_sync(remember_directory, starting.workspace.parent)
        episode = self._own[starting.run_id] = LocalEpisode(starting.run_id, starting.workspace, starting.own)
        return episode

    async def _play(self, spec: EpisodeSpec, labels: Mapping[str, str], starting: _Starting) -> None:
        own = starting.own
        try:
            with own.scope:
                plan, package = await find_plan(
                    spec.coworld, variant=spec.variant, players=spec.players, seed=spec.seed, config=spec.config
                )
                results = self._results
                if results is None:
                    results = package.default_results_dir() if not isinstance(package, str) else Path.cwd()
                async with entered_backend(self._backend, package) as backend:
                    own.backend = backend if isinstance(self._backend, str) else None
                    await run_episode(
                        plan,
                        backend=backend,
                        workspace=default_workspace(results, starting.run_id),
                        latest=True,
                        run_id=starting.run_id,
                        labels=labels,
                        options=self._options,
                        listeners=(starting,),
                    )
        except CoworldError as error:
            # Once it has begun, its record says what went wrong
            starting.problem = error if starting.workspace is None else None
        finally:
            own.ended.set()
            starting.settled.set()

    async def episode(self, id: str | os.PathLike[str]) -> LocalEpisode:
        """A run that any process has started.

        Args:
            id: The beginning of its id, its workspace, or `latest`, as for `LocalRuns.find`; if runs are going on,
                `latest` is the newest of them.

        Raises:
            UsageError: There is no such run, or several; or it is an episode of a run of many (`part_of_a_run`).
        """
        word = os.fspath(id)
        if word == LATEST and (going_on := await self.recent(states=("running",), limit=1)):
            word = going_on[0].workspace or word
        if word in self._own:
            return self._own[word]

        def find() -> RunEntry:
            with self._runs() as runs:
                found = runs.find(word)
                if found.episode is not None:
                    raise UsageError(
                        f"The episode {found.episode.key!r} is a part of the run in {found.run.path}.",
                        code="part_of_a_run",
                        hint="Name that run.",
                        context={"path": str(found.run.path)},
                    )
                return found.run

        entry = await anyio.to_thread.run_sync(find)
        return self._own.get(entry.run_id) or LocalEpisode(entry.run_id or entry.path.name, entry.path)

    async def recent(
        self, *, states: Collection[str] = (), labels: Mapping[str, str] | None = None, limit: int | None = 50
    ) -> tuple[EpisodeInfo, ...]:
        """Runs that are going on, and those that have ended, the newest first.

        Args:
            states: Only those in these states; empty: all.
            labels: Patterns for the values of labels, by name.
            limit: How many at most; None: all.

        Raises:
            UsageError: A state is none (`no_such_state`).
        """
        wanted = read_states(states)

        def look() -> tuple[EpisodeInfo, ...]:
            with self._runs() as runs:
                found = [
                    run
                    for status in wanted or ("",)
                    for run in runs.runs(RunFilter(status=status, labels=labels or {}), limit=limit)
                ]
            found.sort(key=lambda run: run.started_at or _LONG_AGO, reverse=True)
            return tuple(info for run in found[:limit] if (info := read_info(run.path)) is not None)

        return await anyio.to_thread.run_sync(look)

    async def watch(
        self, *, states: Collection[str] = (), labels: Mapping[str, str] | None = None, full: bool = False
    ) -> AsyncGenerator[EpisodeChange]:
        """Runs of any process as they come into other states; see `EpisodeController.watch`.

        Raises:
            UsageError: On iteration: a state is none (`no_such_state`).
        """
        wanted = read_states(states) or EPISODE_STATES
        seen = _Seen(dt.datetime.now(dt.UTC), labels or {})
        next_search = anyio.current_time()
        while True:
            began = anyio.current_time()
            searches = began >= next_search
            changes = await anyio.to_thread.run_sync(self._changed, seen, searches)
            if searches:
                now = anyio.current_time()
                next_search = now + _SHARE * (now - began)
            for id, state, info in changes:
                if state in wanted:
                    yield EpisodeChange(id=id, state=state, info=info if full else None)
            await anyio.sleep(_LOOK_SECONDS)

    async def versions(self) -> dict[str, str]:
        """The versions of coworld, Python and this platform; of an open backend, also that of its engine."""
        return versions(self._backend if isinstance(self._backend, Backend) else None)

    def _runs(self) -> LocalRuns:
        places = [*self._places, *(episode.workspace for episode in self._own.values())] if self._places else ()
        return LocalRuns(*places, index=self._index)

    def _changed(self, seen: _Seen, searches: bool) -> list[tuple[str, EpisodeState, EpisodeInfo]]:
        """The runs that have come into another state, oldest first; new ones among them only if it searches."""
        places = [*seen.going_on]
        if searches:
            with self._runs() as runs:
                found = [
                    *runs.runs(RunFilter(since=seen.since, labels=seen.labels)),
                    *runs.runs(RunFilter(status="running", labels=seen.labels)),
                ]
            new = (
                run for run in reversed(found) if seen.states.get(run.run_id or run.path.name) != state_of(run.status)
            )
            places += [run.path for run in new]
        changes: list[tuple[str, EpisodeState, EpisodeInfo]] = []
        for place in dict.fromkeys(places):
            info = read_info(place)
            if info is None:
                seen.going_on.pop(place, None)
            elif seen.states.get(info.id) != info.state:
                seen.states[info.id] = info.state
                if info.ended:
                    seen.going_on.pop(place, None)
                else:
                    seen.going_on[place] = None
                changes.append((info.id, info.state, info))
        return changes


_LONG_AGO = dt.datetime(1, 1, 1, tzinfo=dt.UTC)


class _Seen:
    """What a watch has seen so far."""

    def __init__(self, since: dt.datetime, labels: Mapping[str, str]) -> None:
        self.since = since
        self.labels = labels
        self.states: dict[str, EpisodeState] = {}
        self.going_on: dict[Path, None] = {}


class _Starting:
    """A run that is to begin; as a listener of its events, it notices that."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.own = OwnRun()
        self.workspace: Path | None = None
        """Set once it has begun."""
        self.problem: CoworldError | None = None
        """Why it could not begin."""
        self.settled = anyio.Event()

    def __call__(self, event: BaseEvent) -> None:
        if isinstance(event, RunStarted):
            self.workspace = Path(event.workspace)
            self.settled.set()
