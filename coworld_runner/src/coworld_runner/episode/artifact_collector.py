"""Collects the files that an episode leaves, and reads its results."""

from __future__ import annotations

import re
from collections.abc import Sequence

import anyio
import anyio.to_thread

from coworld_core.episode.events import ArtifactCollected
from coworld_core.errors import ManifestError
from coworld_core.manifest.game_results import MAX_RESULTS_BYTES

from ..backend import Unit
from ..runs._file_fetch import Fetched, SpaceLeft, Wanted, fetch_all, worth_keeping
from ..runs._unit_files import LOGS
from .episode_inputs import Setup
from .episode_ledger import Ledger
from .file_players import hosted_files
from .phase_times import COLLECT
from .unit_specs import CONFIG, MORE, REPLAY, RESULTS

__all__ = ["ARTIFACT_LIMIT", "REPLAY_LIMIT", "ArtifactCollector"]

MEBIBYTE = 1024 * 1024
_RESERVED = frozenset({"episode.json", "events.ndjson", "samples.ndjson", "frames.ndjson", "models.ndjson"})
"""Names of files that the runner writes beside the game's files."""
_ROOM = 1024 * MEBIBYTE
"""Total size limit of a game's further files."""
REPLAY_LIMIT = 4 * 1024 * MEBIBYTE
ARTIFACT_LIMIT = 200 * MEBIBYTE
"""Size limit of a player's zip, set by the contract; also the limit of each further file of a game."""


class ArtifactCollector:
    """Collects the files that the units of one episode leave.

    Args:
        setup: The episode's surroundings.
        ledger: Receives reports of missing or wrong files.
    """

    def __init__(self, setup: Setup, ledger: Ledger) -> None:
        self._setup = setup
        self._layout = setup.layout
        self._ledger = ledger
        self._judged = False
        self._collected: set[str] = set()
        """Names of results and replay once collected: what a game writes as it is stopped does not replace them."""

    async def players(self, game: Unit, players: Sequence[Unit]) -> None:
        """Stop all units, then collect the players' artifacts; shielded from cancellation."""
        with anyio.CancelScope(shield=True), self._ledger.phases.during(COLLECT):
            if self._ledger.results_complete:
                await self.results(game)
            async with anyio.create_task_group() as group:
                for unit in (game, *players):
                    group.start_soon(unit.stop, self._setup.options.stop_grace_seconds)
            await self._fetch_all(
                *(
                    Wanted(
                        unit=player,
                        name=f"policy_artifact_{slot}.zip",
                        target=self._layout.player_artifact(slot),
                        limit=ARTIFACT_LIMIT,
                    )
                    for player in players
                    if (slot := player.spec.slot) is not None
                )
            )

    async def game(self, game: Unit) -> None:
        """Stop the game and collect its files; shielded from cancellation."""
        with anyio.CancelScope(shield=True), self._ledger.phases.during(COLLECT):
            await game.stop(self._setup.options.stop_grace_seconds)
            await self._outputs(game, RESULTS, REPLAY)
            await self._fetch_all(*await self._besides(game), room=SpaceLeft(_ROOM))

    async def _besides(self, game: Unit) -> list[Wanted]:
        """List the further files that a game has left, without those named like a file of the runner."""
        names: list[str] = []
        seats = hosted_files(self._setup)
        for name in dict.fromkeys((*MORE.values(), *await game.left())):
            # A file whose name begins with a dot is unfinished, or one of the game's secrets
            plain = name.removeprefix(LOGS)
            if plain.startswith(".") or name in (CONFIG, RESULTS, REPLAY):
                continue
            if name in seats:
                names.append(name)
            elif name in _RESERVED or re.fullmatch(r"policy_artifact_\d+\.zip", name):
                self._ledger.warn(f"The game left {name!a}, which is not kept: that is the name of another file here.")
            else:
                names.append(name)
        if any(name.startswith(LOGS) for name in names):
            self._layout.game_logs.mkdir(exist_ok=True)
        return [
            Wanted(
                unit=game,
                name=name,
                target=seats[name]
                if name in seats
                else self._layout.game_logs / name.removeprefix(LOGS)
                if name.startswith(LOGS)
                else self._layout.workspace / name,
                limit=ARTIFACT_LIMIT,
            )
            for name in worth_keeping(names, who="The game", warn=self._ledger.warn)
        ]

    async def results(self, game: Unit) -> None:
        """Collect and judge the results of a game whose part is over, and its replay if that is closed."""
        await self._outputs(game, RESULTS, *[REPLAY] * self._ledger.replay_closed)
        await self.judge_results()

    async def judge_results(self) -> None:
        """Judge the collected results; does nothing the second time."""
        if self._judged:
            return
        self._judged = True
        if self._ledger.disturbed_at is not None:
            self._layout.results.unlink(missing_ok=True)
            return
        if not self._layout.results.exists():
            await self._ledger.see("results_missing", "game")
            return
        try:
            results = await anyio.to_thread.run_sync(self._setup.plan.read_results, self._layout.results)
        except ManifestError as error:
            await self._ledger.see("results_malformed", "game", details=error.message)
        else:
            self._ledger.results = dict(results.raw)
            self._ledger.scores = tuple(results.scores)

    async def _outputs(self, game: Unit, *names: str) -> None:
        targets = {RESULTS: (self._layout.results, MAX_RESULTS_BYTES), REPLAY: (self._layout.replay, REPLAY_LIMIT)}
        left = [name for name in names if name not in self._collected]
        wanted = [Wanted(unit=game, name=name, target=targets[name][0], limit=targets[name][1]) for name in left]
        await self._fetch_all(*wanted)
        self._collected.update(left)

    async def _fetch_all(self, *wanted: Wanted, room: SpaceLeft | None = None) -> None:
        await fetch_all(wanted, seconds=self._setup.options.collect_timeout_seconds, tell=self._take, room=room)

    async def _take(self, wanted: Wanted, fetched: Fetched) -> None:
        unit = wanted.unit.spec
        if isinstance(fetched, int):
            self._ledger.publish(ArtifactCollected(name=self._layout.relative(wanted.target), size=fetched))
        elif isinstance(fetched, FileNotFoundError):
            return
        elif wanted.name == RESULTS and fetched.code == "file_too_large":
            self._judged = True
            await self._ledger.see("results_malformed", "game", details=fetched.message)
        elif unit.component == "game" and wanted.name not in (RESULTS, REPLAY):
            await self._ledger.see("not_kept", unit.component, error=fetched)
        else:
            await self._ledger.see("not_collected", unit.component, unit.slot, error=fetched)
