"""Brings what a run has left in its store into a directory, as a run on this machine leaves it."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Collection
from pathlib import Path

import anyio
import anyio.to_thread

from coworld_core.documents.records import open_record, read_as
from coworld_core.episode.events import RunStarted
from coworld_core.episode.layout import EpisodeLayout, directory_of
from coworld_core.episode.record import ROWS_NAME, EpisodeRow, read_rows
from coworld_core.errors import RecordError, UsageError
from coworld_core.evaluation.evaluation_files import MARKDOWN_NAME, PLAN_NAME, read_plan
from coworld_core.evaluation.report_base import EvaluationPlan
from coworld_core.evaluation.suite_report import SUITE_NAME

from ..runs.workspace import atomic_write
from .job_files import RUN, JobRun, RowsHead, chunk_number, no_run, read_run
from .job_store import JobStore

__all__ = ["begin_log", "bring_evidence", "make_place", "pull_run", "read_chunk_rows", "read_stored_rows"]

_MOST_FILE = 1 << 30
_AT_ONCE = 8
_DOCUMENTS = (SUITE_NAME, MARKDOWN_NAME)
"""What is kept about all measurements below a store."""


async def read_chunk_rows(store: JobStore, number: int) -> tuple[int, list[EpisodeRow]]:
    """Read the rows of a chunk, and which attempt at it counts.

    Raises:
        RecordError: They are no rows.
    """
    name = f"rows/{number:06}.jsonl"
    data = await store.get(name)
    head, _, lines = (data or b"").partition(b"\n")
    attempt = read_as(RowsHead, open_record(head, what=f"{store}/{name}", name=name), what="rows").attempt
    rows = list(read_rows(lines))
    if any(row.workspace not in ("", directory_of(row.key, row.earlier)) for row in rows):
        raise store.wrong(name, "the directory of a row is not that of its key")
    return attempt, rows


async def bring_evidence(store: JobStore, prefix: str, directory: Path) -> None:
    """Bring the files of an episode; nothing is written anywhere else.

    Args:
        store: The store.
        prefix: What their names begin with.
        directory: Where to put them.

    Raises:
        RecordError: A name leads out of the directory, or a file is too large.
    """
    room = anyio.CapacityLimiter(_AT_ONCE)

    async def bring(name: str, target: Path) -> None:
        async with room:
            data = await store.get(name, most=_MOST_FILE)
            if data is not None:
                target.parent.mkdir(parents=True, exist_ok=True)
                atomic_write(target, data)

    async with anyio.create_task_group() as tasks:
        for one in await store.list(prefix):
            parts = one.name.removeprefix(f"{prefix}/").split("/")
            if any(part in ("", ".", "..") or not part.isprintable() or "\\" in part for part in parts):
                raise store.wrong(one.name, "its name leads out of the episode's directory")
            tasks.start_soon(bring, one.name, directory.joinpath(*parts))


async def pull_run(url: str | os.PathLike[str], directory: str | os.PathLike[str]) -> int:
    """Bring a run from its store: its plan, the rows of all episodes so far, and their evidence.

    Args:
        url: The store, as `JobVenue` takes it, or what several of them are right below: each gets a directory of its
            own, beside the documents about all of them.
        directory: A directory, new or empty, or that of the same run, to which what is new is added.

    Returns:
        How many episodes there are.

    Raises:
        UsageError: There is no run, or the directory has something else in it.
        RecordError: Somebody else writes to the store.
        EnvironmentFault: The store cannot be reached.
    """
    store, place = JobStore(url), Path(directory)
    run = await read_run(store)
    if run is None:
        return await _pull_cells(store, place)
    plan = await store.get(PLAN_NAME)
    await anyio.to_thread.run_sync(make_place, place, plan)
    begin_log(place, run, read_plan(place) if plan is not None else None, (await store.top())[0][RUN].changed)
    rows = await read_stored_rows(store)
    for row, prefix in rows:
        if prefix and not (place / row.workspace).exists():
            await bring_evidence(store, prefix, place / row.workspace)
    atomic_write(place / ROWS_NAME, b"".join(row.to_line() for row, _ in rows))
    return len({row.key for row, _ in rows})


async def _pull_cells(store: JobStore, place: Path) -> int:
    """Bring what is below a store; returns how many episodes there are."""
    found = {name: cell for name, cell in (await store.cells()).items() if name not in _DOCUMENTS}
    cells = {name: cell for name, cell in found.items() if await read_run(cell) is not None}
    if not cells:
        raise no_run(store)
    await anyio.to_thread.run_sync(_make_cells_place, place, {*cells, *_DOCUMENTS})
    count = 0
    for name, cell in cells.items():
        count += await pull_run(cell.url, place / name)
    for name in _DOCUMENTS:
        if (data := await store.get(name)) is not None:
            atomic_write(place / name, data)
    return count


async def read_stored_rows(store: JobStore, problems: list[str] | None = None) -> list[tuple[EpisodeRow, str]]:
    """Read the rows of all episodes so far, in the order of the plans, each with the prefix of its evidence, if any.

    Args:
        store: The store.
        problems: Gets what is wrong with chunks, which are left out then; None: it is raised.

    Raises:
        RecordError: Somebody else writes to the store.
    """
    found: dict[tuple[str, int], tuple[EpisodeRow, str]] = {}
    for one in await store.list("rows"):
        number = chunk_number(one.name)
        try:
            attempt, rows = await read_chunk_rows(store, number)
        except RecordError as error:
            if problems is None:
                raise
            problems.append(f"{one.name}: {error.message}")
            continue
        for row in rows:
            prefix = f"episodes/{number:06}.{attempt}/{row.workspace}" if row.workspace else ""
            # An attempt counts once
            found.setdefault((row.key, row.earlier), (row, prefix))
    return sorted(found.values(), key=lambda each: (each[0].index, each[0].earlier))


def begin_log(place: Path, run: JobRun, plan: EvaluationPlan | None, began: dt.datetime) -> None:
    """Begin the log of a run in its directory, unless there is one: by it, the run is known among others."""
    log = EpisodeLayout(place).events
    if log.exists():
        return
    players = plan.players().values() if plan is not None else ()
    event = RunStarted(
        seq=1,
        time=began,
        run_id=run.run_id,
        what="batch",
        coworld=run.coworld,
        version=run.version,
        backend="jobs",
        variant=plan.variant if plan is not None else "",
        players=tuple(player.name for player in players),
        player_ids=tuple(player.player_id for player in players),
    )
    atomic_write(log, event.to_line())


def make_place(place: Path, plan: bytes | None) -> None:
    """Make a directory for the run with this plan, or find it as it is. Blocks.

    Raises:
        UsageError: It has something else in it (`not_fresh`).
    """
    known = (place / PLAN_NAME).read_bytes() if (place / PLAN_NAME).is_file() else None
    if known != plan and place.is_dir() and any(place.iterdir()):
        raise _not_fresh(place, "something else" if known is None else "another measurement")
    place.mkdir(parents=True, exist_ok=True)
    if known is None and plan is not None:
        # Rows first, as of a run that begins
        (place / ROWS_NAME).touch()
        atomic_write(place / PLAN_NAME, plan)


def _make_cells_place(place: Path, names: Collection[str]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    if any(path.name not in names for path in place.iterdir()):
        raise _not_fresh(place, "something else")


def _not_fresh(place: Path, what: str) -> UsageError:
    return UsageError(f"{place} has {what} in it.", code="not_fresh", hint="Name a new directory.")
