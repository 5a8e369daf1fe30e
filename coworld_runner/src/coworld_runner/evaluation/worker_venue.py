"""Playing games of the kit in worker processes of this machine, without sockets: when that is possible, and how.

The rules are loaded by workers, as many as there are processors, and each player by a process of its own. The episodes
are those of the same plans with the same seeds as on any backend.
"""

from __future__ import annotations

from collections.abc import Iterator

from coworld_core.errors import CapabilityError, CoworldError
from coworld_core.manifest.models import GAME_HOSTED

from ..episode.backend_choice import runs_as_processes
from ..episode.episode_options import EpisodeOptions
from ..episode.venue import Take, Venue, VenueRun, Wanted
from ..kit.rollout.match_process import PLAY_PROGRAMS
from ..package.kit_programs import rules_served
from ..package.resolver import Package
from .worker_play import WorkerPlay
from .worker_pool import WorkerPool
from .worker_rows import WORKERS

__all__ = ["NOT_OF_THE_KIT", "WorkerVenue", "refused"]

NOT_OF_THE_KIT = "the game is not one of the kit"
"""The usual reason why a game is not played here."""


class WorkerVenue(WorkerPool, Venue):
    """Plays games of the kit in worker processes; the arguments are those of `WorkerPool`."""

    name = WORKERS
    hurried = 0.1

    def check(self, run: VenueRun) -> None:
        """Refuse hooks: they change one episode at a time, and not who plays in it."""
        if run.hooks:
            raise CapabilityError(
                "Games that are played in worker processes are played without hooks.", hint=PLAY_PROGRAMS
            )

    async def play(
        self, run: VenueRun, wanted: Iterator[Wanted], take: Take, *, fatal: tuple[type[CoworldError], ...] = ()
    ) -> None:
        """Play episodes in chunks; see `Venue.play`."""
        del fatal
        await WorkerPlay(self, run, wanted, take).through()


def refused(package: Package, options: EpisodeOptions | None) -> str:
    """Why a package is not played in worker processes; empty if that may be possible."""
    game = package.manifest.game
    if rules_served(package.manifest) is None or game.player_runtime == GAME_HOSTED:
        return NOT_OF_THE_KIT
    if package.fetched:
        return "the package comes from elsewhere"
    if reason_against := runs_as_processes(package):
        return reason_against
    if options is not None and options.record != "off":
        return "what is played is to be recorded"
    if options is not None and options.models is not None:
        return "programs are to ask models"
    return "something is to be enforced" if options is not None and (options.required or options.player_https) else ""
