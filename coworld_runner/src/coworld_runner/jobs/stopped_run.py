"""Ends a run that pods of a cluster play, from anywhere: its Jobs, and by its store whoever drives or plays it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coworld_core.errors import BackendUnavailable, UsageError
from coworld_core.hints import Hint
from coworld_core.text.phrases import listed

from ..backends.engine import RUN
from ..backends.kubernetes._cluster import Cluster
from ..backends.kubernetes._pod_objects import MANAGED
from ..backends.registry import ClusterOptions
from .job_files import CLOSED, STOPPED, no_run, read_run
from .job_files import RUN as RUN_NAME
from .job_objects import STORE
from .job_store import JobStore

__all__ = ["StoppedJobs", "is_stored", "jobs_named", "stop_jobs"]

_SHORTEST = 4
"""Characters of a run's label that suffice to name it."""


@dataclass(frozen=True, kw_only=True)
class StoppedJobs:
    """A run that was ended, or all below a store. It goes on with the same call, or command, and the same store.

    Attributes:
        run_id: Its label; of several, these, separated by commas.
        store: Its store; empty: it is not known here.
        jobs: The names of the Jobs that were removed, with their pods.
        unreached: Why no cluster was asked, which has none of its pods then; empty if one was.
    """

    run_id: str
    store: str
    jobs: tuple[str, ...]
    unreached: str = ""


def is_stored(word: str) -> bool:
    """Whether a word is the store of a run or of several, and not the directory or the id of one on this machine."""
    return "://" in word or any(run for pattern in ("", "*/") for run in Path(word).glob(pattern + RUN_NAME))


async def stop_jobs(word: str | os.PathLike[str], *, cluster: ClusterOptions | None = None) -> StoppedJobs:
    """End a run that has a store: its pods, and whoever drives it. What was played is kept, what is under way is lost.

    Args:
        word: Its store, or that of several, which all end; or, on the cluster, its label or the beginning of that, or
            the name of one of its Jobs.
        cluster: The cluster.

    Raises:
        UsageError: There is no such run, or there are several.
        BackendUnavailable: The cluster cannot be used, and only it knows the run.
        EnvironmentFault: The store cannot be reached.
    """
    name, store = os.fspath(word), ""
    names = [name]
    if is_stored(name):
        names = await _close(JobStore(store := name))
        if not names:
            raise no_run(JobStore(store))
        name = ", ".join(names)
    where = cluster or ClusterOptions()
    try:
        there = await Cluster.connect(context=where.context, namespace=where.namespace, kubeconfig=where.kubeconfig)
    except BackendUnavailable as error:
        if not store:
            raise
        return StoppedJobs(run_id=name, store=store, jobs=(), unreached=error.message)
    try:
        managed = ",".join(f"{key}={value}" for key, value in MANAGED.items())
        listed_jobs = (await there.list("jobs", managed))["items"]
        found = [job for each in names for job in jobs_named(each, listed_jobs)]
        if not store and not found:
            raise UsageError(
                f"No Job in the namespace {there.namespace} plays a run {name!r} from a store.",
                code="no_such_run",
                hint=Hint("name_stored_run", "Name its store, its label, or one of its Jobs."),
            )
        if found:
            said: Mapping[str, str] = found[0]["metadata"]["annotations"]
            name = name if store else said[RUN]
            if not store and ("://" in said[STORE] or is_stored(said[STORE])):
                await _close(JobStore(said[STORE]))
            store = store or said[STORE]
        jobs = [str(job["metadata"]["name"]) for job in found]
        for job in jobs:
            await there.delete("jobs", job)
    finally:
        await there.close()
    return StoppedJobs(run_id=name, store=store, jobs=tuple(jobs))


def jobs_named(word: str, jobs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The Jobs of the run that a word names, among those of a namespace.

    Raises:
        UsageError: There are several runs (`several_runs`).
    """
    ours = [job for job in jobs if {RUN, STORE} <= (job["metadata"].get("annotations") or {}).keys()]
    runs = {
        str(job["metadata"]["annotations"][RUN])
        for job in ours
        if job["metadata"]["name"] == word
        or (len(word) >= _SHORTEST and job["metadata"]["annotations"][RUN].startswith(word))
    }
    if len(runs) > 1:
        raise UsageError(
            f"{len(runs)} runs are meant by {word!r}: {listed(sorted(runs))}.",
            code="several_runs",
            hint="Name one of them by its whole label.",
        )
    return [job for job in ours if job["metadata"]["annotations"][RUN] in runs]


async def _close(store: JobStore) -> list[str]:
    """Say in a store that its run is over, or those below it, so that everybody there ends; returns their labels."""
    if (run := await read_run(store)) is not None:
        await store.put(CLOSED, STOPPED)
        return [run.run_id]
    cells = await store.cells()
    runs = {name: run for name, cell in cells.items() if (run := await read_run(cell)) is not None}
    if runs:
        # First, so that no further one begins
        await store.put(CLOSED, STOPPED)
    for name in runs:
        # One that has come to its end stays so
        await cells[name].create(CLOSED, STOPPED)
    return [run.run_id for run in runs.values()]
