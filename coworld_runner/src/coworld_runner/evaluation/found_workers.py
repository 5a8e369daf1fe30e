"""Finds where measurements are played, unless that was said, and what several of them share.

Worker processes are kept from one to the next: their start costs more than many episodes. A venue in which each needs a
place of its own has one for each.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Hashable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from pathlib import Path

import anyio
import anyio.to_thread

from ..backend import to_nobody
from ..backends.process.child_environment import child_environment
from ..episode.episode_options import EpisodeOptions
from ..episode.run_options import BatchArguments, RunOptions
from ..episode.venue import VenueRun
from ..images.source_files import stamps
from ..package.plan import Seat
from ..package.resolver import Package
from .entrants import Entrants
from .worker_venue import WorkerVenue, refused

__all__ = ["check_cells", "find_workers", "keep_workers", "open_cell"]

_MOST_POOLS = 2
_MOST_PLAYERS = 64
"""Players that a pool has met before it is given up: it has a copy of the files of each."""


class _Keeper:
    """Pools that nobody uses at the moment, each with what it is for; the last used last."""

    def __init__(self) -> None:
        self._idle: list[tuple[Hashable, WorkerVenue]] = []

    def take(self, key: Hashable) -> WorkerVenue | None:
        """A pool for this, which is anybody's no more."""
        for number, (kept, pool) in enumerate(self._idle):
            if kept == key:
                del self._idle[number]
                pool.begin_anew()
                return pool
        return None

    async def give(self, key: Hashable, pool: WorkerVenue) -> None:
        """Keep a pool that has nothing more to play, unless it has grown too large."""
        if len(pool.programs) > _MOST_PLAYERS:
            await pool.__aexit__(None, None, None)
        else:
            self._idle.append((key, pool))
            await self.end(but=_MOST_POOLS)

    async def end(self, *, but: int = 0) -> None:
        """End pools, the last used last, but so many."""
        while len(self._idle) > but:
            await self._idle.pop(0)[1].__aexit__(None, None, None)


_keeper: ContextVar[_Keeper | None] = ContextVar("keeper", default=None)


@asynccontextmanager
async def keep_workers() -> AsyncGenerator[None]:
    """Keep worker processes from one measurement to the next, as long as this context is open.

    ::

        async with keep_workers():
            for bot in bots:
                print(await compare("examples/nim", bot, "counter"))

    What a measurement finds is the same. Processes are taken again where the game, its files and how it is run are the
    same; the files of players are loaded by their content. Within another such context, this one does nothing.
    """
    if _keeper.get() is not None:
        yield
        return
    keeper = _Keeper()
    token = _keeper.set(keeper)
    try:
        yield
    finally:
        _keeper.reset(token)
        with anyio.CancelScope(shield=True):
            await keeper.end()


def check_cells(players: Iterable[Seat], run: BatchArguments) -> None:
    """Check that several measurements can be played where that was said, before the first of them starts.

    Args:
        players: All players.
        run: How to play.

    Raises:
        CapabilityError: The venue cannot honour an option, or a hook.
        UsageError: A player cannot play there.
    """
    options = RunOptions.of(BatchArguments, run)
    if options.venue is not None:
        options.venue.check(
            VenueRun(
                run_id="",
                workspace=Path(),
                publish=to_nobody,
                parallel=options.parallel,
                options=options.options,
                hooks=options.hooks,
                episode_listeners=None,
            )
        )
        options.venue.check_players(players)


@asynccontextmanager
async def open_cell(run: BatchArguments, name: str) -> AsyncGenerator[BatchArguments]:
    """Open the place of one of several measurements; yields how to play it.

    Args:
        run: How all of them are played.
        name: Its name among them, a single part of a path.
    """
    venue = run.get("venue")
    if venue is None:
        yield run
        return
    async with venue.cell(name) as own:
        yield {**run, "venue": own}


@asynccontextmanager
async def find_workers(
    entrants: Entrants, options: RunOptions, *, others: bool, programs: bool = False
) -> AsyncGenerator[tuple[WorkerVenue | None, str]]:
    """Open worker processes for players, unless something else is asked for or they cannot play there.

    Args:
        entrants: The players.
        options: How to play: with the backend `auto`, with nothing installed, and without hooks.
        others: Whether the game's own players may sit among them.
        programs: Whether to start programs in any case.

    Yields:
        Where they can play, or None and the reason, which is empty if programs were asked for.
    """
    if programs or options.venue is not None or options.backend != "auto" or options.install:
        yield None, ""
        return
    reason = "hooks change their plans one by one" if options.hooks else refused(entrants.package, options.options)
    if reason:
        yield None, reason
        return
    workers = options.parallel if isinstance(options.parallel, int) else None
    async with _opened(entrants.package, options.options, workers) as found:
        seats = [entrants.seat(label) for label in entrants.rows()]
        reason = await found.reason_against([*seats, *(entrants.others if others else ())])
        yield (None, reason) if reason else (found, "")


@asynccontextmanager
async def _opened(package: Package, options: EpisodeOptions | None, workers: int | None) -> AsyncGenerator[WorkerVenue]:
    """Start worker processes, or take those that are kept for the same purpose; the arguments are a `WorkerPool`'s."""
    async with AsyncExitStack() as stack:
        pool, keeper, key = None, _keeper.get(), None
        if keeper is not None:
            key = await anyio.to_thread.run_sync(_purpose, package, options, workers)
            pool = keeper.take(key)
        pool = pool or await WorkerVenue(package, options=options, workers=workers).__aenter__()
        stack.push_async_exit(pool)
        yield pool
        if keeper is not None:
            # Nothing went wrong, so nothing is being played in it any more
            stack.pop_all()
            await keeper.give(key, pool)


def _purpose(package: Package, options: EpisodeOptions | None, workers: int | None) -> Hashable:
    """What a pool is for: with anything else, processes are started anew. Blocks."""
    environment = (package.environment, child_environment(Path()))
    return (
        package.manifest.model_dump_json(),
        tuple(tuple(sorted(one.items())) for one in environment),
        (options.on_player_failure, options.failure_grace_seconds) if options is not None else None,
        workers,
        stamps(*package.contexts.values()),
    )
