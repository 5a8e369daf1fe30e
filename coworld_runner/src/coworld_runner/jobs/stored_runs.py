"""Reads the runs of a store as those of a folder are read: plans and rows are brought, and all evidence stays there."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from anyio.from_thread import start_blocking_portal

from coworld_core.episode.record import ROWS_NAME
from coworld_core.errors import CoworldError, UsageError
from coworld_core.evaluation.evaluation_files import PLAN_NAME, measure_row, read_plan, report_rows
from coworld_core.records.run_entries import EpisodeEntry
from coworld_core.text.terminal import writable

from ..evaluation.evaluation_run import write_report
from ..records.index_scan import Refreshed, refresh
from ..records.index_store import IndexStore
from ..records.local_runs import FoundRun, LocalRuns
from ..runs.scratch import REMOVE_SECONDS, make_scratch
from ..runs.workspace import atomic_write
from .job_files import CLOSED, RUN, Driver, no_run, read_object, read_run
from .job_store import JobStore
from .pulled_run import begin_log, make_place, read_stored_rows

__all__ = ["StoredRuns"]

_NAME = (
    "UPDATE run SET path = ?1, status = ?2, ok = (?2 = 'completed'), problem = trim(?3 || ' ' || problem) "
    "WHERE path = ?4"
)


class StoredRuns(LocalRuns):
    """The runs of a store; use as a context manager, as `LocalRuns`.

    ::

        with StoredRuns("s3://arena") as runs:
            table = runs.query("SELECT run, party, count(*) FROM episodes WHERE NOT ok GROUP BY run, party")

    A run goes by the last part of its address. The directories of runs and episodes are names of objects below what the
    run's address has before that part. Whatever others have written there is left out, and `RunEntry.problem` says so.

    Args:
        url: The store of a run, as `JobVenue` takes it, or what several of them are right below.
        on_progress: Called with the number of runs that were looked at so far, now and then.

    Raises:
        UsageError: On entry: there are no runs.
        EnvironmentFault: On entry: the store cannot be reached.
    """

    def __init__(self, url: str | os.PathLike[str], *, on_progress: Callable[[int], object] | None = None) -> None:
        super().__init__(on_progress=on_progress)
        self._url = os.fspath(url)
        self._stores: dict[str, JobStore] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            scratch = make_scratch()
            stack.callback(scratch.remove, REMOVE_SECONDS)
            found = self._portal.call(self._bring, scratch.directory("runs"))
            self._store = stack.enter_context(IndexStore(scratch.path / "runs.sqlite3"))
            self.notices += self._store.notices
            self.refreshed = refresh(self._store, [scratch.path / "runs"], self._on_progress)
            with self._store.writing() as connection:
                for name, (status, problem) in found.items():
                    connection.execute(_NAME, (name, status, problem, str(scratch.path / "runs" / name)))
            self._stack = stack.pop_all()
        return self

    def refresh(self) -> Refreshed:
        """Nothing: the store is read once."""
        return self.refreshed

    def find(self, word: str | os.PathLike[str]) -> FoundRun:
        """Return the run, or an episode of it, that a word names.

        Args:
            word: The name of a run, or the beginning of its id, or `latest`; or an episode's key or number after that
                and a slash, or alone if there is one run.

        Raises:
            UsageError: There is no such run (`no_such_run`) or episode (`no_such_episode`), or several of them
                (`several_runs`).
        """
        text, runs = os.fspath(word), self.runs().runs
        name, _, key = text.partition("/")
        try:
            run = runs[0] if name == "latest" and runs else self._by_name(name)
        except UsageError as error:
            if error.code != "no_such_run" or len(runs) != 1:
                raise
            run, key = runs[0], text
        return FoundRun(run=run, episode=self._episode(run, key) if key else None)

    def evidence(self, episode: EpisodeEntry) -> tuple[str, ...]:
        """The names of an episode's files, below its directory, sorted."""
        if episode.path is None:
            return ()
        _, _, prefix = episode.path.as_posix().partition("/")
        found = self._portal.call(self._stores[episode.run.name].list, prefix)
        return tuple(one.name.removeprefix(f"{prefix}/") for one in found)

    # --- bringing

    async def _bring(self, place: Path) -> dict[str, tuple[str, str]]:
        """Bring plans and rows into a directory for each run; returns the status of each, and what ails it."""
        store = JobStore(self._url)
        top, _ = await store.top()
        name = self._url.rstrip("/").rpartition("/")[2] or "store"
        if RUN in top:
            self._stores[name] = store
        else:
            self._stores = await store.cells()
        found: dict[str, tuple[str, str]] = {}
        for name, each in self._stores.items():
            try:
                if (status := await _bring_run(each, place / name, problems := list[str]())) is not None:
                    found[name] = (status, writable(" ".join(problems[:3])))
            except CoworldError as error:
                if RUN in top:
                    raise
                self.notices.append(f"{name}: {writable(error.message)}")
        if not found and not self.notices:
            raise no_run(store)
        return found


async def _bring_run(store: JobStore, place: Path, problems: list[str]) -> str | None:
    """Bring a run's plan and rows into a directory, with what they come to; returns its status, or None: it is none.

    Raises:
        CoworldError: The run itself cannot be read.
    """
    top, _ = await store.top()
    run = await read_run(store) if RUN in top else None
    if run is None:
        return None
    make_place(place, await store.get(PLAN_NAME))
    rows = await read_stored_rows(store, problems)
    last = next(reversed(await store.list("drivers")), None)
    driver = await read_object(store, last.name, Driver, what="driver") if last is not None else None
    status = "interrupted" if CLOSED in top or driver is None or driver.ended else "running"
    plan = None
    if PLAN_NAME in top:
        try:
            plan = read_plan(place)
            report = report_rows(plan, (measure_row(row, plan, place) for row, _ in rows))
            write_report(place, report)
            status = "completed" if report.stopped else status
        except CoworldError as error:
            problems.append(error.message)
    elif CLOSED in top and not top[CLOSED].size:
        status = "completed"
    begin_log(place, run, plan, top[RUN].changed)
    lines = (row.model_copy(update={"workspace": prefix}).to_line() for row, prefix in rows)
    atomic_write(place / ROWS_NAME, b"".join(lines))
    return status
