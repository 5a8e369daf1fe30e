"""Plays many episodes of any plans: each has a key and gets one row when it ends.

Every run of many episodes is driven from here. A batch, an evaluation or a tournament only says which plans come next,
and what to do with a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from coworld_core.episode.events import BatchProgressed, Notice, RunFinished, RunStarted
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.outcome import EpisodeStatus
from coworld_core.episode.record import ROWS_NAME, EpisodeRow
from coworld_core.errors import CapabilityError, CoworldError, UsageError
from coworld_core.hints import Hint

from ..errors import unwrapped
from ..package.plan import EpisodePlan
from ..package.resolver import Package
from ..runs._append_log import AppendedFile
from .episode_rows import RowFile, Rows
from .program_venue import ProgramVenue
from .run_context import entered_backend
from .run_options import BatchArguments, RunOptions
from .run_start import OpenRun, open_run
from .venue import Venue, VenueRun, Wanted

__all__ = ["KeyedRun", "RunCounts", "open_keyed_run", "run_many"]

_KEEP = 1000
"""Number of events kept for readers that join late; all events of many episodes might not fit into memory."""
_EVENTS_NAME = EpisodeLayout(Path()).events.name


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
    lost: int = 0
    """Attempts that were followed by another one."""
    status: EpisodeStatus = "interrupted"
    """`completed`: every plan has its row, and every one that was played completed."""
    seconds: float = 0.0


async def run_many(
    plans: Iterable[tuple[str, EpisodePlan]],
    *,
    resume: bool = False,
    retry: Mapping[str, int] | None = None,
    **run: Unpack[BatchArguments],
) -> RunCounts:
    """Play episodes of any plans, up to `parallel` at a time.

    Each has its own directory below the workspace, and gets a row in `episodes.jsonl` (`read_rows`) once it is
    over. A failure of one episode (an unavailable image, an invalid config, an internal error) is recorded in its row;
    only an unreachable engine or a full disk ends the whole run. Plans are taken from the iterable as there is room for
    them.

    Args:
        plans: Keys and plans. A key identifies its episode for good: it must not occur twice.
        resume: Whether to resume the run in the workspace: episodes that have a row are left alone, unless the platform
            or the operator was at fault, and the leftovers of others are removed.
        retry: How often to play an episode again that failed through the platform's or the operator's fault:
            `{"platform": 2}`. Each attempt has a row and a directory of its own, and the last one counts.
        run: Where and how to play; the `backend` must be entered.

    Returns:
        The numbers of episodes.

    Raises:
        UsageError: A count below 1, or a key that occurs twice or belongs to another plan.
        WorkspaceError: The workspace is not fresh or not writable, or another run writes to it.
        EnvironmentFault: The machine or the engine failed; episodes that ended before have their rows.
    """
    options = RunOptions.of(BatchArguments, run, resume=resume, retry=retry)
    async with open_keyed_run(options, "", RunStarted(what="batch")) as keyed:
        await keyed.play(plans)
    return keyed.counts


@asynccontextmanager
async def entered_venue(options: RunOptions, origin: Package | str) -> AsyncGenerator[Venue]:
    """Yield the venue that the options name, or programs on their backend, which is opened unless the caller has.

    Raises:
        UsageError: There is no such backend.
    """
    if options.venue is not None:
        yield options.venue
        return
    async with entered_backend(options.backend, origin, install=options.install) as backend:
        yield ProgramVenue(backend)


@asynccontextmanager
async def open_keyed_run(
    options: RunOptions,
    origin: Package | str,
    start: RunStarted,
    *,
    rows: Rows | None = None,
) -> AsyncGenerator[KeyedRun]:
    """Open the venue, the workspace and the rows of a run of many episodes, and publish how it starts and ends.

    Args:
        options: Where and how to play.
        origin: The package that is played; of plans alone, where their manifest was read from.
        start: The first event, without backend and workspace.
        rows: The rows, if they are kept elsewhere than in `episodes.jsonl`.

    Raises:
        UsageError: There is no such backend, or the run was begun with other hooks.
        WorkspaceError: The workspace is not fresh or not writable, or another run writes to it.
        EnvironmentFault: The machine or the engine failed.
    """
    async with entered_venue(options, origin) as venue:
        if options.max_programs is not None and venue.backend is None:
            raise CapabilityError(
                f"{venue.name} starts no programs here, so their number is not bounded.",
                hint=Hint("leave_programs_out", "Leave max_programs out, or play programs on a backend."),
            )
        with ExitStack() as stack:
            marker = ROWS_NAME if rows is None else _EVENTS_NAME
            run = stack.enter_context(open_run(options, origin, marker=marker, keep=_KEEP))
            with suppress(OSError):
                run.layout.logs.rmdir()  # Each episode has its own logs
            if rows is None:
                rows = RowFile(stack.enter_context(AppendedFile(run.layout.workspace / ROWS_NAME)))
            rows.require_hooks(options.hooks)
            keyed = KeyedRun(options, venue, run, rows)
            venue.check(keyed.terms)
            run.publish_start(start, venue.name)
            try:
                if options.resume:
                    # It knows the plans of all evaluations, which a new run does not need
                    from .leftovers import remove_leftovers

                    await remove_leftovers(run, venue.sweep, rows.directories)
                yield keyed
            finally:
                keyed.finish()


class KeyedRun:
    """The episodes of one run, whatever venue plays them.

    Args:
        options: How to play them.
        venue: Where they are played, entered.
        run: The open run.
        rows: Its rows.

    Attributes:
        counts: The numbers of episodes so far.
        rows: As given.
        terms: What the venue knows of the run.
    """

    def __init__(self, options: RunOptions, venue: Venue, run: OpenRun, rows: Rows) -> None:
        self.options = options
        self.terms = VenueRun(
            run_id=run.bus.run_id,
            workspace=run.layout.workspace,
            publish=run.bus.publish,
            parallel=options.parallel,
            max_programs=options.max_programs,
            options=options.options,
            hooks=options.hooks,
            episode_listeners=options.episode_listeners,
            again=self._again,
        )
        self._repeated = Counter[tuple[str, str]]()
        self.venue = venue
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
        counts = self.counts
        complete = True

        def take(rows: Iterable[EpisodeRow]) -> bool:
            nonlocal complete
            enough = False
            taken: list[EpisodeRow] = []
            for row in rows:
                if self._may_repeat(row):
                    self.rows.append(row)
                    counts.lost += 1
                    continue
                enough = on_row is not None and bool(on_row(row))
                taken.append(row)
                counts.played += 1
                counts.completed += row.status == "completed"
                counts.faulted += not row.ok
                complete = complete and row.status == "completed"
                if enough:
                    break
            if taken:
                self.rows.append(*taken)
                last = taken[-1]
                self.run.bus.publish(
                    BatchProgressed(
                        index=last.index,
                        key=last.key,
                        done=counts.kept + counts.played,
                        total=total,
                        status=last.status,
                        ok=last.ok,
                        scores=last.scores,
                    )
                )
            return enough

        try:
            with unwrapped():
                await self.venue.play(self.terms, self._wanted(plans), take, fatal=fatal)
            counts.status = "completed" if complete else "failed"
        except CoworldError:
            counts.status = "failed"
            raise
        finally:
            counts.seconds = self.run.seconds()

    def _wanted(self, plans: Iterable[tuple[str, EpisodePlan]]) -> Iterator[Wanted]:
        """The episodes that have no row yet."""
        taken: set[str] = set()
        for index, (key, plan) in enumerate(plans, 1):
            if key in taken:
                raise UsageError(f"The key {key!r} occurs twice among the plans.", code="key_repeated")
            taken.add(key)
            if key in self.rows.seen:
                self.rows.check(key, plan)
            earlier = self.rows.lost.get(key, 0)
            if key in self.rows.seen and not earlier:
                self.counts.kept += 1
            else:
                # The run's workspace has its labels, which may change; those that it began with are in the records
                yield Wanted(index=index, key=key, plan=plan.tagged(self.options.labels), earlier=earlier)

    def _may_repeat(self, row: EpisodeRow) -> bool:
        """Whether the attempt with this row is followed by another one of this run."""
        allowed = self.options.retry.get(row.party or "", 0)
        return self._repeated.get((row.key, row.party or ""), 0) < allowed

    def _again(self, episode: Wanted, row: EpisodeRow) -> Wanted | None:
        """The next attempt at an episode, if its row allows one."""
        if not self._may_repeat(row):
            return None
        self._repeated[row.key, row.party or ""] += 1
        self.run.bus.publish(Notice(level="warning", message=f"{row.key} was lost and is played again: {row.message}"))
        return replace(episode, earlier=episode.earlier + 1)
