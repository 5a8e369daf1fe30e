"""A game that was played, for notebooks: any state of it, what anybody saw, and how else it could have gone on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from coworld_core.episode.record import EpisodeRecord
from coworld_core.errors import UsageError
from coworld_core.rules import (
    Eye,
    EyeView,
    Rules,
    RulesReplay,
    Trajectory,
    eye_view,
    load_rules,
    play_again,
    read_replay,
    trajectory,
)

from ..package.kit_programs import rules_served
from ..package.resolver import Package
from .chances import ChanceReport, run_chances
from .forks import ForkReport, FoundGame, find_game, fork_run
from .worker_venue import NOT_OF_THE_KIT

__all__ = ["PlayedGame", "played_game"]


async def played_game(
    run: EpisodeRecord | str | os.PathLike[str], *, game: Package | str | os.PathLike[str] | None = None
) -> PlayedGame:
    """Open a game of the kit that was played, to look into it; its rules are loaded into this process.

    ::

        game = await played_game("results/latest")
        game.view(0, 12)
        await game.fork(12, {0: "new.py"}, times=100)

    Args:
        run: The directory of its episode, its path as in `find_episode`, or the record.
        game: The Coworld; None: the one that the record names, as long as its manifest is what it was.

    Raises:
        UsageError: As for `fork_run`; or the record does not know its directory (`workspace_unknown`).
        EnvironmentFault: The machine failed.
    """
    if isinstance(run, EpisodeRecord):
        run = run.layout.workspace
    found = await find_game(run, game=game)
    if not found.of_the_kit:
        raise UsageError(f"Its rules cannot be asked: {NOT_OF_THE_KIT}.", code="not_replayable")
    return PlayedGame(found=found)


@dataclass(frozen=True, kw_only=True)
class PlayedGame:
    """A game of the kit that was played.

    Attributes:
        found: Its files, its record and its Coworld.
    """

    found: FoundGame = field(repr=False)

    @cached_property
    def replay(self) -> RulesReplay:
        """Its replay."""
        return read_replay(self.found.data, source=str(self.found.layout.replay))

    @cached_property
    def rules(self) -> type[Rules]:
        """Its rules."""
        manifest = self.found.package.manifest
        served = rules_served(manifest)
        assert served is not None
        return load_rules(served[1], directory=self.found.package.contexts[manifest.game.runnable.image])

    def state(self, tick: int) -> Rules:
        """The rules at a tick, which are the state; a new instance each time, to be changed at will.

        Raises:
            RulesError: The rules do not play it again as it was.
        """
        return play_again(self.rules, self.replay, until=self._tick(tick)).rules

    def view(self, eye: Eye, tick: int) -> EyeView:
        """What a seat, `"public"` or `"all"` saw at a tick; in a notebook it is shown inline.

        Raises:
            ReplayFormatError: The rules do not play it again as it was.
            UsageError: There is no such tick.
        """
        return eye_view(self.rules, self.replay, eye, tick=self._tick(tick))

    def trajectory(self) -> Trajectory:
        """What every seat saw and did, as rows for data frames."""
        return trajectory(self.rules, self.replay)

    async def fork(
        self, tick: int, players: Mapping[int, str] | None = None, *, times: int = 1, seed: int = 0
    ) -> ForkReport:
        """Continue it another way from a tick; the arguments and errors are those of `fork_run`."""
        place, package = self.found.layout.workspace, self.found.package
        return await fork_run(place, at=tick, players=players, times=times, seed=seed, game=package)

    async def chances(self, *, seconds: float = 20.0, players: Mapping[int, str] | None = None) -> ChanceReport:
        """How likely each seat was to win as it went on; the arguments and errors are those of `run_chances`."""
        place, package = self.found.layout.workspace, self.found.package
        return await run_chances(place, seconds=seconds, players=players, game=package)

    def _tick(self, tick: int) -> int:
        last = len(self.replay.ticks) - 1
        if not 0 <= tick <= last:
            raise UsageError(f"There is no tick {tick}: the game went from 0 to {last}.", code="tick_unknown")
        return tick
