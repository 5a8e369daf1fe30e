"""An episode of this machine, or a run of many, by the files of its workspace."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread

from coworld_core.controller import (
    EPISODE_STATES,
    EpisodeEvent,
    EpisodeInfo,
    EpisodeState,
    already_ended,
    bad_cursor,
)
from coworld_core.episode.events import RunFinished, RunStarted, parse_event
from coworld_core.episode.layout import EpisodeLayout
from coworld_core.episode.outcome import FaultParty
from coworld_core.episode.record import read_record
from coworld_core.errors import UsageError
from coworld_core.files.locks import is_free
from coworld_core.records.run_entries import SeatEntry

from ..backend import Backend
from ..records.run_reader import ReadRun, read_run
from .event_tail import EventTail
from .run_stopping import stop_run

__all__ = ["LocalEpisode", "OwnRun", "read_info", "state_of"]

_LOOK_SECONDS = 0.1
"""Seconds between two looks at the files of a run."""


@dataclass
class OwnRun:
    """A run of this process that a controller plays."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    backend: Backend | None = None
    """The backend, if it is this run's alone."""

    def stop(self, *, hard: bool) -> None:
        """Cancel it; with `hard`, its units get no time to end."""
        if hard and self.backend is not None:
            self.backend.end_waits()
        self.scope.cancel()


class LocalEpisode:
    """An episode of this machine, an `EpisodeHandle`; a run of many episodes has one, too.

    Attributes:
        workspace: The directory with its evidence.
    """

    def __init__(self, id: str, workspace: Path, own: OwnRun | None = None) -> None:
        self._id = id
        self.workspace = workspace
        self._log = EpisodeLayout(workspace).events
        self._own = own

    def __repr__(self) -> str:
        return f"<LocalEpisode {self._id} in {self.workspace}>"

    @property
    def id(self) -> str:
        """The run's id."""
        return self._id

    async def events(self, *, after: str = "") -> AsyncGenerator[EpisodeEvent]:
        """What happens in it, from its log; see `EpisodeHandle.events`. A cursor is the number of an event.

        Raises:
            UsageError: On iteration: the cursor is no number (`bad_cursor`).
            RecordError: On iteration: a line of the log is no event.
        """
        if after and not after.isdecimal():
            raise bad_cursor(after)
        last = int(after or 0)
        tail = EventTail(self._log)
        while True:
            # What is read afterwards is all that there will be
            over = await self._is_over()
            lines = await anyio.to_thread.run_sync(tail.more)
            for line in lines:
                event = parse_event(line, source=str(self._log))
                if event.run_id and event.run_id != self._id:
                    # Another run was begun in this workspace
                    return
                ended = isinstance(event, RunFinished)
                state = state_of(event.status) if isinstance(event, RunFinished) else "running"
                if event.seq > last:
                    last = event.seq
                    yield EpisodeEvent(cursor=str(event.seq), state=state, time=event.time, event=event)
                if ended:
                    return
            if over and not lines:
                return
            if not lines:
                await anyio.sleep(_LOOK_SECONDS)

    async def info(self) -> EpisodeInfo:
        """What is known of it now.

        Raises:
            UsageError: Its files are gone, or another run's (`no_such_run`).
        """
        return info_of(self.workspace, await self._read())

    async def seats(self) -> tuple[SeatEntry, ...]:
        """Who sits in it; of a run of many, who plays in it.

        Raises:
            UsageError: As `info`.
        """
        run = await self._read()
        if run.episode is not None:
            return tuple(
                SeatEntry(
                    slot=slot,
                    name=seat.name,
                    player_id=seat.player_id,
                    image=seat.image,
                    digest=seat.digest,
                    score=score,
                )
                for slot, (seat, score) in enumerate(zip_longest(run.episode.slots, run.episode.scores))
                if seat is not None
            )
        lines = await anyio.to_thread.run_sync(EventTail(self._log).more)
        begun = parse_event(lines[0], source=str(self._log)) if lines else None
        ids = begun.player_ids if isinstance(begun, RunStarted) else ()
        return tuple(
            SeatEntry(slot=slot, name=name, player_id=id, image="", digest="", score=None)
            for slot, (name, id) in enumerate(zip_longest(run.players, ids))
            if name is not None
        )

    async def results(self) -> dict[str, Any] | None:
        """The game's results; None: it has none, or not yet, or is a run of many.

        Raises:
            RecordError: The episode's record is broken.
        """
        if not EpisodeLayout(self.workspace).record.is_file():
            return None
        return (await anyio.to_thread.run_sync(read_record, self.workspace)).results

    async def terminate(self, *, hard: bool = False) -> None:
        """Ask for it to be stopped; `result` waits for that.

        A run of another process is asked to stop as by Ctrl-C: its process gets SIGINT. With `hard`, that process is
        killed, and what it leaves is removed: then its state is `lost`.

        Raises:
            UsageError: It has ended (`already_ended`), or as `stop_run`.
            EnvironmentFault: As `stop_run`.
        """
        if (info := await self.info()).ended:
            raise already_ended(info)
        if self._own is not None:
            self._own.stop(hard=hard)
        else:
            await stop_run(self.workspace, hard=hard)

    async def result(self) -> EpisodeInfo:
        """Wait until it has ended, and return how."""
        if self._own is not None:
            await self._own.ended.wait()
        while not (info := await self.info()).ended or not await self._is_over():  # noqa: ASYNC110 - another process's
            await anyio.sleep(_LOOK_SECONDS)
        return info

    async def _read(self) -> ReadRun:
        run = await anyio.to_thread.run_sync(read_run, self.workspace)
        if run is None or (run.run_id and run.run_id != self._id):
            raise UsageError(
                f"The run {self._id} is not in {self.workspace} any more.",
                code="no_such_run",
                context={"run": self._id, "path": str(self.workspace)},
            )
        return run

    async def _is_over(self) -> bool:
        if self._own is not None:
            return self._own.ended.is_set()
        return await anyio.to_thread.run_sync(is_free, self._log)


def read_info(workspace: Path) -> EpisodeInfo | None:
    """Read what is known of the run in a workspace; None if there is none."""
    run = read_run(workspace)
    return info_of(workspace, run) if run is not None else None


def info_of(workspace: Path, run: ReadRun) -> EpisodeInfo:
    """What is known of a run, as an episode."""
    episode = run.episode
    ended = None
    if run.started_at is not None and run.seconds is not None:
        with suppress(OverflowError):
            ended = run.started_at + dt.timedelta(seconds=run.seconds)
    return EpisodeInfo(
        # A tournament goes by the name of its directory
        id=run.run_id or workspace.name,
        state=state_of(run.status),
        kind=run.kind,
        coworld=run.coworld,
        version=run.version,
        variant=run.variant,
        labels=run.labels.of(run.tags),
        players=run.players,
        scores=episode.scores if episode is not None else (),
        created_at=run.started_at,
        started_at=run.started_at,
        ended_at=ended,
        error_type=episode.error_type if episode is not None else None,
        error=episode.message if episode is not None else None,
        party=cast("FaultParty | None", episode.party) if episode is not None else None,
        fault_slot=episode.fault_slot if episode is not None else None,
        player_faults=episode.player_faults if episode is not None else (),
        workspace=str(workspace),
    )


def state_of(status: str) -> EpisodeState:
    """The state that a status in a file stands for; an unknown one, of a later version, is that of a run that ended."""
    return status if status in EPISODE_STATES else "failed"
