"""Divisions and their standings."""

from __future__ import annotations

from coworld_core.api import Division, Leaderboard, LeaderboardEntry

from ..pages import AsyncPager
from ..transport._connection import path
from ..transport._replies import read, read_list
from ._base import Resource
from ._names import named

__all__ = ["Divisions"]


class Divisions(Resource):
    """Divisions of leagues, each given by its id, its name, or `LEAGUE/NAME`."""

    def list(
        self,
        *,
        league: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncPager[Division]:
        """All divisions you may see, or those of a league, by its name or id."""
        params = {"league_id": named(league, "league")}
        return self._list(Division, "/v2/divisions", params, limit=limit, offset=offset, whole=True, timeout=timeout)

    async def get(self, division_id: str, *, timeout: float | None = None) -> Division:
        """One division.

        Raises:
            NotFound: If it does not exist, or you may not see it.
        """
        division_id = await self._id(division_id, "division", timeout=timeout)
        return await self._get(Division, path("/v2/divisions/{}", division_id), timeout=timeout)

    async def leaderboard(
        self, division_id: str, *, recent_rounds: int = 3, timeout: float | None = None
    ) -> tuple[LeaderboardEntry, ...]:
        """A division's standings, best first; empty when nothing has been played.

        Args:
            division_id: The division.
            recent_rounds: Number of recent rounds to include for each player, 0 or more.
            timeout: Seconds for each attempt.
        """
        target = path("/v2/divisions/{}/leaderboard", await self._id(division_id, "division", timeout=timeout))
        params = {"include_recent_rounds": recent_rounds}
        reply = await self._connection.call("GET", target, params=params, timeout=timeout)
        return read_list(LeaderboardEntry, reply)

    async def leaderboards(self, division_id: str, *, timeout: float | None = None) -> Leaderboard | None:
        """A division's standings in several views, on servers that have them; None when nothing has been played.

        Raises:
            NotFound: There is no such division, or the server has no such views.
        """
        target = path("/v2/divisions/{}/leaderboards", await self._id(division_id, "division", timeout=timeout))
        reply = await self._connection.call("GET", target, timeout=timeout)
        return None if reply.json() is None else read(Leaderboard, reply)
