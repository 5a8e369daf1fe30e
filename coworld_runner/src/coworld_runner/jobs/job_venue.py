"""Plays the episodes of a run on a cluster: pods take them from a store in chunks, and leave rows and evidence there.

This side writes chunks and reads rows. What it costs does not depend on how many pods play, and what is under way goes
on without it; started again with the same store, it takes what was played meanwhile, and has only the rest played.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import islice
from typing import Self

import anyio
import anyio.to_thread

from coworld_core.episode.events import Notice
from coworld_core.episode.record import EpisodeRow, SlotRow
from coworld_core.errors import CoworldError, EnvironmentFault, UsageError
from coworld_core.evaluation.evaluation_files import PLAN_NAME, PLAYERS_NAME

from ..backends.registry import ClusterOptions
from ..episode.venue import Take, Venue, VenueRun, Wanted
from ..evaluation.worker_rows import note_players, planned_slots
from ..evaluation.worker_venue import refused
from ..kit.rollout.match_process import PLAY_PROGRAMS
from ..package.own_players.own_player import OwnPlayer
from ..package.plan import EpisodePlan, Seat
from ..package.player_names import SeatPlayer, read_players
from ..package.resolver import Package
from .chunk_kinds import ChunkKind, ImageChunks, KitChunks
from .chunk_player import with_digests
from .courier import ATTEMPTS, attempts_of
from .driver_seat import DriverSeat, ended_elsewhere
from .job_files import (
    CLOSED,
    PACKAGE,
    RUN,
    STOPPED,
    ChunkProblem,
    ChunkWriter,
    JobRun,
    PlannedChunk,
    PlannedEpisode,
    PlayersSent,
    SentFiles,
    chunk_number,
    pack_player,
    plain_options,
    player_files,
    read_object,
    read_run,
)
from .job_pods import JobPods
from .job_store import JobStore
from .pulled_run import bring_evidence, read_chunk_rows
from .shared_folder import Signs

__all__ = ["Detached", "JobVenue"]

_LOOK_FIRST, _LOOK_LAST = 0.2, 2.0
"""Seconds between two looks at the store: few after something has happened, more as nothing does."""
_PODS_SECONDS = 15.0
"""Seconds between two looks at the pods."""


class Detached(Exception):
    """A run goes on without this process: measuring has begun on the cluster, and has no report yet.

    Attributes:
        run_id: The label of the run, by which its objects are found on the cluster.
        store: Where it is, for `attend_run`.
        cluster: The cluster.
    """

    def __init__(self, run_id: str, store: str, cluster: ClusterOptions) -> None:
        super().__init__(f"The run {run_id} at {store} goes on on the cluster.")
        self.run_id = run_id
        self.store = store
        self.cluster = cluster


class JobVenue(Venue):
    """Has episodes played by pods of a cluster, or by whoever runs `python -m coworld_runner.jobs play STORE`.

    Pods play games of the kit in their own processes, many episodes one after the other. Where the game is an image,
    each episode has a pod of its own, with game and players as its containers.

    Args:
        package: The game.
        store: The place of this run: a directory, or `s3://BUCKET/PREFIX` and the like; new, or of the same run.
        pods: What plays; None: whoever runs a worker for this store.
        at_once: How many chunks are played at a time.
        detach: Have the run driven on the cluster, too: the players that are measured, and others. Measuring ends with
            `Detached` then, and `attend_run` follows it.
        lease: Seconds without a sign of life after which a pod, or another driver, is taken for dead.
        programs: Whether game and players are programs of images; None: unless the game is one of the kit, with files.
        isolated: Whether game and players, as programs of images, have pods of their own, kept apart.

    Attributes:
        store: The store.
        under_way: Whether something was sent, here or in a cell, so that pods may go on with it.
    """

    name = "jobs"
    hurried = 0.1

    def __init__(
        self,
        package: Package,
        store: str | os.PathLike[str],
        *,
        pods: JobPods | None = None,
        at_once: int | None = None,
        detach: Sequence[SeatPlayer] = (),
        lease: float = 60.0,
        programs: bool | None = None,
        isolated: bool = False,
    ) -> None:
        self._package = package
        if programs is None:
            programs = isolated or bool(refused(package, None))
        self._isolated = isolated
        self._kind: ChunkKind = ImageChunks(package, isolated=isolated) if programs else KitChunks(package)
        self.store = JobStore(store)
        self._pods = pods
        self._at_once = at_once or (pods.count if pods is not None else 1)
        self._lease = lease
        self._stack = AsyncExitStack()
        self._detach = detach
        self._begun = False
        self._has_cells = False
        self.under_way = False
        self._drove = False
        self._sent = 0
        self._chunk_of: dict[tuple[str, int], int] = {}
        """The chunk that an attempt at an episode is in."""
        self._keys: dict[int, frozenset[str]] = {}
        """The episodes of each chunk that is under way."""
        self._rows: dict[int, dict[str, EpisodeRow]] = {}
        """The rows of chunks that were played, as far as nobody has taken them yet."""
        self._attempt: dict[int, int] = {}
        """Which attempt at a chunk counts."""
        self._players: set[str] = set()
        self._lineups: dict[int, tuple[tuple[Seat, ...], tuple[SlotRow, ...]]] = {}
        """Who sits where, by the identity of the seats."""
        self._signs = Signs(lease)
        self._looked = 0.0
        self._warned = False

    @property
    def run_id(self) -> str:
        """The label of the run, of its Job and its pods; empty until it has begun."""
        return self._run.run_id if self._begun else ""

    def check(self, run: VenueRun) -> None:
        """Refuse what pods cannot honour.

        Raises:
            CapabilityError: There are hooks, or options that such pods do not have.
        """
        self._kind.check(run)

    def check_players(self, seats: Iterable[Seat]) -> None:
        """Refuse players that cannot play in a pod."""
        self._kind.require_players(seats)

    @asynccontextmanager
    async def cell(self, name: str) -> AsyncGenerator[Venue]:
        """Open the venue of one of several measurements, whose store is right below this one.

        Raises:
            UsageError: The store is that of a single run, or this is to be detached: what comes next depends on what
                was measured.
            EnvironmentFault: All of them were ended from elsewhere.
        """
        if self._detach:
            raise UsageError(
                "Several measurements in a row cannot be detached: what comes next depends on what was measured.",
                code="not_detachable",
                hint="Detach each by itself, or leave this call running where it may.",
            )
        await self._begin_cells()
        if await self.store.get(CLOSED) == STOPPED:
            raise ended_elsewhere(self.store)
        pods = replace(self._pods) if self._pods is not None else None
        async with JobVenue(
            self._package,
            self.store.below(name).url,
            pods=pods,
            at_once=self._at_once,
            lease=self._lease,
            programs=self._kind.programs,
            isolated=self._isolated,
        ) as venue:
            try:
                yield venue
            finally:
                self.under_way = venue.under_way

    async def keep(self, name: str, data: bytes) -> None:
        """Keep a document in the store, beside the cells."""
        await self._begin_cells()
        await self.store.put(name, data)

    async def _begin_cells(self) -> None:
        """See that the store is not that of a single run, and that it goes on if it was ended before."""
        if not self._has_cells:
            if RUN in (await self.store.top())[0]:
                raise _another_run(self.store)
            await self.store.delete(CLOSED)
            self._has_cells = True

    async def __aenter__(self) -> Self:
        """Make room for what is checked here; pods start with the first episode."""
        await self._stack.enter_async_context(self._kind)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        """End the pods, unless the run was interrupted or somebody else drives it: then it goes on."""
        goes_on = kind is not None and issubclass(kind, (anyio.get_cancelled_exc_class(), KeyboardInterrupt, Detached))
        with anyio.CancelScope(shield=True), anyio.move_on_after(self._lease):
            if self._drove and kind is None:
                await self.store.create(CLOSED, b"")
            if self._pods is not None:
                await self._pods.close(remove=self._drove and not goes_on)
        await self._stack.aclose()

    async def play(
        self, run: VenueRun, wanted: Iterator[Wanted], take: Take, *, fatal: tuple[type[CoworldError], ...] = ()
    ) -> None:
        """Have episodes played; see `Venue.play`. Rows are taken in the order of the plans.

        If another command has the same run played already, its rows are taken, too.

        Raises:
            EnvironmentFault: The store or the cluster cannot be reached, or pods die again and again.
            UsageError: A player cannot play there, or the store is another run's.
            RecordError: Somebody else writes to the store.
            Detached: The run goes on without this process.
        """
        del fatal
        await self._begin(run)
        if self._detach:
            await self._hand_on()
        # Whoever has no pods can have others play, but cannot make a pod for each episode
        able = self._pods is not None or not self._kind.programs
        seat = DriverSeat(self.store, self._lease, run.publish, able=able)
        if await seat.look():
            await self._begin_driving()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(seat.keep, self._begin_driving)
                await self._drive(run, seat, wanted, take)
                tasks.cancel_scope.cancel()
        finally:
            self._drove = seat.held
            with anyio.CancelScope(shield=True), anyio.move_on_after(self._lease):
                await seat.leave()

    async def _begin_driving(self) -> None:
        """Take over what a driver does, knowing all that earlier ones did."""
        await self._note_chunks()
        await self.store.delete(CLOSED)
        if self._pods is not None:
            await self._pods.start(self._run.run_id, self.store, programs=self._kind.programs)

    async def _hand_on(self) -> None:
        """Have the run driven on the cluster."""
        if self._pods is None:
            raise UsageError("There are no pods that could drive a run.", code="no_pods", hint="Pass pods=JobPods(…).")
        found: dict[str, SentFiles] = {}
        for player in read_players(self._detach, self._package):
            if (own := player.own) is not None:
                found[own.reference] = await self._send_player(own)
        await self.store.put(PLAYERS_NAME, PlayersSent(players=found).to_document())
        # Pods would end at once
        await self.store.delete(CLOSED)
        await self._pods.start(self._run.run_id, self.store, programs=self._kind.programs)
        await self._pods.drive(self._run.run_id, self.store)
        raise Detached(self._run.run_id, self.store.url, self._pods.cluster)

    async def _send_player(self, own: OwnPlayer) -> SentFiles:
        files = player_files(own)
        if files.archive and files.archive not in self._players:
            await self.store.create(files.archive, await anyio.to_thread.run_sync(pack_player, own))
            self._players.add(files.archive)
        return files

    async def _drive(self, run: VenueRun, seat: DriverSeat, wanted: Iterator[Wanted], take: Take) -> None:
        waiting, unsent = deque[Wanted](), deque[Wanted]()
        pause, more = _LOOK_FIRST, True
        while True:
            if not seat.held:
                # Whoever drives has episodes sent; we are ahead by one
                more = more and self._take_wanted(wanted, waiting, unsent, 1)
            while seat.held and len(self._keys) < self._kind.ahead * self._at_once:
                more = more and self._take_wanted(wanted, waiting, unsent, self._kind.size)
                if not unsent:
                    break
                await self._send(run, unsent)
            if await self._take_ready(run, waiting, unsent, take):
                return
            if not waiting and not more:
                return
            if await self._look(run, drives=seat.held):
                pause = _LOOK_FIRST
            else:
                await anyio.sleep(pause)
                pause = min(1.5 * pause, _LOOK_LAST)

    async def _take_ready(self, run: VenueRun, waiting: deque[Wanted], unsent: deque[Wanted], take: Take) -> bool:
        """Have rows taken as far as they are here, in the order of the plans; returns whether that is enough."""
        ready: list[EpisodeRow] = []
        while waiting and (number := self._chunk_of.get(_attempt_of(waiting[0]), 0)) in self._rows:
            episode = waiting.popleft()
            row = self._row(run, episode, number)
            if row.workspace:
                # What follows may not count, and then nothing is brought
                if ready and take(ready):
                    return True
                ready = []
                prefix = f"episodes/{number:06}.{self._attempt[number]}/{row.workspace}"
                await bring_evidence(self.store, prefix, run.workspace / row.workspace)
            ready.append(row)
            if (again := run.again(episode, row)) is not None:
                # It was lost, and its next attempt comes before all others
                waiting.appendleft(again)
                unsent.appendleft(again)
        return bool(ready and take(ready))

    # --- the store

    async def _begin(self, run: VenueRun) -> None:
        """Put down what all episodes have in common, or find it as it is; pods start."""
        if self._begun:
            return
        packed = await anyio.to_thread.run_sync(self._kind.pack)
        mine = JobRun(
            run_id=run.run_id,
            coworld=self._package.manifest.game.name,
            version=self._package.manifest.game.version or "",
            source=self._package.source,
            manifest=packed.manifest,
            package_sha256=packed.sha256,
            environment=dict(self._package.environment),
            programs=self._kind.programs,
            isolated=self._isolated,
            options=plain_options(run.options),
            measured=run.measured,
            keeps_results=run.keeps_results,
            lease_seconds=self._lease,
        )
        there = await read_run(self.store)
        if there is None:
            await self.store.create(PACKAGE, packed.archive)
            await self.store.create(RUN, mine.to_document())
            there = await read_object(self.store, RUN, JobRun, what="run") or mine
        may_differ = ("run_id", "coworld", "version", "source", "lease_seconds")
        if there != mine.model_copy(update={name: getattr(there, name) for name in may_differ}):
            raise _another_run(self.store)
        self._run = there
        plan = run.workspace / PLAN_NAME
        if await anyio.Path(plan).is_file():
            await self.store.put(PLAN_NAME, await anyio.Path(plan).read_bytes())
        await self._note_chunks()
        self._begun = self.under_way = True

    async def _note_chunks(self) -> None:
        """Note the chunks that others have sent since."""
        for one in await self.store.list("chunks", after=f"chunks/{self._sent:06}~"):
            chunk = await read_object(self.store, one.name, PlannedChunk, what="chunk")
            if chunk is not None and chunk.number == chunk_number(one.name):
                self._note(chunk)

    def _note(self, chunk: PlannedChunk) -> None:
        self._chunk_of |= {_attempt_of(one): chunk.number for one in chunk.episodes}
        self._keys[chunk.number] = frozenset(one.key for one in chunk.episodes)
        self._sent = max(self._sent, chunk.number)

    def _take_wanted(self, wanted: Iterator[Wanted], waiting: deque[Wanted], unsent: deque[Wanted], size: int) -> bool:
        """Take episodes until so many of them are in no chunk; returns whether there may be more."""
        known = [episode for episode in unsent if _attempt_of(episode) in self._chunk_of]
        for episode in known:
            unsent.remove(episode)
        while len(unsent) < size:
            episode = next(wanted, None)
            if episode is None:
                return False
            waiting.append(episode)
            if (number := self._chunk_of.get(_attempt_of(episode))) is None:
                unsent.append(episode)
            else:
                self._kind.know(number, episode)
        return True

    async def _send(self, run: VenueRun, unsent: deque[Wanted]) -> None:
        """Send a chunk with these episodes; those that somebody else has sent meanwhile stay unsent."""
        writer = ChunkWriter(self._sent + 1)
        plans: dict[int, EpisodePlan] = {}
        sent = list(islice(unsent, self._kind.size))
        for episode in sent:
            writer.add(episode)
            plans[id(episode.plan.seats)] = episode.plan
        for plan in plans.values():
            self._kind.require(plan)
        note_players(run.workspace, self._run.source, plans.values())
        for own in writer.players.values():
            await self._send_player(own)
        chunk = writer.chunk()
        name, data = f"chunks/{chunk.number:06}.json", chunk.to_line()
        if await self.store.create(name, data) or await self.store.get(name) == data:
            self._note(chunk)
            for _ in sent:
                unsent.popleft()
            await self._kind.send(self._pods, self.store, chunk.number, sent)
        else:
            # Somebody else drives, and we have not heard of it yet
            await self._note_chunks()

    async def _look(self, run: VenueRun, *, drives: bool) -> bool:
        """See what has been played since; returns whether there was anything.

        Args:
            run: The run.
            drives: Whether we drive it; otherwise, somebody else sends chunks.

        Raises:
            EnvironmentFault: No pod can play, or pods die again and again.
            UsageError: The pods say why they cannot play a chunk.
        """
        found = False
        if not drives:
            await self._note_chunks()
        if not self._keys:
            return False
        first = min(self._keys)
        for one in await self.store.list("rows", after=f"rows/{first - 1:06}~"):
            if (number := chunk_number(one.name)) in self._keys:
                self._attempt[number], rows = await read_chunk_rows(self.store, number)
                if frozenset(row.key for row in rows) != self._keys[number] or len(rows) != len(self._keys[number]):
                    raise self.store.wrong(one.name, "it does not have one row of each episode of its chunk")
                self._rows[number] = {row.key: row for row in rows}
                await self._kind.settle(self._pods if drives else None, number, rows)
                del self._keys[number]
                found = True
        if found:
            return True
        for one in await self.store.list("problems"):
            problem = await read_object(self.store, one.name, ChunkProblem, what="problem")
            if problem is not None and chunk_number(one.name) in self._keys:
                raise UsageError(problem.message, code="not_portable", hint=problem.hint or PLAY_PROGRAMS)
        if drives and anyio.current_time() - self._looked > min(_PODS_SECONDS, self._lease):
            self._looked = anyio.current_time()
            await self._look_at_pods(run, f"{first - 1:06}~")
        return False

    async def _look_at_pods(self, run: VenueRun, after: str) -> None:
        """See whether anybody plays what is under way."""
        trouble = ""
        if self._pods is not None:
            await self._kind.look(self._pods, self.store, self._keys.keys())
            trouble = await self._pods.trouble(run.publish, played=bool(self._attempt))
        claims = await attempts_of(self.store, after=after)
        for number in self._keys.keys() & claims.keys():
            attempt, tag = claims[number]
            if attempt >= ATTEMPTS and self._signs.is_gone(f"{number}.{attempt}", tag):
                # Whoever goes on begins it anew
                for each in range(1, attempt + 1):
                    await self.store.delete(f"claims/{number:06}.{each}")
                raise EnvironmentFault(
                    f"The pods that played chunk {number} died {attempt} times. {trouble}".strip(),
                    code="pods_died",
                    hint="Look at their events and their memory. The same command goes on.",
                )
        idle = self._pods is None and self._keys.keys().isdisjoint(claims)
        if idle and not self._warned and self._signs.is_gone("anybody", str(self._sent)):
            self._warned = True
            message = f"Nobody plays: no pod has taken an episode from {self.store} for {self._lease:g} s."
            run.publish(Notice(level="warning", message=message, hint="Start whatever plays, or begin the run anew."))

    def _row(self, run: VenueRun, episode: Wanted, number: int) -> EpisodeRow:
        """The row of an episode, with what this side knows of it."""
        row = self._rows[number].pop(episode.key)
        plan = episode.plan
        seats, slots = self._lineups.get(id(plan.seats), (None, ()))
        if seats is None:
            # Kept with the seats, so that their identity stays their own
            slots = planned_slots(plan)
            self._lineups[id(plan.seats)] = (plan.seats, slots)
        if (row.seed, [slot.image for slot in row.slots]) != (plan.seed, [slot.image for slot in slots]):
            raise self.store.wrong(f"rows/{number:06}.jsonl", f"its {episode.key} is another episode")
        if not self._rows[number]:
            del self._rows[number]
        known = {
            "index": episode.index,
            "run_id": row.run_id if self._kind.programs else run.run_id,
            "earlier": episode.earlier,
            "variant": plan.variant,
            "config_changes": dict(plan.config_changes),
            "episode_tags": dict(plan.episode_tags),
            "slots": with_digests(slots, row.slots),
            "workspace": episode.directory if row.workspace else "",
        }
        return row.model_copy(update=known)


def _another_run(store: JobStore) -> UsageError:
    return UsageError(
        f"{store} has another run, or the package has changed since.",
        code="store_of_another_run",
        hint="Give this one a place of its own.",
    )


def _attempt_of(episode: Wanted | PlannedEpisode) -> tuple[str, int]:
    return episode.key, episode.earlier
