"""Lobbies: games of a league that people and policies play together."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from coworld_core.api import (
    Lobby,
    LobbyBody,
    LobbySeatBody,
    LobbySeatChangeBody,
    LobbyStartBody,
    SeatKind,
    check_id,
)
from coworld_core.manifest.game_config import is_variant_pattern
from coworld_core.records.labels import check_labels

from ..transport._connection import path
from ..transport._replies import read
from ._base import Resource
from ._variants import coworld_of_league, variant_of

__all__ = ["Lobbies"]


class Lobbies(Resource):
    """Games of a league that people and policies play together, from the draft to the end."""

    async def create(
        self,
        league_id: str,
        *,
        variant: str | None = None,
        players: int | None = None,
        seats: Sequence[LobbySeatBody] = (),
        overrides: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> Lobby:
        """Draft a lobby; it can be started for an hour. You are its host.

        Args:
            league_id: Id of the league, or its name.
            variant: The variant to play, or a pattern (`small-*`) that matches only one; by default the league's.
            players: The number of seats that are not closed; by default the variant's.
            seats: Seats that differ from the default, in which you have seat 0 and the newest champion seat 1.
            overrides: Keys of the game config that replace the variant's.
            labels: Labels of its game and of the episode that it becomes; the answer's `tags` is None on platforms that
                keep none.
            timeout: Seconds for each attempt.
            idempotency_key: The key of an earlier call, to get the same lobby instead of another one.

        Raises:
            BadRequest: If the seats or settings do not fit the game.
            UsageError: No variant matches the pattern, or several do.
        """
        league_id = await self._client.leagues.id_of(league_id, timeout=timeout)
        if variant is not None and is_variant_pattern(variant):
            variant = await variant_of(self._client, await coworld_of_league(self._client, league_id), variant)
        key = idempotency_key or str(uuid.uuid4())
        body = LobbyBody.of(
            idempotency_key=key,
            variant_id=variant,
            num_players=players,
            seats=tuple(seats) or None,
            game_config_overrides=None if overrides is None else dict(overrides),
            tags=check_labels(labels) if labels else None,
        )
        target = path("/v2/leagues/{}/lobbies", league_id)
        return await self._post(Lobby, target, body, timeout=timeout, idempotency_key=key)

    async def get(self, lobby_id: str, *, timeout: float | None = None) -> Lobby:
        """One lobby, with what you can do.

        Raises:
            NotFound: If there is none that you may see.
        """
        return await self._get(Lobby, _place(lobby_id), timeout=timeout)

    async def seat(
        self,
        lobby_id: str,
        position: int,
        kind: SeatKind,
        *,
        player: str | None = None,
        revision: int | None = None,
        timeout: float | None = None,
    ) -> Lobby:
        """Decide who sits in a seat of your draft that no person has.

        Args:
            lobby_id: `lby_…`.
            position: The seat, from 0.
            kind: Who is to sit there.
            player: For `league_player`, the player.
            revision: The revision of the lobby that you have seen; None: the present one.
            timeout: Seconds for each attempt.

        Raises:
            Conflict: If the lobby has another revision, a person has the seat, or it is no draft any more.
        """
        if revision is None:
            revision = (await self.get(lobby_id, timeout=timeout)).revision
        body = LobbySeatChangeBody.of(kind=kind, player_id=player, expected_revision=revision)
        target = f"{_place(lobby_id)}/seats/{position}"
        return read(Lobby, await self._connection.call("PUT", target, json=body.to_wire(), timeout=timeout))

    async def claim(self, lobby_id: str, position: int, *, timeout: float | None = None) -> Lobby:
        """Take an open seat of a draft, leaving the one that you may have.

        Raises:
            Conflict: If it is not open.
        """
        return await self._post(Lobby, f"{_place(lobby_id)}/seats/{position}/claim", timeout=timeout)

    async def remove(self, lobby_id: str, position: int, *, timeout: float | None = None) -> Lobby:
        """Remove a person from a seat of your draft.

        Raises:
            Conflict: If nobody sits there.
        """
        target = f"{_place(lobby_id)}/seats/{position}/player"
        return read(Lobby, await self._connection.call("DELETE", target, timeout=timeout))

    async def leave(self, lobby_id: str, *, timeout: float | None = None) -> Lobby:
        """Leave your seat of a draft.

        Raises:
            Conflict: If you have none.
        """
        return await self._post(Lobby, f"{_place(lobby_id)}/leave", timeout=timeout)

    async def start(
        self,
        lobby_id: str,
        *,
        revision: int | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> Lobby:
        """Start the game of your draft. Its `session_id` is a play session: `api.hosted.join` has your seat's link.

        Args:
            lobby_id: `lby_…`.
            revision: The revision of the lobby that you have seen; None: the present one.
            timeout: Seconds for each attempt.
            idempotency_key: The key of an earlier call, to get its answer instead of a refusal.

        Raises:
            Conflict: If the lobby has another revision, a seat waits for a person, or a program may not run there.
        """
        if revision is None:
            revision = (await self.get(lobby_id, timeout=timeout)).revision
        key = idempotency_key or str(uuid.uuid4())
        body = LobbyStartBody.of(idempotency_key=key, expected_revision=revision)
        target = f"{_place(lobby_id)}/start"
        return await self._post(Lobby, target, body, timeout=timeout or 120, idempotency_key=key)

    async def cancel(self, lobby_id: str, *, timeout: float | None = None) -> Lobby:
        """Cancel your draft.

        Raises:
            Conflict: If it has been started, or has expired.
        """
        return await self._post(Lobby, f"{_place(lobby_id)}/cancel", timeout=timeout)

    async def end(self, lobby_id: str, *, timeout: float | None = None) -> Lobby:
        """End the game of your lobby; nothing of it is kept.

        Raises:
            Conflict: If it has not been started.
        """
        return await self._post(Lobby, f"{_place(lobby_id)}/end", timeout=timeout or 60)


def _place(lobby_id: str) -> str:
    return path("/v2/lobbies/{}", check_id(lobby_id, "lobby"))
