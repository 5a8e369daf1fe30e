"""Leagues."""

from __future__ import annotations

from coworld_core.api import LadderEntry, League, check_id

from ..pages import AsyncPager
from ..transport._connection import path
from ..transport._replies import read, read_list
from ._base import Resource, optional_id

__all__ = ["Leagues"]


class Leagues(Resource):
    """Leagues: a game, and who plays it under which rules."""

    def list(
        self,
        *,
        game: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncPager[League]:
        """All leagues you may see, or those of a game (``game_…``)."""
        params = {"game_id": optional_id(game, "game")}
        return self._list(League, "/v2/leagues", params, limit=limit, offset=offset, whole=True, timeout=timeout)

    async def get(self, league_id: str, *, timeout: float | None = None) -> League:
        """One league.

        Raises:
            NotFound: There is none, or it is not yours to see.
        """
        return await self._get(League, path("/v2/leagues/{}", check_id(league_id, "league")), timeout=timeout)

    async def game_of_week(self, *, timeout: float | None = None) -> League | None:
        """This week's league, or None when there is none."""
        reply = await self._connection.call("GET", "/v2/leagues/game-of-week", timeout=timeout)
        return None if reply.json() is None else read(League, reply)

    async def ladder(self, league_id: str, *, timeout: float | None = None) -> tuple[LadderEntry, ...]:
        """A league's divisions and how many play in each."""
        target = path("/v2/leagues/{}/division-ladder", check_id(league_id, "league"))
        return read_list(LadderEntry, await self._connection.call("GET", target, timeout=timeout))

    async def guide(self, league_id: str, *, timeout: float | None = None) -> str:
        """How to take part in a league, as Markdown, on servers that tell.

        Raises:
            NotFound: There is no such league, or the server does not tell.
        """
        params = {"league_id": check_id(league_id, "league")}
        return (await self._connection.call("GET", "/v2/participate", params=params, timeout=timeout)).text
