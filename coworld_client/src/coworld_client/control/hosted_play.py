"""A game for people on a platform, as the controller of one hands it out."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import anyio

from coworld_core.api import PlaySession, PlaySessionStatus
from coworld_core.controller import (
    EPISODE_STATES,
    EpisodeEvent,
    EpisodeInfo,
    EpisodeState,
    already_ended,
    bad_cursor,
    has_ended,
)
from coworld_core.records.run_entries import SeatEntry

from ..watch import Outage, next_pause, until_ended
from .hosted_episode import HostedEpisode, KnownGames

if TYPE_CHECKING:
    from ..client import CoworldClient

__all__ = ["HostedPlay"]

_RETRY_SECONDS = 300.0


class HostedPlay:
    """A game that people play on a platform, an `EpisodeHandle`.

    Once it has been played, it is an episode too: scores, seats and faults are that episode's. One that nobody has
    played leaves no episode; it ends as `interrupted`. The platform is asked again and again, with growing pauses while
    nothing changes, so states that follow each other quickly may be told as the last of them.
    """

    def __init__(self, client: CoworldClient, games: KnownGames, id: str) -> None:
        self._client = client
        self._games = games
        self._id = id

    def __repr__(self) -> str:
        return f"<HostedPlay {self._id} of {self._client.server}>"

    @property
    def id(self) -> str:
        """Its id, `cps_<uuid>`."""
        return self._id

    async def events(self, *, after: str = "") -> AsyncGenerator[EpisodeEvent]:
        """The states that it comes into; see `EpisodeHandle.events`.

        Raises:
            UsageError: On iteration: the cursor is not one of these events (`bad_cursor`).
            ApiError: On iteration: the platform cannot be reached for some minutes, or refuses.
        """
        if after and after not in EPISODE_STATES:
            raise bad_cursor(after)
        last: EpisodeState | None = after or None
        outage = Outage(_RETRY_SECONDS)
        pause = 0.0
        while last is None or not has_ended(last):
            state = _state_of((await outage.survive(self._session)).status)
            changed, last = state != last, state
            if changed:
                yield EpisodeEvent(cursor=state, state=state)
            else:
                pause = next_pause(pause, changed=False)
                await anyio.sleep(pause)

    async def info(self) -> EpisodeInfo:
        """What is known of it now.

        Raises:
            NotFound: There is none, or you take no part in it.
        """
        return await self._info_of(await self._session())

    async def seats(self) -> tuple[SeatEntry, ...]:
        """Who sits in it so far: people and policies.

        Raises:
            NotFound: As `info`.
        """
        session = await self._session()
        if (episode := self._episode_of(session)) is not None:
            return await episode.seats()
        return tuple(
            SeatEntry(slot=seat.slot, name=seat.label or "", player_id=seat.player_id, image="", digest="", score=None)
            for seat in session.players or ()
        )

    async def results(self) -> dict[str, Any] | None:
        """The game's results, once it has been played; None: it has none."""
        episode = self._episode_of(await self._session())
        return await episode.results() if episode is not None else None

    async def terminate(self, *, hard: bool = False) -> None:
        """End it at once, whether `hard` or not; nothing of it is kept.

        Raises:
            UsageError: It has ended (`already_ended`).
            NotFound: Somebody else has started it.
        """
        session = await self._session()
        if has_ended(_state_of(session.status)):
            raise already_ended(await self._info_of(session))
        await self._client.hosted.end(self._id)

    async def result(self) -> EpisodeInfo:
        """Wait until it has ended, and return how.

        Raises:
            ApiError: The platform cannot be reached for some minutes, or refuses.
        """
        return await self._info_of(
            await until_ended(self._session, ended=lambda session: has_ended(_state_of(session.status)))
        )

    async def _session(self) -> PlaySession:
        return await self._client.hosted.get(self._id)

    async def _info_of(self, session: PlaySession) -> EpisodeInfo:
        if (episode := self._episode_of(session)) is not None:
            return (await episode.info()).model_copy(update={"id": self._id})
        name, version = await self._games.names(session.coworld_id)
        return EpisodeInfo(
            id=self._id,
            state=_state_of(session.status),
            coworld=name,
            version=version,
            variant=session.variant_id or "",
            labels=session.tags or {},
            players=tuple(seat.label or "" for seat in session.players or ()),
            created_at=session.created_at,
            ended_at=session.ended_at,
            error=session.error,
            server=self._client.server,
        )

    def _episode_of(self, session: PlaySession) -> HostedEpisode | None:
        """The episode that it has become, once it is over."""
        if session.episode_request_id is None or not has_ended(_state_of(session.status)):
            return None
        return HostedEpisode(self._client, self._games, session.episode_request_id)


def _state_of(status: PlaySessionStatus | None) -> EpisodeState:
    """The state that a status of a game stands for; an unknown one is that of a game that has begun."""
    if status is None or str(status) == "pending":
        return "pending"
    if status.is_success:
        return "completed"
    if status.is_cancelled or str(status) == "ended":
        return "interrupted"
    return "failed" if status.is_failure else "running"
