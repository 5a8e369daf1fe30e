"""Games and replays that run on the platform."""

from __future__ import annotations

from collections.abc import Mapping

from coworld_core.api import (
    HostedReplaySession,
    JoinedSession,
    PlaySession,
    PlaySessionBody,
    ReplaySessionBody,
    check_id,
)
from coworld_core.records.labels import check_labels

from ..transport._connection import path
from ..transport._replies import read
from ._base import Resource
from ._episode_places import Episode, replay_coworld
from ._variants import variant_of

__all__ = ["Hosted"]


class Hosted(Resource):
    """Games and replays that run on the platform, to be played and watched in a browser."""

    async def create(
        self,
        coworld_id: str,
        *,
        variant: str | None = None,
        spectators: bool = True,
        labels: Mapping[str, str] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> PlaySession:
        """Start a game. Anyone who has one of its links can enter.

        Args:
            coworld_id: `cow_…`, or a name for its canonical version.
            variant: The variant to play, or a pattern (`small-*`) that matches only one.
            spectators: Whether anyone with the link may watch.
            labels: Labels of the episode that it becomes; the answer's `tags` is None on platforms that keep none.
            timeout: Seconds for each attempt.
            idempotency_key: The key of an earlier call, to get the same game instead of another one.

        Raises:
            UsageError: No variant matches the pattern, or several do.
        """
        coworld_id = await self._id(coworld_id, "coworld", timeout=timeout)
        variant = await variant_of(self._client, coworld_id, variant) if variant is not None else None
        body = PlaySessionBody.of(
            coworld_id=coworld_id,
            variant_id=variant,
            allow_spectators=spectators,
            tags=check_labels(labels) if labels else None,
        )
        target = "/v2/coworlds/play/session"
        return await self._post(PlaySession, target, body, timeout=timeout or 120, idempotency_key=idempotency_key)

    async def get(self, session_id: str, *, timeout: float | None = None) -> PlaySession:
        """A game that you have started, or sit in, also after its end. Not every platform supports this.

        Raises:
            NotFound: If there is none, or you take no part in it.
        """
        target = path("/v2/coworlds/play/session/{}", check_id(session_id, "play session"))
        return await self._get(PlaySession, target, timeout=timeout)

    async def join(
        self, session_id: str, *, timeout: float | None = None, idempotency_key: str | None = None
    ) -> JoinedSession:
        """Take a seat in a game.

        Raises:
            Conflict: If no seat is left.
            Gone: If the game is over.
        """
        target = path("/v2/coworlds/play/session/{}/join", check_id(session_id, "play session"))
        return await self._post(JoinedSession, target, timeout=timeout or 60, idempotency_key=idempotency_key)

    async def end(self, session_id: str, *, timeout: float | None = None) -> PlaySession:
        """End a game that you have started; nothing of it is kept. Not every platform supports this.

        Raises:
            NotFound: If there is none, or somebody else started it.
        """
        target = path("/v2/coworlds/play/session/{}", check_id(session_id, "play session"))
        return read(PlaySession, await self._connection.call("DELETE", target, timeout=timeout or 60))

    async def replay_session(self, episode: Episode, *, timeout: float | None = None) -> HostedReplaySession:
        """Start a viewer of an episode's replay. A server may answer 503 while it starts; the call is then retried.

        Args:
            episode: The episode.
            timeout: Seconds for each attempt.

        Raises:
            EpisodeError: It has no replay, or none yet (`no_replay`).
        """
        row = await self._client.episodes.get(episode) if isinstance(episode, str) else episode
        body = ReplaySessionBody.of(
            coworld_id=check_id(replay_coworld(row), "coworld"), episode_id=row.episode_id, replay_uri=row.replay_url
        )
        return await self._post(HostedReplaySession, "/v2/coworlds/replays/session", body, timeout=timeout or 60)
