"""Plays many episodes of any plans: each has a key and gets one line in `episodes.jsonl` when it ends.

The file is append-only and written one whole line at a time, so a killed run can resume: episodes that have a line are
not played again, and interrupted episodes are cleaned up and played again.
"""

from __future__ import annotations

import abc
import hashlib
import re
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import anyio
import anyio.to_thread

from coworld_core.episode.events import BatchProgressed, Notice, RunFinished, RunStarted, read_events
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.outcome import EpisodeStatus, Fault
from coworld_core.episode.record import (
    ROWS_NAME,
    EpisodeRecord,
    EpisodeRow,
    PlayerFault,
    SlotRow,
    read_record,
    read_rows,
)
from coworld_core.episode.seat_behaviour import SeatBehaviour, read_behaviour
from coworld_core.episode.verdict import judge_error
from coworld_core.errors import BackendUnavailable, CoworldError, EnvironmentFault, UsageError, WorkspaceError
from coworld_core.hints import Hint
from coworld_core.ids import new_run_id
from coworld_core.text.phrases import listed

from ..backend import Backend
from ..errors import unwrapped
from ..package.plan import EpisodePlan
from ..runs._append_log import AppendedFile
from ..runs._locks import is_free
from ..runs._open_files import FileBudget
from ..runs.event_bus import Listener
from ..runs.reaper import sweep_run
from .parallelism import Parallel, Parallelism, require_parallel
from .run_start import OpenRun, open_run
from .single import EpisodeOptions, run_episode

__all__ = ["KeyedRun", "Rows", "RunCounts", "open_keyed_run", "run_many"]

EpisodeListeners = Callable[[str], tuple[Listener, ...]]
"""The readers of one episode's events, by its key."""

