"""Where planned episodes are played: the contract between a run of many episodes and what plays them."""

from __future__ import annotations

import abc
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from coworld_core.episode.layout import directory_of
from coworld_core.episode.record import EpisodeRow
from coworld_core.errors import CoworldError

from ..backend import Backend, Publish
from ..package.plan import EpisodePlan, Seat
from ..runs.event_bus import Listener
from .episode_options import EpisodeOptions
from .parallelism import Parallel
from .plan_hooks import EpisodeHook

__all__ = ["EpisodeListeners", "Take", "Venue", "VenueRun", "Wanted", "play_attempts"]

EpisodeListeners = Callable[[str], tuple[Listener, ...]]
"""The readers of one episode's events, by its key."""

Take = Callable[[Iterable[EpisodeRow]], bool]
"""Called with rows of episodes that have ended: they are judged, written and published. It asks for no more of them
once what follows does not count, and returns whether that is so."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """An episode that is to be played."""

    index: int
    """Its number in the order requested, from 1."""
    key: str
    """Its key."""
    plan: EpisodePlan
    """What to play, with the labels of the run among its tags."""
    earlier: int = 0
    """How many attempts at it were lost before."""

    @property
    def directory(self) -> str:
        """The name of its directory."""
        return directory_of(self.key, self.earlier)


@dataclass(frozen=True, kw_only=True)
class VenueRun:
    """What a venue knows of the run whose episodes it plays."""

    run_id: str
    """The run's label."""
    workspace: Path
    """The directory of the run; each episode has one of its own in it, by its key."""
    publish: Publish
    """Publishes an event of the run."""
    parallel: Parallel | None
    """As in `BatchArguments`."""
    max_programs: int | None = None
    """As in `BatchArguments`."""
    options: EpisodeOptions | None
    """How to run each episode."""
    hooks: tuple[EpisodeHook, ...]
    """What each plan goes through before it starts."""
    episode_listeners: EpisodeListeners | None
    """Readers of one episode's events."""
    again: Callable[[Wanted, EpisodeRow], Wanted | None] = lambda episode, row: None
    """Given the row of an episode that was lost, what to play again at once; None: nothing."""
    same_players: bool = False
    """Whether hooks must leave every seat its player, because its players are measured."""
    measured: str = ""
    """The player that is measured, as in rows: its id or its image."""
    keeps_results: bool = False
    """Whether rows have the results even if these are only scores and ticks."""


async def play_attempts(
    run: VenueRun, episode: Wanted, take: Take, play: Callable[[Wanted], Awaitable[EpisodeRow]]
) -> EpisodeRow:
    """Play an episode, and again what was lost, as often as the run allows; each attempt has its row taken.

    Args:
        run: The run that it belongs to.
        episode: The episode.
        take: Takes the rows.
        play: Plays one attempt.

    Returns:
        The row of the last attempt.
    """
    while True:
        row = await play(episode)
        take((row,))
        if (again := run.again(episode, row)) is None:
            return row
        episode = again


class Venue(abc.ABC):
    """Plays planned episodes: as programs on a backend, or in worker processes.

    Whoever measures players, or only plays many episodes, says which come next and what to do with their rows, and
    does not know where they are played.
    """

    name: str
    """What rows, records and events call it, where they name a backend."""
    hurried: float = 0.0
    """Seconds between two reports of progress, at least; 0: each is published."""

    backend: Backend | None = None
    """The backend on which it starts programs, entered; None if it starts none."""

    def check(self, run: VenueRun) -> None:
        """Check that a run can be played here, before it starts.

        Raises:
            CapabilityError: It cannot.
        """
        del run

    def check_players(self, seats: Iterable[Seat]) -> None:
        """Check that players can play here, before anything starts.

        Raises:
            UsageError: One of them cannot.
        """
        del seats

    @asynccontextmanager
    async def cell(self, name: str) -> AsyncGenerator[Venue]:
        """Open the venue of one of several measurements: this one, unless each needs a place of its own.

        Args:
            name: Its name among them, a single part of a path.
        """
        del name
        yield self

    async def keep(self, name: str, data: bytes) -> None:
        """Keep a document about all of several measurements beside them, if each has a place of its own.

        Args:
            name: The document's name.
            data: What is in it.
        """
        del name, data

    async def sweep(self, run_id: str) -> None:
        """Remove what is left of an interrupted episode's programs.

        Args:
            run_id: The label of that episode.
        """
        del run_id

    @abc.abstractmethod
    async def play(
        self, run: VenueRun, wanted: Iterator[Wanted], take: Take, *, fatal: tuple[type[CoworldError], ...] = ()
    ) -> None:
        """Play episodes, as many at a time as there is room for.

        Args:
            run: The run that they belong to.
            wanted: What is to be played, taken one by one as there is room: the next may depend on the rows so far.
            take: Takes the rows.
            fatal: Errors of one episode that every other episode would have too.

        Raises:
            UsageError: A player cannot play here.
            EnvironmentFault: The machine or the engine failed.
        """
