"""The worker: takes episodes and roles from the queue, runs them on a backend, and stores how they ended.

A worker may share a process with the server or run by itself, on this machine or on another that reaches the same
database, artifacts and data directory. It may be killed at any moment: its leases expire, another worker returns its
episodes to the queue, and leftovers of its runs on this machine are removed by label.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus
from sqlalchemy.exc import SQLAlchemyError

from coworld_core.episode import EpisodeLayout, EpisodeRecord, judge, judge_error
from coworld_core.errors import BackendUnavailable, CoworldError, unwrapped
from coworld_core.retries import Backoff, Tries
from coworld_runner.backend import Backend
from coworld_runner.episode import EpisodeOptions, PlayLinks, run_episode
from coworld_runner.roles import RoleOptions
from coworld_runner.runs import Listener
from coworld_runner.telemetry import below

from ..services import Services
from ..supervisor import Supervisor
from .admission import Admission
from .disk_space import DiskSpace, is_full
from .leftovers import remove_leftovers
from .outcome import POLICY, judge_inaction, outcome_of, store_outcome
from .plan import Job, load_job
from .queue import MAX_ATTEMPTS, Claim, Outcome, Queue
from .role_orders import RoleEnd
from .role_worker import end_of, run_claimed_role

__all__ = ["Worker", "WorkerOptions"]

_log = logging.getLogger("observatory.work.worker")
_supervisor = Supervisor(_log)
_RUN_ID = re.compile(r"[0-9a-f]{16}")
"""A name that `new_run_id` gives."""


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """How a worker works. Times are seconds."""

    parallel: int = 1
    """Episodes and roles at a time."""
    lease: float = 30.0
    """How long a claim lasts without renewal, and so how long the work of a killed worker waits."""
    idle: float = 0.5
    """How long to wait before looking into an empty queue again."""
    grace: float = 10.0
    """How long running episodes may continue once the worker is told to stop; then they return to the queue."""
    retreat: float = 5.0
    """How long to wait after a backend could not be reached, or a disk was full."""
    spare: int = 256 * 1024 * 1024
    """The number of bytes that must be free on the disk before an episode starts."""
    episode: EpisodeOptions = field(default_factory=lambda: EpisodeOptions(on_player_failure="continue"))
    role: RoleOptions = field(default_factory=RoleOptions)
    """How the programs of roles run: without network, with limits and a deadline."""


class _TryAgain(Exception):
    """The machine failed, not the game or a player: another attempt may succeed."""

    def __init__(self, error: CoworldError | Exception, *, counts: bool, pause: float = 0.0) -> None:
        super().__init__(str(error))
        self.counts = counts
        self.pause = pause


class Worker:
    """Plays episodes from the queue.

    Args:
        services: The Observatory's stores.
        backend: An entered backend.
        admission: Decides which programs may run there.
        owner: A name that no other living worker has. A worker that starts with the name of a dead one takes over its
            episodes at once.
        options: Settings.
        listeners: Readers of the events of its episodes.
    """

    def __init__(
        self,
        services: Services,
        backend: Backend,
        admission: Admission,
        *,
        owner: str,
        options: WorkerOptions | None = None,
        listeners: tuple[Listener, ...] = (),
    ) -> None:
        self._listeners = listeners
        self.options = options or WorkerOptions()
        self._services = services
        self._backend = backend
        self._admission = admission
        self._queue = Queue(
            services.database, owner=owner, lease=self.options.lease, league_share=services.settings.league_share
        )
        self._workspaces = services.settings.data / "work"
        self._held: dict[str, anyio.CancelScope] = {}
        self._stopping = anyio.Event()
        self._stopped = anyio.Event()
        self.finished = 0
        """The number of episodes whose outcome this worker has stored."""
        self.disk = DiskSpace(self._workspaces, spare=self.options.spare)
        """Whether there is room to play."""

    @property
    def busy(self) -> int:
        """The number of episodes that are being played."""
        return len(self._held)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Worker]:
        """Work while the block lasts. On exit, finish within the grace period, and return the rest to the queue."""
        async with anyio.create_task_group() as group:
            await group.start(self._work)
            try:
                yield self
            finally:
                self._stopping.set()
                with anyio.CancelScope(shield=True):
                    await self._stopped.wait()

    async def run(self, stop: anyio.Event) -> None:
        """Work until told to stop."""
        async with self.running():
            await stop.wait()

    # ------------------------------------------------------------------ working

    async def _work(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        try:
            # Shielded: a cancelled worker must still return its episodes to the queue.
            with anyio.CancelScope(shield=True):
                self._workspaces.mkdir(mode=0o700, parents=True, exist_ok=True)
                with _supervisor.trying("The leftovers of dead workers cannot be found"):
                    await self._take_back(owned_by=self._queue.owner)
                    await self._tidy()
                task_status.started()
                async with anyio.create_task_group() as duties:
                    duties.start_soon(self._renew)
                    duties.start_soon(self._look_for_dead)
                    async with anyio.create_task_group() as lanes:
                        for _ in range(self.options.parallel):
                            lanes.start_soon(self._lane)
                        await self._stopping.wait()
                        lanes.start_soon(self._end_waits, lanes)
                        while self._held:  # noqa: ASYNC110 - lanes come and go; nothing announces the last
                            await anyio.sleep(0.02)
                        lanes.cancel_scope.cancel()
                    duties.cancel_scope.cancel()
        finally:
            self._stopped.set()

    async def _end_waits(self, lanes: TaskGroup) -> None:
        await anyio.sleep(self.options.grace)
        lanes.cancel_scope.cancel()

    async def _lane(self) -> None:
        """Play one episode after another."""
        while not self._stopping.is_set():
            claim = None
            if not await self.disk.has_room():
                with anyio.move_on_after(self.options.retreat):
                    await self._stopping.wait()
                continue
            with _supervisor.trying("The queue cannot be read"):
                # Shielded: a claim that has been made must be known here.
                with anyio.CancelScope(shield=True):
                    claim = await self._queue.claim()
                    if claim is not None:
                        self._held[claim.token] = anyio.CancelScope()
            if claim is None:
                with anyio.move_on_after(self.options.idle):
                    await self._stopping.wait()
                continue
            pause = 1.0
            try:
                with _supervisor.trying("The outcome of an episode cannot be stored"):
                    pause = await self._play(claim)
            finally:
                self._held.pop(claim.token, None)
            if pause:
                with anyio.move_on_after(pause):
                    await self._stopping.wait()

    async def _renew(self) -> None:
        """Renew the leases, and stop playing episodes whose lease is lost."""
        lost_after = anyio.current_time() + self.options.lease
        while True:
            await anyio.sleep(self.options.lease / 4)
            mine = set(self._held)
            begun = anyio.current_time()
            kept: set[str] | None = None
            with _supervisor.trying("The leases cannot be renewed"), anyio.move_on_after(self.options.lease / 2):
                kept = await self._queue.renew(mine)
            if kept is not None:
                lost_after = begun + self.options.lease
            elif anyio.current_time() >= lost_after:
                kept = set()
            for token in mine - kept if kept is not None else ():
                if scope := self._held.get(token):
                    _log.warning("The lease of an episode was lost, so its run is stopped.")
                    scope.cancel()

    async def _look_for_dead(self) -> None:
        """Return the episodes of dead workers to the queue."""
        while True:
            await anyio.sleep(self.options.lease / 3)
            with _supervisor.trying("Dead workers cannot be detected"):
                await self._take_back()

    async def _take_back(self, *, owned_by: str | None = None) -> None:
        for item in await self._queue.expire(owned_by=owned_by, held=set(self._held)):
            _log.warning("%s returns to the queue: its worker is dead.", item.what)
            await self._reap(item.run_id)
            await self._forget(item.prefix)

    async def _tidy(self) -> None:
        """Remove leftovers of runs that no row names any more: runs that died after losing their lease."""
        # List the directories before the runs, so that a run that starts in between is not touched.
        found = [path.name async for path in anyio.Path(self._workspaces).iterdir()]
        held = await self._queue.live_runs()
        for run_id in found:
            # Only what has the name of a run: the data directory may have been somebody's before
            if _RUN_ID.fullmatch(run_id) and run_id not in held:
                await self._reap(run_id)

    async def _reap(self, run_id: str) -> None:
        """Remove the leftovers of a dead run on this machine."""
        if await remove_leftovers(self._backend, run_id):
            await anyio.to_thread.run_sync(_remove, self._workspaces / run_id)

    # ------------------------------------------------------------------ one claim

    async def _play(self, claim: Claim) -> float:
        """Do what was claimed and store how it ended; returns how long to wait before the next claim."""
        scope = self._held[claim.token]
        written = False
        try:
            with scope:
                try:
                    outcome = await self._attempt(claim)
                except _TryAgain as trouble:
                    _log.warning("%s returns to the queue: %s", claim.what, trouble)
                    written = await self._queue.release(claim, counts=trouble.counts)
                    return trouble.pause
                with anyio.CancelScope(shield=True):
                    written = await self._finish(claim, outcome)
            if scope.cancelled_caught:
                written = True  # The worker that holds the lease now stores the outcome
        finally:
            with anyio.CancelScope(shield=True):
                if not written and not scope.cancel_called:
                    # Interrupted by an orderly stop: this does not count as an attempt.
                    with _supervisor.trying("An episode cannot be returned to the queue"):
                        await self._queue.release(claim, counts=False)
                await anyio.to_thread.run_sync(_remove, self._workspaces / claim.run_id)
        return 0.0

    async def _finish(self, claim: Claim, outcome: Outcome | RoleEnd) -> bool:
        """Store the outcome, retrying while the lease may last; remove the artifacts if the lease was lost."""
        tries = Tries(Backoff(), retry_timeout=self.options.lease * 4, clock=anyio.current_time)
        while True:
            try:
                done = await self._queue.finish(claim, outcome)
                break
            except SQLAlchemyError:
                pause = tries.again()
                if pause is None:
                    raise
                _log.warning("The outcome of %s cannot be stored yet.", claim.what, exc_info=True)
            await anyio.sleep(pause)
        if done:
            self.finished += 1
        else:
            _log.warning(
                "%s had been given to another worker before it ended, so its outcome is discarded.",
                claim.what,
            )
            await self._forget(claim.prefix)
        return True

    async def _attempt(self, claim: Claim) -> Outcome | RoleEnd:
        """Play the episode or run the role once.

        Raises:
            _TryAgain: The machine failed.
        """
        last = claim.attempt >= MAX_ATTEMPTS
        layout = EpisodeLayout(self._workspaces / claim.run_id)
        try:
            if claim.role_run_id is not None:
                return await self._attempt_role(claim, last=last)
            job = await load_job(self._services, claim.episode_id, self._admission)
            record = await self._run(claim, job)
            verdict = judge(record, POLICY)
            if verdict.party == "platform" and not await self.disk.has_room():
                raise _TryAgain(CoworldError(verdict.message), counts=False, pause=self.options.retreat)
            if verdict.party == "platform" and not last:
                raise _TryAgain(CoworldError(verdict.message), counts=True)
            if job.is_check:
                verdict = await anyio.to_thread.run_sync(judge_inaction, verdict, layout, len(job.seats))
            return await store_outcome(
                record,
                layout,
                verdict,
                job.seats,
                limits=job.limits,
                store=self._services.artifacts,
                prefix=claim.prefix,
            )
        except _TryAgain:
            raise
        except BackendUnavailable as error:
            raise _TryAgain(error, counts=False, pause=self.options.retreat) from error
        except SQLAlchemyError as error:
            raise _TryAgain(error, counts=False, pause=1.0) from error
        except Exception as error:
            if is_full(error) or not await self.disk.has_room():
                raise _TryAgain(error, counts=False, pause=self.options.retreat) from error
            verdict = judge_error(error)
            if not isinstance(error, CoworldError | OSError):
                _log.exception("%s failed because of an unexpected error in the worker.", claim.what)
                verdict = replace(verdict, message=f"Internal error in the worker: {type(error).__name__}.")
            if verdict.party == "platform" and not last:
                raise _TryAgain(error, counts=True, pause=1.0) from error
            if claim.role_run_id is not None:
                return end_of(verdict)
            # Where the machine is at fault, another may play it.
            seat = error.context.get("seat") if isinstance(error, CoworldError) else None
            return outcome_of(verdict, seat=seat if isinstance(seat, int) and verdict.party == "operator" else None)

    async def _attempt_role(self, claim: Claim, *, last: bool) -> RoleEnd:
        end, fault = await run_claimed_role(
            self._services,
            self._backend,
            self._admission,
            claim,
            self._workspaces / claim.run_id,
            options=self.options.role,
        )
        if fault is not None and fault.party == "platform":
            if not await self.disk.has_room():
                raise _TryAgain(CoworldError(fault.message), counts=False, pause=self.options.retreat)
            if not last:
                raise _TryAgain(CoworldError(fault.message), counts=True)
        return end

    async def _run(self, claim: Claim, job: Job) -> EpisodeRecord:
        record: EpisodeRecord | None = None
        with unwrapped():
            async with anyio.create_task_group() as group:

                def ready(links: PlayLinks) -> None:
                    group.start_soon(self._announce, claim, links.viewer)

                options = self.options.episode
                with below(claim.traceparent if self._services.runtime.traces is not None else None):
                    record = await run_episode(
                        job.plan.limit_connecting(options.connect_timeout_seconds),
                        backend=self._backend,
                        workspace=self._workspaces / claim.run_id,
                        options=replace(options, timeout_seconds=job.plan.episode_timeout(options.timeout_seconds)),
                        on_ready=ready,
                        run_id=claim.run_id,
                        listeners=self._listeners,
                    )
                group.cancel_scope.cancel()
        assert record is not None
        return record

    async def _announce(self, claim: Claim, viewer: str) -> None:
        with _supervisor.trying("The URL for watching an episode cannot be stored"):
            await self._queue.watchable(claim, viewer)

    async def _forget(self, prefix: str) -> None:
        with _supervisor.trying("Artifacts cannot be removed"):
            await self._services.artifacts.forget(prefix)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
