"""Policies in divisions."""

from __future__ import annotations

from coworld_core.api import Membership, PolicyRef, RetireBody, check_id

from ..pages import AsyncPager
from ..transport._connection import path
from ._base import Resource
from ._names import named

__all__ = ["Memberships"]


class Memberships(Resource):
    """Policies in divisions."""

    def list(
        self,
        *,
        league: str | None = None,
        division: str | None = None,
        policy: str | PolicyRef | None = None,
        player: str | None = None,
        mine: bool = False,
        active_only: bool = False,
        champions_only: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> AsyncPager[Membership]:
        """Memberships, filtered by each argument.

        Args:
            league: Name or id of the league.
            division: Name or id of the division.
            policy: `NAME`, `NAME:v3` or the UUID of a version; of any owner.
            player: Id of a player, or the name of one of yours.
            mine: Only your own.
            active_only: Only those that have not ended.
            champions_only: Only those that their owner nominates.
            limit: Maximum number of rows.
            cursor: Where to start, from an earlier page.
            timeout: Seconds for each attempt.
        """
        params = {
            "active_only": active_only,
            "champions_only": champions_only,
            "mine": mine,
            "league_id": named(league, "league"),
            "division_id": named(division, "division", league=league),
            "player_id": named(player, "player"),
        }
        return self._of_policy(
            Membership, "/v2/league-policy-memberships", policy, params, limit=limit, cursor=cursor, timeout=timeout
        )

    async def retire(
        self, membership_id: str, *, reason: str | None = None, timeout: float | None = None
    ) -> Membership:
        """End one of your memberships.

        Raises:
            Conflict: If it has already ended.
            NotFound: If it does not exist, or is not yours.
        """
        target = path("/v2/league-policy-memberships/{}/retire", check_id(membership_id, "membership"))
        body = RetireBody.of(reason=reason) if reason is not None else None
        return await self._post(Membership, target, body, timeout=timeout)

    async def nominate(self, membership_id: str, *, timeout: float | None = None) -> Membership:
        """Make one of your memberships your champion.

        Raises:
            NotFound: If it does not exist, or is not yours.
        """
        target = path("/v2/league-policy-memberships/{}/champion", check_id(membership_id, "membership"))
        return await self._post(Membership, target, timeout=timeout)
