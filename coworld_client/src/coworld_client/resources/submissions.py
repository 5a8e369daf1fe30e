"""Requests to let a policy play in a league."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coworld_core.api import (
    AutoChampion,
    PolicyRef,
    Submission,
    SubmissionBody,
    SubmissionCreated,
)

from ..pages import AsyncPager
from ._base import Resource
from ._names import named

__all__ = ["Submissions"]


class Submissions(Resource):
    """Requests to let a policy play in a league."""

    def list(
        self,
        *,
        league: str | None = None,
        policy: str | PolicyRef | None = None,
        player: str | None = None,
        mine: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> AsyncPager[Submission]:
        """Submissions, newest first, filtered by each argument.

        Args:
            league: Name or id of the league.
            policy: `NAME`, `NAME:v3` or the UUID of a version; of any owner.
            player: Id or name of a player: of the league if one is named, else of yours.
            mine: Only your own.
            limit: Maximum number of rows.
            cursor: Where to start, from an earlier page.
            timeout: Seconds for each attempt.
        """
        params = {
            "mine": mine,
            "league_id": named(league, "league"),
            "player_id": named(player, "player", league=league),
        }
        return self._of_policy(
            Submission, "/v2/league-submissions", policy, params, limit=limit, cursor=cursor, timeout=timeout
        )

    async def create(
        self,
        league_id: str,
        policy: str | PolicyRef,
        *,
        auto_champion: AutoChampion = "always",
        preferences: Mapping[str, Any] | None = None,
        player: str | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> SubmissionCreated:
        """Submit one of your policies to a league. Placement may take a while; check `status` of the result.

        Args:
            league_id: Id of the league, or its name.
            policy: `NAME`, `NAME:v3`, or the UUID of a version.
            auto_champion: Whether it becomes your champion: always, never, or if it descends from the current one.
            preferences: Preferences that the league's commissioner understands.
            player: The player of yours to submit as, by name or id, on servers that let you choose.
            timeout: Seconds for each attempt.
            idempotency_key: The key of an earlier call, to get the same submission instead of another one.

        Raises:
            NotFound: You have no such policy, or there is no such league.
            Conflict: If it has already been submitted.
        """
        league_id = await self._client.leagues.id_of(league_id, timeout=timeout)
        player = await self._id(player, "player", timeout=timeout) if player is not None else None
        version = await self._client.policies.version_id(policy, timeout=timeout)
        body = SubmissionBody.of(
            league_id=league_id,
            policy_version_id=version,
            auto_champion=auto_champion,
            preferences=dict(preferences) if preferences is not None else None,
            player_id=player,
        )
        return await self._post(
            SubmissionCreated,
            "/v2/league-submissions",
            body,
            timeout=timeout or 120,
            idempotency_key=idempotency_key,
        )
