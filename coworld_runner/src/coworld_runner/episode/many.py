"""Plays many episodes of any plans: each has a key and gets one row when it ends.

Every run of many episodes is driven from here. A batch, an evaluation or a tournament only says which plans come next,
and what to do with a row.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Unpack

import anyio
import anyio.to_thread

from coworld_core.episode.events import BatchProgressed, Notice, RunFinished, RunStarted
from coworld_core.episode.layout import EpisodeLayout, directory_of
from coworld_core.episode.outcome import EpisodeStatus
from coworld_core.episode.record import ROWS_NAME, EpisodeRow, read_record
from coworld_core.errors import BackendUnavailable, CoworldError, EnvironmentFault, UsageError, WorkspaceError
from coworld_core.ids import new_run_id

from ..backend import Backend
from ..errors import unwrapped
from ..package.newest_players import with_newest_players
from ..package.plan import EpisodePlan
from ..package.resolver import Package
from ..runs._append_log import AppendedFile
from ..runs._open_files import FileBudget
from .episode_options import EpisodeOptions
from .episode_rows import RowFile, Rows, planned_digest, row_of_error, row_of_record
from .parallelism import Parallelism
from .plan_hooks import apply_hooks
from .run_context import entered_backend
from .run_options import BatchArguments, RunOptions
from .run_start import OpenRun, open_run
from .single import run_episode

__all__ = ["KeyedRun", "RunCounts", "open_keyed_run", "run_many"]

_KEEP = 1000
"""Number of events kept for readers that join late; all events of many episodes might not fit into memory."""
_EVENTS_NAME = EpisodeLayout(Path()).events.name
_FILES_OF_UNIT = 9
"""Open files that a unit needs: its logs, its control, its ports, the requests to it (up to 5 were seen), and the
statistics of four threads."""
"""Keys that can serve as directory names."""


@dataclass(kw_only=True)
class RunCounts:
    """The numbers of episodes. The outcome of each is in its row."""

    kept: int = 0
    """Episodes that already had a row."""
    played: int = 0
    completed: int = 0
    """Played episodes with valid results."""
    faulted: int = 0
    """Played episodes with a fault."""
    status: EpisodeStatus = "interrupted"
    """`completed`: every plan has its row, and every one that was played completed."""
    seconds: float = 0.0


async def run_many(
    plans: Iterable[tuple[str, EpisodePlan]], *, resume: bool = False, **run: Unpack[BatchArguments]
) -> RunCounts:
    """Play episodes of any plans, up to `parallel` at a time.

    Each has its own directory below the workspace, and gets a row in `episodes.jsonl` (`read_rows`) once it is
    over. A failure of one episode (an unavailable image, an invalid config, an internal error) is recorded in its row;
    only an unreachable engine or a full disk ends the whole run. Plans are taken from the iterable as there is room for
    them.

    Args:
        plans: Keys and plans. A key identifies its episode for good: it must not occur twice.
        resume: Whether to resume the run in the workspace: episodes that have a row are left alone, and the leftovers
            of others are removed.
        run: Where and how to play; the `backend` must be entered.

    Returns:
        The numbers of episodes.

    Raises:
        UsageError: A count below 1, or a key that occurs twice or belongs to another plan.
        WorkspaceError: The workspace is not fresh or not writable, or another run writes to it.
        EnvironmentFault: The machine or the engine failed; episodes that ended before have their rows.
    """
    options = RunOptions.of(BatchArguments, run, resume=resume)
    async with open_keyed_run(options, "", RunStarted(what="batch")) as keyed:
        await keyed.play(plans)
    return keyed.counts


@asynccontextmanager
async def open_keyed_run(
    options: RunOptions,
    origin: Package | str,
    start: RunStarted,
    *,
    rows: Rows | None = None,
    kind: type[KeyedRun] | None = None,
) -> AsyncGenerator[KeyedRun]:
    """Open the backend, the workspace and the rows of a run of many episodes, and publish how it starts and ends.

    Args:
        options: Where and how to play.
        origin: The package that is played; of plans alone, where their manifest was read from.
        start: The first event, without backend and workspace.
        rows: The rows, if they are kept elsewhere than in `episodes.jsonl`.
        kind: What plays the episodes, if not `KeyedRun`.

    Raises:
        UsageError: There is no such backend, or the run was begun with other hooks.
        WorkspaceError: The workspace is not fresh or not writable, or another run writes to it.
        EnvironmentFault: The machine or the engine failed.
    """
    async with entered_backend(options.backend, origin, install=options.install) as backend:
        with ExitStack() as stack:
            marker = ROWS_NAME if rows is None else _EVENTS_NAME
            run = stack.enter_context(open_run(options, origin, marker=marker, keep=_KEEP))
            with suppress(OSError):
                run.layout.logs.rmdir()  # Each episode has its own logs
            if rows is None:
                rows = RowFile(stack.enter_context(AppendedFile(run.layout.workspace / ROWS_NAME)))
            rows.require_hooks(options.hooks)
            keyed = (kind or KeyedRun)(options, backend, run, rows)
            run.publish_start(start, backend.name)
            try:
                if options.resume:
                    # It knows the plans of all evaluations, which a new run does not need
                    from .leftovers import remove_leftovers

                    await remove_leftovers(run, backend, rows.directories)
                yield keyed
            finally:
                keyed.finish()


class KeyedRun:
    """The episodes of one run.

    Args:
        options: How to play them.
        backend: The backend, entered.
        run: The open run.
        rows: Its rows.

    Attributes:
        counts: The numbers of episodes so far.
        rows: As given.
    """

    same_players = False
    """Whether hooks must leave every seat its player, because its players are measured."""
    hurried = 0.0
    """Seconds between two reports of progress, at least; 0: each is published."""

    def __init__(self, options: RunOptions, backend: Backend, run: OpenRun, rows: Rows) -> None:
        self.options = options
        self.backend = backend
        self.run = run
        self.counts = RunCounts()
        self.rows = rows
        self._finished = False

    def finish(self, event: RunFinished | None = None) -> None:
        """Publish the last event, once: how the run has ended. By default, it has ended as its episodes have."""
        if not self._finished:
            self._finished = True
            counts = self.counts
            ok = counts.status == "completed" and not counts.faulted
            self.run.bus.publish(event or RunFinished(status=counts.status, ok=ok, seconds=self.run.seconds()))

    async def play(
        self,
        plans: Iterable[tuple[str, EpisodePlan]],
        *,
        fatal: tuple[type[CoworldError], ...] = (),
        total: int | None = None,
        on_row: Callable[[EpisodeRow], object] | None = None,
    ) -> None:
        """Play the episodes that have no row yet.

        Args:
            plans: Keys and what to play.
            fatal: Errors of one episode that every other episode would have too.
            total: How many there are, if known.
            on_row: Called with each new row before it is written; an exception from it ends the run. If it returns
                something true, later rows do not count, and need not be written.

        Raises:
            UsageError: See `run_many`.
            EnvironmentFault: The machine or the engine failed.
        """
        width = Parallelism(self.options.parallel, remote=self.backend.capabilities.remote)
        room = FileBudget()
        narrow = False
        counts = self.counts
        taken: set[str] = set()
        complete = True

        def take(row: EpisodeRow) -> None:
            nonlocal complete
            if on_row is not None:
                on_row(row)
            self.rows.append(row)
            counts.played += 1
            counts.completed += row.status == "completed"
            counts.faulted += not row.ok
            complete = complete and row.status == "completed"
            self.run.bus.publish(
                BatchProgressed(
                    index=row.index,
                    key=row.key,
                    done=counts.kept + counts.played,
                    total=total,
                    status=row.status,
                    ok=row.ok,
                    scores=row.scores,
                )
            )

        async def one(index: int, key: str, plan: EpisodePlan) -> None:
            row = await self._played(index, key, plan, fatal, take)
            take(row)
            # Not in a `finally`: after an error no further episode may begin
            room.give_back(_files(plan))
            width.give_back(index, row)

        try:
            with unwrapped():
                async with anyio.create_task_group() as group:
                    waiting = iter(plans)
                    for index in count(1):
                        # The next plan may depend on the episodes that have ended by then
                        await width.take(index)
                        key, plan = next(waiting, ("", None))
                        if plan is None:
                            break
                        if key in taken:
                            raise UsageError(f"The key {key!r} occurs twice among the plans.", code="key_repeated")
                        taken.add(key)
                        if key in self.rows.seen:
                            self.rows.check(key, plan)
                            counts.kept += 1
                            width.give_back(index)
                            continue
                        if not room.has(_files(plan)) and not narrow:
                            narrow = True
                            self.run.bus.publish(
                                Notice(
                                    message=f"Fewer than {width.now} episodes at a time: this process may have no more "
                                    f"than {room.limit} files open (ulimit -Hn)."
                                )
                            )
                        await room.take(_files(plan))
                        group.start_soon(one, index, key, plan)
            counts.status = "completed" if complete else "failed"
        except CoworldError:
            counts.status = "failed"
            raise
        finally:
            counts.seconds = self.run.seconds()

    async def _played(
        self,
        index: int,
        key: str,
        plan: EpisodePlan,
        fatal: tuple[type[CoworldError], ...],
        interrupted: Callable[[EpisodeRow], None],
    ) -> EpisodeRow:
        """Play an episode and return its row; one that is interrupted when its game was over is not played again."""
        directory = self.run.layout.workspace / directory_of(key)
        # The run's workspace has its labels, which may change; those that it began with are in the records
        plan = plan.tagged(self.options.labels)
        hooks, planned = self.options.hooks, planned_digest(plan).hex() if self.options.hooks else ""
        readers = self.options.episode_listeners
        begun, run_id = time.monotonic(), new_run_id()
        try:
            if any(seat.follows for seat in plan.seats):
                plan = await anyio.to_thread.run_sync(with_newest_players, plan)
            if hooks:
                limit = (self.options.options or EpisodeOptions()).hook_timeout_seconds
                plan = await apply_hooks(plan, hooks, timeout=limit, same_players=self.same_players)
            record = await run_episode(
                plan,
                backend=self.backend,
                workspace=directory,
                options=self.options.options,
                listeners=readers(key) if readers else (),
                run_id=run_id,
            )
        except Exception as error:  # Any failure belongs to this episode
            full = isinstance(error, EnvironmentFault) and error.code == "disk_full"
            if full or isinstance(error, (BackendUnavailable, WorkspaceError, *fatal)):
                raise
            if not EpisodeLayout(directory).record.exists():
                seconds = round(time.monotonic() - begun, 3)
                return row_of_error(
                    index,
                    key,
                    directory,
                    plan,
                    error,
                    run_id=run_id,
                    seconds=seconds,
                    hooks=plan.hooks or tuple(hook.record() for hook in hooks),
                    planned=planned,
                )
            # The record says whose fault it was
            record = read_record(directory)
        except anyio.get_cancelled_exc_class():
            record = read_record(directory) if EpisodeLayout(directory).record.exists() else None
            if record is not None and record.run_id == run_id and record.status == "completed":
                interrupted(row_of_record(index, key, directory, plan, record, planned=planned))
            raise
        return row_of_record(index, key, directory, plan, record, planned=planned)


def _files(plan: EpisodePlan) -> int:
    return _FILES_OF_UNIT * (2 + len(plan.seats))
