"""Brings the chunks of a run from its store to what plays them, and takes back rows and evidence.

Any number of couriers share a run, and any of them may die at any time. A chunk is played by whoever creates the next
claim on it: the first, or another if the last claim has had no sign of life for longer than the lease.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread

from coworld_core.episode.record import ROWS_NAME
from coworld_core.errors import EnvironmentFault
from coworld_core.files.regular import MAX_FILE, read_regular

from .chunk_player import OUT
from .job_files import (
    CLOSED,
    PACKAGE,
    RUN,
    STOPPED,
    JobRun,
    PlannedChunk,
    RowsHead,
    bring_archive,
    chunk_number,
    no_run,
    read_object,
)
from .job_store import JobStore
from .shared_folder import SharedFolder, Signs

__all__ = ["ATTEMPTS", "IDLE_SECONDS", "Courier", "attempts_of"]

ATTEMPTS = 3
"""How often a chunk is begun: one whose pods die each time is given up."""
_MOST_EVIDENCE = 1 << 30
"""Bytes of evidence of a chunk that are taken along."""
IDLE_SECONDS = 900.0
"""How long a courier without chunks waits for a run whose driver gives no sign of life: it may be resumed."""
_LOOK_FIRST, _LOOK_LAST = 0.2, 2.0
"""Seconds between two looks at the store: few after a chunk was played, more as nothing comes."""
_AT_ONCE = 8


class Courier:
    """One courier.

    Args:
        store: The store of the run.
        folder: The directory that it shares with what plays.
        name: What tells it from other couriers, such as its pod's name.
        idle: Seconds that it waits for further chunks of a driver that gives no sign of life.
        only: The number of the only chunk that it brings; None: any, one after the other.
    """

    def __init__(
        self,
        store: JobStore,
        folder: SharedFolder,
        *,
        name: str,
        idle: float = IDLE_SECONDS,
        only: int | None = None,
    ) -> None:
        self._store = store
        self._folder = folder
        self._name = name
        self._idle = idle
        self._only = only
        self._finished = 0
        """Up to this number, all chunks have been played."""

    async def run(self) -> None:
        """Bring chunks until the run is closed, or nothing is to be done and its driver is gone.

        Raises:
            EnvironmentFault: The store cannot be reached, or what plays is gone.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._folder.beat, "courier")
            run = await self._prepared()
            signs, driver = Signs(run.lease_seconds), Signs(self._idle)
            pause = _LOOK_FIRST
            while (closed := await self._store.get(CLOSED)) != STOPPED:
                claimed = await self._claim(signs)
                if claimed is not None:
                    await self._carry(*claimed, run)
                if self._only is not None:
                    break
                if claimed is not None:
                    pause = _LOOK_FIRST
                    continue
                drivers = await self._store.list("drivers")
                if driver.is_gone("driver", drivers[-1].tag if drivers else ""):
                    break
                if closed is not None:
                    break
                await anyio.sleep(pause)
                pause = min(1.5 * pause, _LOOK_LAST)
            self._folder.over.touch()
            tasks.cancel_scope.cancel()

    async def _prepared(self) -> JobRun:
        """Bring what all chunks need; it appears whole."""
        run = await read_object(self._store, RUN, JobRun, what="run")
        if run is None:
            raise no_run(self._store)
        ready = self._folder.path / "run.new"
        shutil.rmtree(ready, ignore_errors=True)
        await bring_archive(self._store, PACKAGE, ready / "package")
        (ready / "players").mkdir()
        (ready / RUN).write_bytes(run.to_document())
        shutil.rmtree(self._folder.run, ignore_errors=True)
        ready.rename(self._folder.run)
        return run

    async def _claim(self, signs: Signs) -> tuple[int, int] | None:
        """Claim a chunk; returns its number and that of the attempt, or None if there is none to play now."""
        after = f"{self._finished:06}~"
        chunks = [chunk_number(one.name) for one in await self._store.list("chunks", after=f"chunks/{after}")]
        if not chunks:
            return None
        played = {chunk_number(one.name) for one in await self._store.list("rows", after=f"rows/{after}")}
        played |= {chunk_number(one.name) for one in await self._store.list("problems")}
        while self._finished + 1 in played:
            self._finished += 1
        open_chunks = [number for number in chunks if number not in played and self._only in (None, number)]
        claims = await attempts_of(self._store, after=after) if open_chunks else {}
        for number in open_chunks:
            attempt, tag = claims.get(number, (0, ""))
            # A pod is only made for a chunk once an earlier one has ended
            if attempt and self._only is None and not signs.is_gone(f"{number}.{attempt}", tag):
                continue
            if attempt < ATTEMPTS and await self._create(f"claims/{number:06}.{attempt + 1}"):
                return number, attempt + 1
        return None

    async def _create(self, name: str) -> bool:
        sign = self._sign(0)
        return await self._store.create(name, sign) or await self._store.get(name) == sign

    def _sign(self, count: int) -> bytes:
        return json.dumps({"by": self._name, "beat": count}).encode()

    async def _carry(self, number: int, attempt: int, run: JobRun) -> None:
        """Have a chunk played, and hand over what is left of it."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep, f"claims/{number:06}.{attempt}", run.lease_seconds / 6)
            name = f"chunks/{number:06}.json"
            chunk = await read_object(self._store, name, PlannedChunk, what="chunk")
            if chunk is None:
                raise EnvironmentFault(f"{self._store} has no {name} any more.", code="store_incomplete")
            for archive in {files.archive for files in chunk.players.values() if files.archive}:
                await bring_archive(self._store, archive, self._folder.run / "players" / Path(archive).stem)
            ready = self._folder.path / "chunk.new"
            shutil.rmtree(ready, ignore_errors=True)
            ready.mkdir()
            (ready / "chunk.json").write_bytes(chunk.to_line())
            ready.rename(self._folder.chunk)
            await self._folder.until("player", self._folder.ended.exists)
            await self._hand_over(number, attempt)
            # What plays waits for this
            self._folder.chunk.rename(ready)
            shutil.rmtree(ready)
            tasks.cancel_scope.cancel()

    async def _keep(self, claim: str, seconds: float) -> None:
        count = 0
        while True:
            await anyio.sleep(seconds)
            count += 1
            await self._store.put(claim, self._sign(count))

    async def _hand_over(self, number: int, attempt: int) -> None:
        """Hand over evidence and then the rows of a chunk, or why it cannot be played."""
        ended = read_regular(self._folder.ended)
        if ended != b"{}":
            await self._store.create(f"problems/{number:06}.json", ended)
            return
        out = self._folder.chunk / OUT
        files = await anyio.to_thread.run_sync(lambda: list(_evidence(out)))
        room = anyio.CapacityLimiter(_AT_ONCE)

        async def put(name: str, path: Path) -> None:
            async with room:
                await self._store.put(f"episodes/{number:06}.{attempt}/{name}", read_regular(path, most=_MOST_EVIDENCE))

        async with anyio.create_task_group() as tasks:
            for name, path in files:
                tasks.start_soon(put, name, path)
        rows = read_regular(out / ROWS_NAME, most=MAX_FILE - 1000)
        # Whoever comes second has played it for nothing
        await self._store.create(f"rows/{number:06}.jsonl", RowsHead(attempt=attempt).to_line() + rows)


async def attempts_of(store: JobStore, *, after: str = "") -> dict[int, tuple[int, str]]:
    """The last attempt at each chunk, and its last sign of life, by the chunk's number."""
    found: dict[int, tuple[int, str]] = {}
    for one in await store.list("claims", after=f"claims/{after}" if after else ""):
        attempt = one.name.rpartition(".")[2]
        if (number := chunk_number(one.name)) and attempt.isascii() and attempt.isdigit() and len(attempt) < 4:
            found[number] = max(found.get(number, (0, "")), (int(attempt), one.tag))
    return found


def _evidence(out: Path) -> Iterator[tuple[str, Path]]:
    """The regular files of episodes, as far as there is room: what plays may have put anything there."""
    room = _MOST_EVIDENCE
    for place, directories, names in os.walk(out):
        directories.sort()
        for name in sorted(names):
            path = Path(place, name)
            status = path.lstat()
            if Path(place) != out and stat.S_ISREG(status.st_mode) and (room := room - status.st_size) > 0:
                yield path.relative_to(out).as_posix(), path
