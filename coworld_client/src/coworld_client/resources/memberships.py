"""Policies in divisions."""

from __future__ import annotations

from coworld_core.api import Membership, PolicyRef, RetireBody, is_id
from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.text import listed

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
            player: Id or name of a player: of the league if one is named, else of yours.
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
            "player_id": named(player, "player", league=league),
        }
        return self._of_policy(
            Membership, "/v2/league-policy-memberships", policy, params, limit=limit, cursor=cursor, timeout=timeout
        )

    async def id_of(self, membership: str, *, league: str | None = None, timeout: float | None = None) -> str:
        """The id of a membership of yours: given by its id, or by its policy; then the one that joined last.

        Args:
            membership: `lpm_…`, or the policy: `NAME`, `NAME:v3` or the UUID of a version.
            league: Name or id of the league, needed if the policy is in several.
            timeout: Seconds for each attempt.

        Raises:
            UsageError: The policy is in no league as one of yours (code `not_a_member`), or in several
                (`several_leagues`).
        """
        if is_id(membership, "membership"):
            return membership
        rows = await self.list(league=league, policy=membership, mine=True, timeout=timeout)
        active = {row.id: row.league for row in rows if row.end_time is None}
        if not active:
            left = sorted({row.league.name for row in rows})
            nowhere = f"is not in {league or 'any league'} as a policy of yours"
            raise UsageError(
                f"{membership} {f'has left {listed(left)}' if left else nowhere}.",
                code="not_a_member",
                hint=Hint("list_memberships", "api.memberships.list(mine=True) has those that are."),
            )
        if len({where.id for where in active.values()}) > 1:
            names = listed(f"{where.id} ({where.name})" for where in active.values())
            raise UsageError(
                f"{membership} is in several leagues: {names}.",
                code="several_leagues",
                hint=Hint("name_league", "Name one: league=…"),
            )
        return next(iter(active))

    async def retire(
        self,
        membership: str,
        *,
        league: str | None = None,
        reason: str | None = None,
        timeout: float | None = None,
    ) -> Membership:
        """End one of your memberships.

        Args:
            membership: Its id or its policy, as for `id_of`.
            league: Name or id of the league, needed if the policy is in several.
            reason: Why, for later readers.
            timeout: Seconds for each attempt.

        Raises:
            UsageError: The policy is in no league, or in several.
            Conflict: If it has already ended.
            NotFound: If it does not exist, or is not yours.
        """
        which = await self.id_of(membership, league=league, timeout=timeout)
        target = path("/v2/league-policy-memberships/{}/retire", which)
        body = RetireBody.of(reason=reason) if reason is not None else None
        return await self._post(Membership, target, body, timeout=timeout)

    async def nominate(self, membership: str, *, league: str | None = None, timeout: float | None = None) -> Membership:
        """Make one of your memberships your champion; see `retire` for the arguments.

        Raises:
            UsageError: The policy is in no league, or in several.
            NotFound: If it does not exist, or is not yours.
        """
        which = await self.id_of(membership, league=league, timeout=timeout)
        target = path("/v2/league-policy-memberships/{}/champion", which)
        return await self._post(Membership, target, timeout=timeout)
