"""Your teams."""

from __future__ import annotations

from typing import Literal

from coworld_core.api import Team, TeamBody, TeamInvitation, TeamInvitationBody, TeamJoinBody, TeamLeft

from ..pages import AsyncPager
from ..transport._connection import path
from ..transport._replies import read
from ._base import Resource

__all__ = ["Teams"]


class Teams(Resource):
    """Your teams, each given by its name or its id. What `CoworldClient(team=…)` uploads belongs to a team.

    They are managed with a user's token, not with a player's session, and in your own name.
    """

    def list(self, *, limit: int | None = None, timeout: float | None = None) -> AsyncPager[Team]:
        """Your teams with their members, by name."""
        return self._list(Team, "/v2/teams", limit=limit, whole=True, timeout=timeout)

    async def create(self, name: str, *, timeout: float | None = None, idempotency_key: str | None = None) -> Team:
        """Make a team, with you as its captain.

        Raises:
            Conflict: The name is taken, or you are in as many teams as you may be.
        """
        body = TeamBody.of(name=name)
        return await self._post(Team, "/v2/teams", body, timeout=timeout, idempotency_key=idempotency_key)

    async def invite(self, team: str, *, days: int = 14, timeout: float | None = None) -> TeamInvitation:
        """Make a link by which one person joins a team, once; it is in the answer alone.

        Args:
            team: The team.
            days: Days that it works.
            timeout: Seconds for each attempt.
        """
        body = TeamInvitationBody.of(days=days)
        return await self._post(TeamInvitation, path("/v2/teams/{}/invitations", team), body, timeout=timeout)

    async def join(self, code: str, *, timeout: float | None = None, idempotency_key: str | None = None) -> Team:
        """Join a team by the link of an invitation, or the code at its end.

        Raises:
            Conflict: You are a member already, in too many teams, or play in one of its leagues in another name.
            ApiError: The invitation was used, or has expired (status 410).
        """
        body = TeamJoinBody.of(code=code)
        return await self._post(Team, "/v2/teams/join", body, timeout=timeout, idempotency_key=idempotency_key)

    async def leave(
        self,
        team: str,
        member: str = "me",
        *,
        entries: Literal["retire", "keep"] | None = None,
        timeout: float | None = None,
    ) -> TeamLeft:
        """Leave a team, or, as its captain, take another member out of it.

        Args:
            team: The team.
            member: Who leaves: a name or an id; `me` is you.
            entries: For the last member: `retire` ends the team's entries and closes it; `keep` lets them play on.
            timeout: Seconds for each attempt.

        Raises:
            Conflict: You are the last member, and `entries` is missing (code `last_member`).
        """
        target, params = path("/v2/teams/{}/members/{}", team, member), {"entries": entries}
        return read(TeamLeft, await self._connection.call("DELETE", target, params=params, timeout=timeout))
