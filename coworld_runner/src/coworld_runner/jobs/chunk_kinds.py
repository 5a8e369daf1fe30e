"""The two kinds of chunks: many episodes of a game of the kit, which a pod plays in its processes, or one of images."""

from __future__ import annotations

import abc
from collections.abc import Collection, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Self

from coworld_core.episode.record import EpisodeRow
from coworld_core.errors import CapabilityError, UsageError
from coworld_core.hints import Hint

from ..backend import Publish
from ..episode.episode_options import EpisodeOptions
from ..episode.venue import VenueRun, Wanted
from ..evaluation.worker_pool import WorkerPool
from ..evaluation.worker_venue import refused
from ..kit.rollout.match_process import PLAY_PROGRAMS
from ..package.plan import EpisodePlan, Seat
from ..package.resolver import Package
from .episode_job import refuse_programs
from .job_files import PackedPackage, pack_manifest, pack_package
from .job_pods import JobPods
from .job_store import JobStore

__all__ = ["ChunkKind", "ImageChunks", "KitChunks"]

_FIRST = 32
"""Episodes in the first chunk of a game of the kit."""
_MOST = 4096
_SECONDS = 30.0
"""Seconds that a pod is to play such a chunk: its rows come when it has ended."""
_ONE_BY_ONE = Hint("play_images", "The backend kubernetes starts programs one by one.")


class ChunkKind(abc.ABC):
    """What the chunks of a run have in common, as its driver sees it; use as an asynchronous context manager.

    Args:
        package: The game.

    Attributes:
        size: How many episodes the next chunk has, at most.
    """

    programs: bool
    """Whether game and players are programs of images."""
    ahead: int
    """How many chunks are sent for each that is played at a time: with more than one, none is waited for."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self.size = 1

    async def __aenter__(self) -> Self:
        """Make room for what is checked."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Give it back."""
        del exc

    def check(self, run: VenueRun) -> None:
        """Refuse what pods cannot honour.

        Raises:
            CapabilityError: There are hooks, or options that such pods do not have.
        """
        if reason := "hooks change their plans one by one" if run.hooks else self.reason_against(run.options):
            raise CapabilityError(
                f"Pods of a cluster cannot play this from a store: {reason}.", code="not_portable", hint=_ONE_BY_ONE
            )

    def reason_against(self, options: EpisodeOptions | None) -> str:
        """Why the game cannot be played with these options; empty if it can."""
        del options
        return ""

    @abc.abstractmethod
    def pack(self) -> PackedPackage:
        """Pack what pods need of the package. Blocks.

        Raises:
            UsageError: It cannot be sent.
        """

    def require(self, plan: EpisodePlan) -> None:
        """Check that an episode can be played there.

        Raises:
            UsageError: Somebody in it cannot play there.
        """
        self.require_players(plan.seats)

    @abc.abstractmethod
    def require_players(self, seats: Iterable[Seat]) -> None:
        """Check that players can play there.

        Raises:
            UsageError: One of them cannot.
        """

    def know(self, number: int, episode: Wanted) -> None:
        """Learn the plan of an episode that is in a chunk that was sent before."""
        del number, episode

    async def send(self, pods: JobPods | None, store: JobStore, number: int, episodes: Sequence[Wanted]) -> None:
        """See that a chunk that has just been sent is played."""
        del pods, store, number, episodes

    async def look(self, pods: JobPods, store: JobStore, numbers: Collection[int]) -> None:
        """See that the chunks that are under way are played."""
        del pods, store, numbers

    async def settle(self, pods: JobPods | None, number: int, rows: Sequence[EpisodeRow]) -> None:
        """Learn from a chunk that was played."""
        del pods, number, rows


