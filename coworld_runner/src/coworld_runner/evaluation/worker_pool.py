"""Worker processes of this machine that play a game of the kit, with each player in a process of its own.

They enforce nothing: they are for code that the user trusts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Self

import anyio
import anyio.to_thread

from coworld_core.errors import EnvironmentFault
from coworld_core.time_limits import RULES_ANSWER

from ..backends.process.child_environment import child_environment
from ..episode.episode_options import EpisodeOptions
from ..kit.rollout.bot_links import BotProgram
from ..kit.rollout.match_process import MatchProcess
from ..package.kit_programs import rules_served, seat_file
from ..package.plan import Seat
from ..package.resolver import Package
from ..runs.processors import usable_processors
from ..runs.scratch import open_scratch

__all__ = ["WorkerPool"]


class WorkerPool:
    """Worker processes for the rules of a game, and what starts each player in a process of its own.

    Args:
        package: The game, which is one of the kit.
        options: How episodes are run.
        workers: Number of processes for the rules; None: as many as there are processors.
        timeout: Seconds that the rules may take for what follows from one answer of a player.

    Attributes:
        count: Number of processes for the rules.
        workers: Those that run.
    """

    def __init__(
        self,
        package: Package,
        *,
        options: EpisodeOptions | None = None,
        workers: int | None = None,
        timeout: float = RULES_ANSWER,
    ) -> None:
        self._timeout = timeout
        served = rules_served(package.manifest)
        assert served is not None
        self._package = package
        self._rules = served[1]
        given = options or EpisodeOptions()
        self._grace = given.failure_grace_seconds if given.on_player_failure == "stop" else math.inf
        self.count = workers or usable_processors()
        self._players: dict[tuple[str, ...], int] = {}
        self._programs: dict[int, BotProgram] = {}
        self._stack = AsyncExitStack()
        self.workers: list[MatchProcess] = []

    async def __aenter__(self) -> Self:
        """Make room for the files of players; processes start with the first episode."""
        self._scratch = (await self._stack.enter_async_context(open_scratch())).directory("players")
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Kill all processes."""
        for worker in self.workers:
            worker.close()
        self.workers = []
        await self._stack.aclose()

    async def open_workers(self, most: int) -> None:
        """Start the workers, no more than there are episodes to play.

        Raises:
            CoworldError: The rules cannot be loaded.
        """
        while len(self.workers) < min(self.count, most):
            self._start_worker()
        for worker in self.workers:
            await anyio.to_thread.run_sync(worker.problem, abandon_on_cancel=True)

    def begin_anew(self) -> None:
        """Begin with another run: what only the last needed is forgotten, and who has ended meanwhile is replaced."""
        for worker in self.workers:
            worker.begin_anew()

    def _start_worker(self) -> MatchProcess:
        game = self._package.manifest.game.runnable
        worker = MatchProcess(
            self._rules,
            directory=self._package.contexts[game.image],
            env=self._environment("rules", game.env),
            grace=self._grace,
            timeout=self._timeout,
        )
        self.workers.append(worker)
        return worker

    def player(self, seat: Seat) -> int | None:
        """The number of the player in a seat; None if it cannot play here."""
        key = (seat.image, seat.player_id or "", repr(sorted(seat.runnable.env.items())) if seat.runnable else "")
        if key not in self._players:
            program = self._program(seat, len(self._programs))
            if program is None:
                return None
            self._players[key] = len(self._programs)
            self._programs[self._players[key]] = program
        return self._players[key]

    @property
    def programs(self) -> Mapping[int, BotProgram]:
        """All players so far, by number."""
        return self._programs

    def _program(self, seat: Seat, number: int) -> BotProgram | None:
        runnable, own = seat.runnable, seat.own
        if runnable is None or seat.secret_env or seat.secret_files or runnable.image not in self._package.contexts:
            return None
        directory = self._package.contexts[runnable.image]
        if own is None:
            file = seat_file(runnable.run) if seat.player_id is not None else ""
            env = self._environment(f"{number}-own", runnable.env)
            return BotProgram(name=file, directory=directory, env=env) if file else None
        if own.kind == "random":
            return BotProgram(name="")
        if own.kind != "file" or own.secret_env or not own.needs_client:
            return None
        place = self._scratch / str(number)
        file = seat_file(own.argv(str(place), in_image=False))
        if not file:
            return None
        own.put(place)
        return BotProgram(name=file, directory=directory, env=self._environment(f"{number}-own", runnable.env))

    def _environment(self, name: str, env: Mapping[str, str]) -> dict[str, str]:
        """The environment of a program, with directories of its own and the variables of the manifest."""
        place = self._scratch / name
        for own in ("home", "tmp"):
            (place / own).mkdir(parents=True, exist_ok=True)
        return {**child_environment(place), **env}

    async def reason_against(self, seats: Sequence[Seat]) -> str:
        """Load the rules and these players in the first worker; returns why that is not possible, or an empty text."""
        asked: dict[int, BotProgram] = {}
        for seat in seats:
            number = self.player(seat)
            if number is None:
                return f"{seat.player_name or seat.name} is a program of its own"
            asked[number] = self._programs[number]
        worker = self.workers[0] if self.workers else self._start_worker()
        try:
            if problem := await anyio.to_thread.run_sync(worker.problem, abandon_on_cancel=True):
                return f"the rules cannot be loaded here: {problem}"
            told = await anyio.to_thread.run_sync(worker.load, asked, abandon_on_cancel=True)
        except EnvironmentFault as fault:
            if fault.code != "process_died":
                raise
            return f"the rules and players cannot be loaded together: {fault.message.rstrip('.')}"
        for seat in seats:
            number = self.player(seat)
            if number is not None and told.get(number, {}).get("session"):
                return f"{seat.player_name or seat.name} handles the game's messages itself"
        return ""
