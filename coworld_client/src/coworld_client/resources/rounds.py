"""Rounds of divisions."""

from __future__ import annotations

from coworld_core.api import Round, RoundDetail, check_id

from ..pages import AsyncPager
from ..transport._connection import path
from ._base import Resource
from ._names import named

__all__ = ["Rounds"]


class Rounds(Resource):
    """Rounds of divisions."""

    def list(
        self,
        *,
        league: str | None = None,
        division: str | None = None,
        status: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> AsyncPager[Round]:
        """Rounds, newest first.

        Args:
            league: Only those of this league, by its name or id.
            division: Only those of this division, by its name or id.
            status: Only those with this status.
            limit: Maximum number of rows.
            offset: Number of rows to skip.
            cursor: Where to start, from an earlier page.
            timeout: Seconds for each attempt.
        """
        params = {
            "league_id": named(league, "league"),
            "division_id": named(division, "division", league=league),
            "status": status,
        }
        return self._list(
            Round,
            "/v2/rounds",
            params,
            limit=limit,
            offset=offset,
            cursor=cursor,
            page_size=200,
            timeout=timeout,
        )

    async def get(self, round_id: str, *, timeout: float | None = None) -> RoundDetail:
        """One round with its results.

        Raises:
            NotFound: If it does not exist, or you may not see it.
        """
        return await self._get(RoundDetail, path("/v2/rounds/{}", check_id(round_id, "round")), timeout=timeout)