class KitChunks(ChunkKind):
    """Chunks of a game of the kit: so long that it does not matter what they cost beside the games."""

    programs = False
    ahead = 2

    def __init__(self, package: Package) -> None:
        super().__init__(package)
        self.size = _FIRST
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._seats = await self._stack.enter_async_context(WorkerPool(self.package, workers=1))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def reason_against(self, options: EpisodeOptions | None) -> str:
        """Why it is not played in the processes of a pod."""
        return refused(self.package, options)

    def pack(self) -> PackedPackage:
        """Pack its directory."""
        return pack_package(self.package)

    def require_players(self, seats: Iterable[Seat]) -> None:
        """Refuse players that are programs."""
        for seat in seats:
            if self._seats.player(seat) is None:
                raise UsageError(
                    f"{seat.player_name or seat.name} cannot play in a pod: it is a program of its own.",
                    code="player_not_portable",
                    hint=PLAY_PROGRAMS,
                )

    async def settle(self, pods: JobPods | None, number: int, rows: Sequence[EpisodeRow]) -> None:
        """Make the next ones longer or shorter."""
        took = sum(row.seconds for row in rows)
        if took < _SECONDS / 2 and len(rows) >= self.size:
            self.size = min(2 * self.size, _MOST)
        elif took > 2 * _SECONDS:
            self.size = max(self.size // 2, 1)


class ImageChunks(ChunkKind):
    """Chunks of one episode each, which is programs of images.

    Args:
        package: The game.
        isolated: Whether each program has a pod of its own; otherwise, all have one.
    """

    programs = True
    ahead = 1

    def __init__(self, package: Package, *, isolated: bool = False) -> None:
        super().__init__(package)
        self._isolated = isolated
        self._plans: dict[int, EpisodePlan] = {}
        """The plans of episodes under way, by their chunk."""
        self._options = EpisodeOptions()
        self._publish: Publish = lambda event: None

    def check(self, run: VenueRun) -> None:
        """Refuse what the containers of one pod do not have, too."""
        super().check(run)
        self._options = run.options or EpisodeOptions()
        self._publish = run.publish
        refuse_programs(self._options, isolated=self._isolated)

    def pack(self) -> PackedPackage:
        """Pack its manifest."""
        return pack_manifest(self.package)

    def require_players(self, seats: Iterable[Seat]) -> None:
        """Refuse what is not an image: a pod is made before anything of ours runs in it."""
        for seat in seats:
            if seat.own is not None or seat.runnable is None or seat.secret_files:
                raise UsageError(
                    f"{seat.player_name or seat.name} cannot play in a pod of images: it is no image.",
                    code="player_not_portable",
                    hint="Build an image of it, or let the backend kubernetes play.",
                )

    def require(self, plan: EpisodePlan) -> None:
        """Refuse games that need more than containers, too."""
        super().require(plan)
        if plan.game_hosts or plan.extra_ports or plan.secret_files:
            raise UsageError(
                f"{plan.manifest.game.name} cannot play in a pod of images: it runs its players itself, or has ports "
                "or secrets of its own.",
                code="game_not_portable",
                hint=_ONE_BY_ONE,
            )

    def know(self, number: int, episode: Wanted) -> None:
        """Keep the plan: its pod may have to be made again."""
        self._plans[number] = episode.plan

    async def send(self, pods: JobPods | None, store: JobStore, number: int, episodes: Sequence[Wanted]) -> None:
        """Have a pod made for it."""
        self.know(number, episodes[0])
        if pods is not None:
            await self._have_played(pods, store, number)

    async def look(self, pods: JobPods, store: JobStore, numbers: Collection[int]) -> None:
        """Have a pod made for each that has none any more."""
        for number in sorted(self._plans.keys() & numbers):
            await self._have_played(pods, store, number)

    async def _have_played(self, pods: JobPods, store: JobStore, number: int) -> None:
        await pods.play_episode(
            store, number, self._plans[number], self._options, self._publish, isolated=self._isolated
        )

    async def settle(self, pods: JobPods | None, number: int, rows: Sequence[EpisodeRow]) -> None:
        """Remove its pod."""
        self._plans.pop(number, None)
        if pods is not None:
            await pods.clear_episode(number)
