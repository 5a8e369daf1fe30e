"""Plays the episodes of an evaluation in worker processes, in chunks, and decides what is kept of each.

Every episode has its row; rows are written in the order of the plans, up to the one that decides. Evidence is kept of
the first blocks, of every block whose number is a power of two, and of the first episodes that failed, were lost or
came out unusually. Any other is exact again from its row (`play_row_again`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread

from coworld_core.episode.events import BatchProgressed
from coworld_core.episode.layout import directory_of
from coworld_core.episode.record import EpisodeRow, SlotRow
from coworld_core.errors import CoworldError, UsageError
from coworld_core.evaluation.designs import parse_key
from coworld_core.manifest.game_results import score_bounds

from ..episode.many import KeyedRun
from ..errors import unwrapped
from ..kit.rollout.kept_games import KeptGames
from ..kit.rollout.match_process import PLAY_PROGRAMS, MatchProcess
from ..kit.rollout.match_worker import Chunk, SeatedGame
from ..package.plan import EpisodePlan
from .in_process import InProcess
from .in_process_rows import Ended, ended_row, game_seed, note_players, within, write_evidence

__all__ = ["InProcessRun"]

_FIRST = 4
"""Blocks whose episodes are kept whole."""

_CHECKED = 16
"""Episodes whose results are checked against the game's schema, if they have nothing but scores and ticks."""

_CHUNK = 8
"""Episodes in a worker's first chunk."""

_MOST = 256
"""Episodes in a chunk at most: a player is asked in all of them with one message."""

_SECONDS = 1.0
"""Seconds that a chunk is to take: until it has ended nobody sees its rows."""


@dataclass
class _Table:
    """What all episodes with the same players have in common."""

    number: int
    players: tuple[int, ...]
    slots: tuple[SlotRow, ...]
    focus: tuple[int, ...]
    seats: object
    """Kept so that its identity stays its own."""
    bounds: tuple[float | None, float | None]


_Episode = tuple[int, str, EpisodePlan]
"""Its number, its key and its plan."""

_KEPT_ROW: Any = object()
"""Stands for an episode that had its row already."""


class InProcessRun(KeyedRun):
    """The episodes of a run that are played in worker processes; the arguments are those of `KeyedRun`."""

    focus = ""
    """The player that is measured, as in rows: its id or its image."""
    keeps_results = False
    """Whether rows have the results even if these are only scores and ticks."""
    hurried = 0.1

    async def play(
        self,
        plans: Iterable[tuple[str, EpisodePlan]],
        *,
        fatal: tuple[type[CoworldError], ...] = (),
        total: int | None = None,
        on_row: Callable[[EpisodeRow], object] | None = None,
    ) -> None:
        """Play the episodes that have no row yet; see `KeyedRun.play`."""
        del fatal
        assert isinstance(self.backend, InProcess)
        playing = _Playing(self, self.backend, iter(plans), total, on_row)
        try:
            with unwrapped():
                await playing.through()
            self.counts.status = "completed" if playing.complete else "failed"
        except CoworldError:
            self.counts.status = "failed"
            raise
        finally:
            self.counts.seconds = self.run.seconds()


