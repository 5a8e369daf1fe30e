"""Plays the episodes of an evaluation in worker processes, in chunks, and decides what is kept of each.

Every episode has its row; rows are written in the order of the plans, up to the one that decides. Evidence is kept of
the first blocks, of every block whose number is a power of two, and of the first episodes that failed, were lost or
came out unusually. Any other is exact again from its row (`play_row_again`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import anyio
import anyio.to_thread

from coworld_core.episode.layout import directory_of
from coworld_core.episode.record import EpisodeRow, SlotRow
from coworld_core.errors import UsageError
from coworld_core.evaluation.designs import parse_key
from coworld_core.manifest.game_results import score_bounds

from ..episode.venue import Take, VenueRun, Wanted
from ..kit.rollout.kept_games import KeptGames
from ..kit.rollout.match_process import PLAY_PROGRAMS, MatchProcess
from ..kit.rollout.match_worker import Chunk, SeatedGame
from ..package.plan import EpisodePlan
from .worker_pool import WorkerPool
from .worker_rows import Ended, ended_row, game_seed, in_bounds, note_players, planned_slots, write_evidence

__all__ = ["WorkerPlay"]

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


class WorkerPlay:
    """The episodes of one call of `WorkerVenue.play`.

    Args:
        pool: The worker processes.
        run: The run.
        wanted: What is to be played.
        take: Takes the rows, in the order of the plans.
    """

    def __init__(self, pool: WorkerPool, run: VenueRun, wanted: Iterator[Wanted], take: Take) -> None:
        self._pool = pool
        self._run = run
        self._workspace = run.workspace
        self._wanted = wanted
        self._take = take
        self._tables: dict[int, _Table] = {}
        self._kept = KeptGames()
        self._checked = 0
        self._order: deque[int] = deque()
        """The numbers of episodes without a row, in the order of the plans."""
        self._ended: dict[int, Ended] = {}
        """Episodes that have ended, and wait for earlier ones."""
        self._enough = False
        """Whether what follows does not count any more."""

    async def through(self) -> None:
        """Play all of them."""
        first = self._chunk(_CHUNK)
        if not first:
            return
        await self._pool.open_workers(len(first))
        workers = self._pool.workers
        share = -(-len(first) // len(workers))
        async with anyio.create_task_group() as group:
            for number, worker in enumerate(workers):
                group.start_soon(self._drive, worker, first[number * share : (number + 1) * share])

    async def _drive(self, worker: MatchProcess, chunk: list[Wanted]) -> None:
        """Play chunk after chunk with one worker; what a process that died has left is played one by one."""
        known: tuple[set[int], set[int]] = (set(), set())
        size = _CHUNK
        alone = False
        left: deque[Wanted] = deque()
        while chunk and not self._enough:
            message = self._message(chunk, known, alone=alone)
            began = time.monotonic()
            outcomes = await anyio.to_thread.run_sync(worker.play, message, abandon_on_cancel=True)
            took = time.monotonic() - began
            ended = {outcome.number: outcome for outcome in outcomes}
            seconds = round(took / len(chunk), 6)
            for one in chunk:
                if one.index in ended:
                    self._ended[one.index] = Ended(episode=one, outcome=ended[one.index], seconds=seconds)
                else:
                    left.append(one)
            self._enough = self._enough or self._take(self._rows())
            alone = bool(left)
            if alone:
                size = 1
            elif took < _SECONDS:
                size = min(2 * size, _MOST)
            elif took > 4 * _SECONDS:
                size = max(size // 2, 1)
            chunk = [left.popleft()] if alone else self._chunk(size)

    def _chunk(self, size: int) -> list[Wanted]:
        """Take the next episodes to play."""
        found = list(islice(self._wanted, size))
        self._order.extend(one.index for one in found)
        return found

    def _message(self, chunk: list[Wanted], known: tuple[set[int], set[int]], *, alone: bool) -> Chunk:
        """The chunk, with the configs and players that the worker does not know yet."""
        configs, players = known
        games: list[SeatedGame] = []
        new_configs: dict[int, dict[str, object]] = {}
        for one in chunk:
            table, plan = self._table(one.plan), one.plan
            if table.number not in configs:
                configs.add(table.number)
                new_configs[table.number] = plan.config_with_tokens(plan.new_tokens())
            place = parse_key(one.key)
            block = place[0] if place is not None else one.index
            games.append(
                SeatedGame(
                    number=one.index,
                    config=table.number,
                    seed=game_seed(plan),
                    player_secret=plan.player_secret,
                    branch=plan.branch,
                    players=table.players,
                    focus=table.focus,
                    keep=block <= _FIRST or not block & (block - 1),
                )
            )
        needed = {player for game in games for player in game.players} - players
        players |= needed
        programs = self._pool.programs
        new_players = {number: programs[number] for number in needed}
        return Chunk(games=games, configs=new_configs, players=new_players, alone=alone)

    def _table(self, plan: EpisodePlan) -> _Table:
        # Plans that differ only in the seed share their seats
        table = self._tables.get(id(plan.seats))
        if table is None:
            numbers = [self._pool.player(seat) for seat in plan.seats]
            if None in numbers:
                raise UsageError(
                    f"{plan.seats[numbers.index(None)].name} cannot play in a worker process.",
                    code="player_not_portable",
                    hint=PLAY_PROGRAMS,
                )
            slots = planned_slots(plan)
            table = _Table(
                number=len(self._tables),
                players=tuple(number for number in numbers if number is not None),
                slots=slots,
                focus=tuple(
                    slot for slot, seat in enumerate(slots) if self._run.measured == (seat.player_id or seat.image)
                ),
                seats=plan.seats,
                bounds=score_bounds(plan.manifest.game.results_schema, len(plan.seats)),
            )
            self._tables[id(plan.seats)] = table
            note_players(self._workspace, plan.source, [plan])
        return table

    def _rows(self) -> Iterator[EpisodeRow]:
        """The rows of episodes, in the order of the plans; those that are kept whole have their evidence then."""
        while self._order and (ended := self._ended.pop(self._order[0], None)) is not None:
            self._order.popleft()
            table = self._table(ended.episode.plan)
            kept = bool(ended.outcome.kept and self._kept.counted(ended.outcome.kept))
            check = self._to_check(ended, table)
            whole, run_id = self._run.keeps_results, self._run.run_id
            row = ended_row(ended, table.slots, run_id, check=check, whole=whole, kept=kept)
            if kept:
                row = write_evidence(self._workspace / directory_of(row.key), ended, row)
            yield row

    def _to_check(self, one: Ended, table: _Table) -> bool:
        """Whether the results of an episode are to be checked against the game's schema."""
        results = one.outcome.results
        if results is None:
            return False
        self._checked += 1
        return self._checked <= _CHECKED or len(results) > 2 or not in_bounds(results["scores"], *table.bounds)
