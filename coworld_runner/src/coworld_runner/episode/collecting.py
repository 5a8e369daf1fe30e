"""What an episode leaves is brought in, and its results are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from coworld_core.errors import ManifestError, TransferError
from coworld_core.events import ArtifactCollected
from coworld_core.results import MAX_RESULTS_BYTES

from ..backend import Unit
from .ledger import Ledger
from .phases import COLLECT
from .setup import Setup
from .specs import REPLAY, RESULTS

__all__ = ["ARTIFACT_LIMIT", "REPLAY_LIMIT", "Collector"]

MEBIBYTE = 1024 * 1024
REPLAY_LIMIT = 4 * 1024 * MEBIBYTE
ARTIFACT_LIMIT = 200 * MEBIBYTE
"""What the contract allows a player's zip."""
_AT_ONCE = 8
"""Files that are brought in at the same time."""


class Collector:
    """Brings in what the units of one episode leave.

    Args:
        setup: The episode's surroundings.
        ledger: Where what is missing or wrong is told.
    """

    def __init__(self, setup: Setup, ledger: Ledger) -> None:
        self._setup = setup
        self._layout = setup.layout
        self._ledger = ledger
        self._judged = False

    async def players(self, game: Unit, players: Sequence[Unit]) -> None:
        """Stop everybody, then bring in what the players want to keep; done even when we are being cancelled."""
        with anyio.CancelScope(shield=True), self._ledger.phases.during(COLLECT):
            async with anyio.create_task_group() as group:
                for unit in (game, *players):
                    group.start_soon(unit.stop, self._setup.options.stop_grace)
            await self._fetch_all(
                [
                    (player, f"policy_artifact_{slot}.zip", self._layout.player_artifact(slot), ARTIFACT_LIMIT)
                    for player in players
                    if (slot := player.spec.slot) is not None
                ]
            )

    async def game(self, game: Unit) -> None:
        """Stop the game and bring in what it has written; done even when we are being cancelled."""
        with anyio.CancelScope(shield=True), self._ledger.phases.during(COLLECT):
            await game.stop(self._setup.options.stop_grace)
            results = [] if self._judged else [(game, RESULTS, self._layout.results, MAX_RESULTS_BYTES)]
            await self._fetch_all([*results, (game, REPLAY, self._layout.replay, REPLAY_LIMIT)])

    async def results(self, game: Unit) -> None:
        """Bring in the results of a game that has ended, and judge them."""
        await self._fetch_all([(game, RESULTS, self._layout.results, MAX_RESULTS_BYTES)])
        await self.judge_results()

    async def judge_results(self) -> None:
        """Read what was brought in; only the first time counts."""
        if self._judged:
            return
        self._judged = True
        if not self._layout.results.exists():
            await self._ledger.see("results_missing", "game")
            return
        try:
            results = await anyio.to_thread.run_sync(self._setup.plan.read_results, self._layout.results)
        except ManifestError as error:
            await self._ledger.see("results_malformed", "game", words=error.message)
        else:
            self._ledger.results = dict(results.raw)
            self._ledger.scores = tuple(results.scores)

    async def _fetch_all(self, wanted: Sequence[tuple[Unit, str, Path, int]]) -> None:
        """Bring in files, several at once, and all within the time there is for it."""
        gate = anyio.CapacityLimiter(_AT_ONCE)
        seconds = self._setup.options.collect_timeout
        deadline = anyio.current_time() + seconds

        async def one(unit: Unit, name: str, target: Path, limit: int) -> None:
            late = True
            with anyio.CancelScope(deadline=deadline):
                async with gate:
                    await self._fetch(unit, name, target, limit)
                late = False
            if late:
                error = TransferError(
                    f"{name} could not be brought in within {seconds:g} s.",
                    code="too_slow",
                    hint="Write less, or allow more with EpisodeOptions.collect_timeout.",
                )
                await self._ledger.see("not_collected", unit.spec.component, unit.spec.slot, error=error)

        async with anyio.create_task_group() as group:
            for unit, name, target, limit in wanted:
                group.start_soon(one, unit, name, target, limit)

    async def _fetch(self, unit: Unit, name: str, target: Path, limit: int) -> None:
        try:
            size = await unit.fetch(name, target, limit=limit)
        except FileNotFoundError:
            return
        except TransferError as error:
            if name == RESULTS and error.code == "file_too_large":
                self._judged = True
                await self._ledger.see("results_malformed", "game", words=error.message)
            else:
                await self._ledger.see("not_collected", unit.spec.component, unit.spec.slot, error=error)
            return
        self._ledger.publish(ArtifactCollected(name=self._layout.relative(target), size=size))