class _Playing:
    def __init__(
        self,
        keyed: InProcessRun,
        backend: InProcess,
        plans: Iterator[tuple[str, EpisodePlan]],
        total: int | None,
        on_row: Callable[[EpisodeRow], object] | None,
    ) -> None:
        self._keyed = keyed
        self._backend = backend
        self._plans = plans
        self._total = total
        self._on_row = on_row
        self._rows = keyed.rows
        self._index = 0
        self._taken: set[str] = set()
        self._tables: dict[int, _Table] = {}
        self._run_id = keyed.run.bus.run_id
        self._kept = KeptGames()
        self._checked = 0
        self._ended: dict[int, Ended] = {}
        """Episodes that have ended, or had a row, and wait for earlier ones."""
        self._next = 1
        self._enough = False
        """Whether what follows does not count any more."""
        self.complete = True

    async def through(self) -> None:
        first = self._chunk(_CHUNK)
        if not first:
            return
        await self._backend.open_workers(len(first))
        workers = self._backend.workers
        share = -(-len(first) // len(workers))
        async with anyio.create_task_group() as group:
            for number, worker in enumerate(workers):
                group.start_soon(self._drive, worker, first[number * share : (number + 1) * share])

    async def _drive(self, worker: MatchProcess, chunk: list[_Episode]) -> None:
        """Play chunk after chunk with one worker; what a process that died has left is played one by one."""
        known: tuple[set[int], set[int]] = (set(), set())
        size = _CHUNK
        alone = False
        left: deque[_Episode] = deque()
        while chunk and not self._enough:
            message = self._message(chunk, known, alone=alone)
            began = time.monotonic()
            outcomes = await anyio.to_thread.run_sync(worker.play, message, abandon_on_cancel=True)
            took = time.monotonic() - began
            ended = {outcome.number: outcome for outcome in outcomes}
            seconds = round(took / len(chunk), 6)
            for index, key, plan in chunk:
                if index in ended:
                    outcome = ended[index]
                    self._ended[index] = Ended(index=index, key=key, plan=plan, outcome=outcome, seconds=seconds)
                else:
                    left.append((index, key, plan))
            self._take_in()
            alone = bool(left)
            if alone:
                size = 1
            elif took < _SECONDS:
                size = min(2 * size, _MOST)
            elif took > 4 * _SECONDS:
                size = max(size // 2, 1)
            chunk = [left.popleft()] if alone else self._chunk(size)

    def _chunk(self, size: int) -> list[_Episode]:
        """Take the next episodes to play."""
        found: list[_Episode] = []
        while len(found) < size:
            key, plan = next(self._plans, ("", None))
            if plan is None:
                break
            if key in self._taken:
                raise UsageError(f"The key {key!r} occurs twice among the plans.", code="key_repeated")
            self._taken.add(key)
            self._index += 1
            if key in self._rows.seen:
                self._rows.check(key, plan)
                self._keyed.counts.kept += 1
                self._ended[self._index] = _KEPT_ROW
                continue
            found.append((self._index, key, plan.tagged(self._keyed.options.labels)))
        return found

    def _message(self, chunk: list[_Episode], known: tuple[set[int], set[int]], *, alone: bool) -> Chunk:
        """The chunk, with the configs and players that the worker does not know yet."""
        configs, players = known
        games: list[SeatedGame] = []
        new_configs: dict[int, dict[str, object]] = {}
        for index, key, plan in chunk:
            table = self._table(plan)
            if table.number not in configs:
                configs.add(table.number)
                new_configs[table.number] = plan.config_with_tokens(plan.new_tokens())
            place = parse_key(key)
            block = place[0] if place is not None else index
            games.append(
                SeatedGame(
                    number=index,
                    config=table.number,
                    seed=game_seed(plan),
                    player_secret=plan.player_secret,
                    players=table.players,
                    focus=table.focus,
                    keep=block <= _FIRST or not block & (block - 1),
                )
            )
        needed = {player for game in games for player in game.players} - players
        players |= needed
        programs = self._backend.programs
        new_players = {number: programs[number] for number in needed}
        return Chunk(games=games, configs=new_configs, players=new_players, alone=alone)

    def _table(self, plan: EpisodePlan) -> _Table:
        # Plans that differ only in the seed share their seats
        table = self._tables.get(id(plan.seats))
        if table is None:
            numbers = [self._backend.player(seat) for seat in plan.seats]
            if None in numbers:
                raise UsageError(
                    f"{plan.seats[numbers.index(None)].name} cannot play in a worker process.",
                    code="player_not_portable",
                    hint=PLAY_PROGRAMS,
                )
            slots = tuple(
                SlotRow(
                    name=seat.name,
                    player_id=seat.player_id,
                    image=seat.image,
                    digest=seat.own.digest if seat.own is not None else "",
                    player_version=seat.player_version,
                )
                for seat in plan.seats
            )
            table = _Table(
                number=len(self._tables),
                players=tuple(number for number in numbers if number is not None),
                slots=slots,
                focus=tuple(
                    slot for slot, seat in enumerate(slots) if self._keyed.focus == (seat.player_id or seat.image)
                ),
                seats=plan.seats,
                bounds=score_bounds(plan.manifest.game.results_schema, len(plan.seats)),
            )
            self._tables[id(plan.seats)] = table
            note_players(self._keyed.run.layout.workspace, plan.source, [plan])
        return table

    def _take_in(self) -> None:
        """Write the rows of episodes, in the order of the plans, and the evidence of those that are kept whole."""
        keyed, counts = self._keyed, self._keyed.counts
        rows: list[EpisodeRow] = []
        while not self._enough and (one := self._ended.pop(self._next, None)) is not None:
            self._next += 1
            if one is _KEPT_ROW:
                continue
            table = self._table(one.plan)
            kept = bool(one.outcome.kept and self._kept.counted(one.outcome.kept))
            check = self._to_check(one, table)
            row = ended_row(one, table.slots, self._run_id, check=check, whole=keyed.keeps_results, kept=kept)
            if kept:
                place = keyed.run.layout.workspace / directory_of(one.key)
                row = write_evidence(place, one, row, backend=self._backend)
            rows.append(row)
            counts.played += 1
            counts.completed += row.status == "completed"
            counts.faulted += not row.ok
            self.complete = self.complete and row.status == "completed"
            self._enough = self._on_row is not None and bool(self._on_row(row))
        if not rows:
            return
        self._rows.append(*rows)
        last = rows[-1]
        keyed.run.bus.publish(
            BatchProgressed(
                index=last.index,
                key=last.key,
                done=counts.kept + counts.played,
                total=self._total,
                status=last.status,
                ok=last.ok,
                scores=last.scores,
            )
        )

    def _to_check(self, one: Ended, table: _Table) -> bool:
        """Whether the results of an episode are to be checked against the game's schema."""
        results = one.outcome.results
        if results is None:
            return False
        self._checked += 1
        return self._checked <= _CHECKED or len(results) > 2 or not within(results["scores"], *table.bounds)