_KEEP = 1000
"""Number of events kept for readers that join late; all events of many episodes might not fit into memory."""
_EVENTS_NAME = EpisodeLayout(Path()).events.name
_FILES_OF_UNIT = 9
"""Open files that a unit needs: its logs, its control, its ports, the requests to it (up to 5 were seen), and the
statistics of four threads."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
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
    plans: Iterable[tuple[str, EpisodePlan]],
    *,
    backend: Backend,
    workspace: Path,
    parallel: Parallel = 1,
    options: EpisodeOptions | None = None,
    overwrite: bool = False,
    resume: bool = False,
    listeners: tuple[Listener, ...] = (),
    episode_listeners: EpisodeListeners | None = None,
    latest: bool = False,
    run_id: str | None = None,
) -> RunCounts:
    """Play episodes of any plans, up to `parallel` at a time.

    Each has its own directory below the workspace, and gets a row in `episodes.jsonl` (`read_rows`) once it is
    over. A failure of one episode (an unavailable image, an invalid config, an internal error) is recorded in its row;
    only an unreachable engine or a full disk ends the whole run. Plans are taken from the iterable as there is room for
    them.

    Args:
        plans: Keys and plans. A key identifies its episode for good: it must not occur twice.
        backend: An entered backend.
        workspace: The directory above the episodes' own; new or empty, unless an earlier run is resumed.
        parallel: Number of episodes at a time, at least 1, or `auto` for as many as this machine can take. Fewer run
            at a time if this process cannot open enough files, even after raising its limit.
        options: How to run each episode.
        overwrite: Whether what an earlier run has left in the workspace is removed first.
        resume: Whether to resume the run in the workspace: episodes that have a row are left alone, and the leftovers
            of others are removed.
        listeners: Readers of the run's own events (one for each episode that ended).
        episode_listeners: Readers of one episode's events.
        latest: Whether to point `latest` beside the workspace at it, once there is a replay.
        run_id: Label of the run's own events; a new one by default. Each episode has a label of its own.

    Returns:
        The numbers of episodes.

    Raises:
        UsageError: A count below 1, or a key that occurs twice or belongs to another plan.
        WorkspaceError: The workspace is not fresh or not writable, or another run writes to it.
        EnvironmentFault: The machine or the engine failed; episodes that ended before have their rows.
    """
    require_parallel(parallel)
    with open_keyed_run(
        workspace, run_id=run_id, listeners=listeners, overwrite=overwrite, resume=resume, latest=latest
    ) as many:
        many.run.bus.publish(RunStarted(what="batch", backend=backend.name, workspace=str(many.run.layout.workspace)))
        tally = RunCounts()
        try:
            await many.play(
                plans, tally, backend=backend, parallel=parallel, options=options, episode_listeners=episode_listeners
            )
        finally:
            ok = tally.status == "completed" and not tally.faulted
            many.run.bus.publish(RunFinished(status=tally.status, ok=ok, seconds=many.run.seconds()))
    return tally


def _files(plan: EpisodePlan) -> int:
    return _FILES_OF_UNIT * (2 + len(plan.seats))


@contextmanager
def open_keyed_run(
    workspace: Path,
    *,
    run_id: str | None,
    listeners: tuple[Listener, ...],
    overwrite: bool,
    resume: bool,
    latest: bool,
    rows: Rows | None = None,
) -> Generator[KeyedRun]:
    """Open a workspace for many episodes, and its rows; the arguments are those of `run_many`.

    The rows are in `episodes.jsonl` unless the caller passes its own `rows`.
    """
    rows = rows if rows is not None else _RowFile(workspace.expanduser().absolute() / ROWS_NAME)
    own = rows if isinstance(rows, _RowFile) else None
    with ExitStack() as stack:
        run = stack.enter_context(
            open_run(
                workspace,
                run_id=run_id,
                listeners=listeners,
                overwrite=overwrite,
                latest=latest,
                resume=(ROWS_NAME if own is not None else _EVENTS_NAME) if resume else "",
                keep=_KEEP,
            )
        )
        with suppress(OSError):
            run.layout.logs.rmdir()  # Each episode has its own logs
        if own is not None:
            stack.enter_context(own)
        yield KeyedRun(run, rows)


class KeyedRun:
    """The episodes of one run.

    Args:
        run: The open run.
        rows: Its rows.
    """

    def __init__(self, run: OpenRun, rows: Rows) -> None:
        self.run = run
        self._rows = rows

    async def play(
        self,
        plans: Iterable[tuple[str, EpisodePlan]],
        tally: RunCounts,
        *,
        backend: Backend,
        parallel: Parallel,
        options: EpisodeOptions | None,
        episode_listeners: EpisodeListeners | None,
        fatal: tuple[type[CoworldError], ...] = (),
        total: int | None = None,
        on_row: Callable[[EpisodeRow], None] | None = None,
    ) -> None:
        """Play the episodes that have no row yet.

        Args:
            plans: Keys and what to play.
            tally: Counts them.
            backend: An entered backend.
            parallel: Number of episodes at a time.
            options: How to run each episode.
            episode_listeners: Readers of one episode's events.
            fatal: Errors of one episode that every other episode would have too.
            total: How many there are, if known.
            on_row: Called with each new row before it is written; an exception from it ends the run.

        Raises:
            UsageError: See `run_many`.
            EnvironmentFault: The machine or the engine failed.
        """
        await self._clear_up(backend)
        width = Parallelism(parallel, remote=backend.capabilities.remote)
        room = FileBudget()
        narrow = False
        taken: set[str] = set()
        complete = True

        async def one(index: int, key: str, plan: EpisodePlan) -> None:
            nonlocal complete
            row = await self._played(index, key, plan, backend, options, episode_listeners, fatal)
            if on_row is not None:
                on_row(row)
            self._rows.append(row)
            tally.played += 1
            tally.completed += row.status == "completed"
            tally.faulted += not row.ok
            complete = complete and row.status == "completed"
            self.run.bus.publish(
                BatchProgressed(
                    index=index,
                    key=key,
                    done=tally.kept + tally.played,
                    total=total,
                    status=row.status,
                    ok=row.ok,
                    scores=row.scores,
                )
            )
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
                        if key in self._rows.seen:
                            self._rows.check(key, plan)
                            tally.kept += 1
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
            tally.status = "completed" if complete else "failed"
        except CoworldError:
            tally.status = "failed"
            raise
        finally:
            tally.seconds = self.run.seconds()

    async def _clear_up(self, backend: Backend) -> None:
        """Remove the leftovers of a killed runner for episodes that have no row."""
        # It knows the plans of all evaluations, which a batch does not need.
        from ..runs._workspace_contents import read_contents

        def warn(directory: Path, why: str, *, hint: str | None = None) -> None:
            message = f"Leftovers of {directory.name} from an earlier run may still exist: {why}"
            self.run.bus.publish(Notice(level="warning", message=message, hint=hint))

        async def clear(directory: Path) -> None:
            events = EpisodeLayout(directory).events
            try:
                left = await anyio.to_thread.run_sync(lambda: read_contents(directory, within=True))
            except OSError as error:
                warn(directory, f"{error.filename or directory}: {error.strerror}.")
                return
            if left.foreign or not is_free(events):
                # A user's, or a run's of its own
                if left.files:
                    warn(directory, f"{listed(left.foreign[:3]) or 'another run'} is in it, so nothing is removed.")
                return
            try:
                # An episode without events had not begun
                for event in read_events(directory)[:1] if events.exists() else ():
                    await sweep_run(backend, event.run_id)
            except CoworldError as error:
                warn(directory, error.message, hint=Hint("sweep", "sweep finds them."))
            try:
                await anyio.to_thread.run_sync(left.remove)
                await anyio.to_thread.run_sync(directory.rmdir)
            except OSError as error:
                warn(directory, f"{error.filename or directory}: {error.strerror}.")

        async with anyio.create_task_group() as group:
            for entry in sorted(self.run.layout.workspace.iterdir()):
                if entry.is_dir() and not entry.is_symlink() and entry.name not in self._rows.directories:
                    group.start_soon(clear, entry)

    async def _played(
        self,
        index: int,
        key: str,
        plan: EpisodePlan,
        backend: Backend,
        options: EpisodeOptions | None,
        episode_listeners: EpisodeListeners | None,
        fatal: tuple[type[CoworldError], ...],
    ) -> EpisodeRow:
        directory = self.run.layout.workspace / _directory(key)
        begun, run_id = time.monotonic(), new_run_id()
        try:
            record = await run_episode(
                plan,
                backend=backend,
                workspace=directory,
                options=options,
                listeners=episode_listeners(key) if episode_listeners else (),
                run_id=run_id,
            )
        except Exception as error:  # Any failure belongs to this episode
            full = isinstance(error, EnvironmentFault) and error.code == "disk_full"
            if full or isinstance(error, (BackendUnavailable, WorkspaceError, *fatal)):
                raise
            if EpisodeLayout(directory).record.exists():
                # The record says whose fault it was
                record = read_record(directory)
            else:
                verdict = judge_error(error)
                return EpisodeRow(
                    index=index,
                    key=key,
                    run_id=run_id,
                    workspace=directory.name,
                    variant=plan.variant,
                    seed=plan.seed,
                    status="failed",
                    ok=False,
                    slots=_seats(plan),
                    seconds=round(time.monotonic() - begun, 3),
                    error_type=verdict.error_type,
                    party=verdict.party,
                    message=verdict.message,
                )
        return _row(index, key, directory, plan, record)


def _row(index: int, key: str, directory: Path, plan: EpisodePlan, record: EpisodeRecord) -> EpisodeRow:
    fault, starvation = record.fault, record.starvation
    conduct = read_behaviour(EpisodeLayout(directory).game_events, len(plan.seats))
    return EpisodeRow(
        index=index,
        key=key,
        run_id=record.run_id,
        workspace=directory.name,
        variant=record.variant,
        seed=record.seed,
        status=record.status,
        ok=record.ok,
        slots=_seats(plan, record),
        scores=record.scores,
        seconds=record.seconds,
        phases=record.phases,
        starved=starvation.starved if starvation is not None else None,
        starved_by=starvation.starved_by if starvation is not None and starvation.starved else (),
        error_type=fault.error_type if fault is not None else None,
        party=fault.party if fault is not None else None,
        fault_slot=fault.slot if fault is not None else None,
        message=fault.message if fault is not None else None,
        player_faults=_player_faults(record, conduct),
        replay_sha256=next((file.sha256 for file in record.artifacts if file.path == EpisodeLayout.replay_name), ""),
        conduct=conduct,
    )


def _player_faults(record: EpisodeRecord, conduct: Sequence[SeatBehaviour]) -> tuple[PlayerFault, ...]:
    first: dict[int, Fault] = {}
    for fault in record.faults:
        if fault.party == "player" and fault.slot is not None:
            first.setdefault(fault.slot, fault)
    connected = {slot.slot: slot.connected for slot in record.slots}
    # A connection may be too short to be seen, but who has acted was there
    connected |= {slot: True for slot, seat in enumerate(conduct) if seat.acted}
    return tuple(PlayerFault.of(fault, slot=slot, connected=connected.get(slot)) for slot, fault in first.items())


def _seats(plan: EpisodePlan, record: EpisodeRecord | None = None) -> tuple[SlotRow, ...]:
    digests = [slot.image.digest for slot in record.slots] if record is not None else [""] * len(plan.seats)
    return tuple(
        SlotRow(
            name=seat.name,
            player_id=seat.player_id,
            image=seat.image,
            digest=digest,
        )
        for seat, digest in zip(plan.seats, digests, strict=True)
    )


def _directory(key: str) -> str:
    """Return the name of an episode's directory: its key, or a name derived from it if the key is not a valid name."""
    if _PLAIN.fullmatch(key):
        return key
    begin = re.sub(r"[^A-Za-z0-9._-]+", "-", key).strip("-.")[:60] or "episode"
    return f"{begin}-{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


