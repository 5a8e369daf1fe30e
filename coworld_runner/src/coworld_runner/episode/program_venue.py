"""Plays the episodes of a run as programs on a backend."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from itertools import count

import anyio
import anyio.to_thread

from coworld_core.episode.events import Notice
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.record import EpisodeRow, read_record
from coworld_core.errors import BackendUnavailable, CoworldError, EnvironmentFault, WorkspaceError
from coworld_core.ids import new_run_id

from ..backend import Backend
from ..package.newest_players import with_newest_players
from ..package.plan import EpisodePlan
from ..runs._open_files import Budget, FileBudget
from ..runs.reaper import sweep_run
from .episode_options import EpisodeOptions
from .episode_rows import planned_digest, row_of_error, row_of_record
from .parallelism import Parallelism
from .plan_hooks import apply_hooks
from .single import run_episode
from .venue import Take, Venue, VenueRun, Wanted, play_attempts

__all__ = ["ProgramVenue"]

_FILES_OF_UNIT = 9
"""Open files that a unit needs: its logs, its control, its ports, the requests to it (up to 5 were seen), and the
statistics of four threads."""


_BYTES_OF_PROGRAM = 48 << 20
"""Memory that a small program in Python needs."""


class ProgramVenue(Venue):
    """Plays episodes as programs.

    Args:
        backend: The backend, entered.
        new_id: Makes the id of an episode.
    """

    def __init__(self, backend: Backend, *, new_id: Callable[[], str] = new_run_id) -> None:
        self.name = backend.name
        self._new_id = new_id
        self.backend = self._backend = backend

    async def sweep(self, run_id: str) -> None:
        """Remove the units of an interrupted episode."""
        await sweep_run(self._backend, run_id)

    async def play(
        self, run: VenueRun, wanted: Iterator[Wanted], take: Take, *, fatal: tuple[type[CoworldError], ...] = ()
    ) -> None:
        """Play episodes, up to `parallel` at a time; see `Venue.play`."""
        width = Parallelism(run.parallel or 1, remote=self._backend.capabilities.remote)
        room, programs = FileBudget(), Budget(run.max_programs or self._most_programs())
        narrow = False

        async def one(number: int, episode: Wanted) -> None:
            row = await play_attempts(run, episode, take, lambda attempt: self._played(run, attempt, take, fatal))
            # Not in a `finally`: after an error no further episode may begin
            room.give_back(_files(episode.plan))
            programs.give_back(_units(episode.plan))
            width.give_back(number, row)

        async with anyio.create_task_group() as group:
            for number in count(1):
                # The next plan may depend on the episodes that have ended by then
                await width.take(number)
                episode = next(wanted, None)
                if episode is None:
                    break
                files = _files(episode.plan)
                if not room.has(files) and not narrow:
                    narrow = True
                    run.publish(
                        Notice(
                            message=f"Fewer than {width.now} episodes at a time: this process may have no more "
                            f"than {room.limit} files open (ulimit -Hn)."
                        )
                    )
                await room.take(files)
                await programs.take(_units(episode.plan))
                group.start_soon(one, number, episode)

    def _most_programs(self) -> int:
        """How many programs this machine has memory for; those of another machine wait there."""
        if self._backend.capabilities.remote:
            return sys.maxsize
        import psutil

        return max(2, psutil.virtual_memory().available // _BYTES_OF_PROGRAM)

    async def _played(
        self, run: VenueRun, episode: Wanted, take: Take, fatal: tuple[type[CoworldError], ...]
    ) -> EpisodeRow:
        """Play an episode and return its row; one that is interrupted when its game was over is not played again."""
        key, plan = episode.key, episode.plan
        directory = run.workspace / episode.directory
        options, hooks = run.options, run.hooks
        planned = planned_digest(plan).hex() if hooks else ""
        readers = run.episode_listeners
        begun, run_id = time.monotonic(), self._new_id()
        try:
            if any(seat.follows for seat in plan.seats):
                plan = await anyio.to_thread.run_sync(with_newest_players, plan)
            if hooks:
                limit = (options or EpisodeOptions()).hook_timeout_seconds
                plan = await apply_hooks(plan, hooks, timeout=limit, same_players=run.same_players)
            record = await run_episode(
                plan,
                backend=self._backend,
                workspace=directory,
                options=options,
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
                    episode,
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
                take((row_of_record(episode, directory, plan, record, planned=planned),))
            raise
        return row_of_record(episode, directory, plan, record, planned=planned)


def _files(plan: EpisodePlan) -> int:
    return _FILES_OF_UNIT * (1 + _units(plan))


def _units(plan: EpisodePlan) -> int:
    return 1 + len(plan.seats)