class Rows(abc.ABC):
    """The rows of a run.

    Attributes:
        seen: A digest of the episode of each row, by key.
        directories: The directories of those episodes.
    """

    def __init__(self) -> None:
        self.seen: dict[str, bytes] = {}
        self.directories: set[str] = set()

    @abc.abstractmethod
    def append(self, row: EpisodeRow) -> None:
        """Write a row, whole or not at all, and `note` it."""

    def check(self, key: str, plan: EpisodePlan) -> None:
        """Check that a key's row belongs to this plan.

        Raises:
            UsageError: The row has other players, another seed or another variant.
        """
        if self.seen[key] != _what(plan.variant, plan.seed, _seats(plan)):
            raise UsageError(
                f"The episode {key!r} was played by other players, or with another seed or variant.",
                code="key_of_another_plan",
                hint="Resume with the plans of the interrupted run, or start a new one in another directory.",
            )

    def note(self, row: EpisodeRow) -> None:
        """Remember that this row exists."""
        self.seen[row.key] = _what(row.variant, row.seed, row.slots)
        self.directories.add(row.workspace)


class _RowFile(Rows):
    """The rows of a run in a file.

    Args:
        path: The file; it may exist already.

    Attributes:
        file: The open file, or None.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.file: AppendedFile | None = None

    def __enter__(self) -> _RowFile:
        with ExitStack() as stack:
            file = stack.enter_context(AppendedFile(self.path))
            file.cut_unfinished()
            for row in read_rows(self.path):
                self.note(row)
            self.file = file
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.file = None
        self._stack.close()

    def append(self, row: EpisodeRow) -> None:
        """Write a row.

        Raises:
            EnvironmentFault: It cannot be written; the file then ends with the previous row.
        """
        assert self.file is not None
        self.file.append(row.model_dump_json().encode() + b"\n")
        self.note(row)


def _what(variant: str, seed: int | None, seats: tuple[SlotRow, ...]) -> bytes:
    """A short digest that tells episodes apart; small, because there may be many episodes."""
    told = repr((variant, seed, [(seat.name, seat.player_id, seat.image) for seat in seats]))
    return hashlib.blake2b(told.encode("utf-8", "surrogatepass"), digest_size=8).digest()
