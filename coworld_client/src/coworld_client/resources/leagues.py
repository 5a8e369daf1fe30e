"""Leagues."""

from __future__ import annotations

from typing import Literal

from coworld_core.api import LadderEntry, League, LeagueOfficer, LeagueOfficerBody, LeagueSeason
from coworld_core.errors import UsageError
from coworld_core.hints import Hint
from coworld_core.text.phrases import plural

from ..pages import AsyncPager
from ..transport._connection import path
from ..transport._replies import read, read_list
from ._base import Resource
from ._names import named

__all__ = ["Leagues"]


class Leagues(Resource):
    """Leagues: games, their players and the rules of the competition. Each is given by its name or its id."""

    def list(
        self,
        *,
        game: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        timeout: float | None = None,
    ) -> AsyncPager[League]:
        """All leagues you may see, or those of a game, by its name or id."""
        params = {"game_id": named(game, "game")}
        return self._list(League, "/v2/leagues", params, limit=limit, offset=offset, whole=True, timeout=timeout)

    async def get(self, league_id: str, *, timeout: float | None = None) -> League:
        """One league.

        Raises:
            NotFound: If it does not exist, or you may not see it.
        """
        return await self._get(
            League, path("/v2/leagues/{}", await self.id_of(league_id, timeout=timeout)), timeout=timeout
        )

    async def id_of(self, league: str, *, timeout: float | None = None) -> str:
        """The id of a league that is given by its name or its id. An id is checked without asking the server.

        Raises:
            NotFound: There is no league of that name that you may see.
            UsageError: Several leagues have that name (code `ambiguous`).
        """
        return await self._id(league, "league", timeout=timeout)

    async def only_division(self, league: str, *, timeout: float | None = None) -> str:
        """The id of a league's division, if it has only one.

        Raises:
            NotFound: There is no such league.
            UsageError: It has several divisions, or none (code `division_needed`).
        """
        ladder = await self.ladder(league, timeout=timeout)
        if len(ladder) == 1:
            return ladder[0].id
        named = ", ".join(f"{row.id} ({row.name})" for row in ladder)
        raise UsageError(
            f"The league {league!r} has {plural(len(ladder), 'division')}.",
            code="division_needed",
            hint=Hint("name_division", "Name one: {divisions}.", divisions=named) if ladder else None,
        )

    async def officers(self, league: str, *, timeout: float | None = None) -> tuple[LeagueOfficer, ...]:
        """The people who help to run a league, organisers first."""
        target = path("/v2/leagues/{}/officers", await self.id_of(league, timeout=timeout))
        return tuple(read_list(LeagueOfficer, await self._connection.call("GET", target, timeout=timeout)))

    async def appoint(
        self,
        league: str,
        user: str,
        role: Literal["organiser", "assistant", "none"],
        *,
        timeout: float | None = None,
    ) -> tuple[LeagueOfficer, ...]:
        """Give somebody a role in a league, or take it away (`none`); returns all who have one.

        Organisers see everything of their league, retire entries and name assistants, who see everything. Operators of
        the platform name organisers, with `elevated=True`.

        Raises:
            Forbidden: You may not.
            NotFound: There is no such league or account.
        """
        target = path("/v2/leagues/{}/officers", await self.id_of(league, timeout=timeout))
        body = LeagueOfficerBody.of(user=user, role=role).to_wire()
        return tuple(read_list(LeagueOfficer, await self._connection.call("PUT", target, json=body, timeout=timeout)))

    def seasons(self, league_id: str, *, timeout: float | None = None) -> AsyncPager[LeagueSeason]:
        """The finished seasons of a league, newest first, on servers that archive them."""
        of = named(league_id, "league")
        return self._list(LeagueSeason, "/v2/leagues/{}/seasons", of=of, whole=True, timeout=timeout)

    async def season(self, league_id: str, number: int | None = None, *, timeout: float | None = None) -> LeagueSeason:
        """A season of a league: its tables, and who moved; `to_records()` and `to_pandas()` give them as one table.

        Args:
            league_id: The league.
            number: The season; None: the running one, as if it ended now.
            timeout: Seconds for each attempt.

        Raises:
            NotFound: There is no such league or season, or the server has none.
        """
        target = path("/v2/leagues/{}/seasons/{}", await self.id_of(league_id, timeout=timeout), str(number or 0))
        return await self._get(LeagueSeason, target, timeout=timeout)

    async def game_of_week(self, *, timeout: float | None = None) -> League | None:
        """The league of the week, or None."""
        reply = await self._connection.call("GET", "/v2/leagues/game-of-week", timeout=timeout)
        return None if reply.json() is None else read(League, reply)

    async def ladder(self, league_id: str, *, timeout: float | None = None) -> tuple[LadderEntry, ...]:
        """A league's divisions, with the number of policies in each."""
        target = path("/v2/leagues/{}/division-ladder", await self.id_of(league_id, timeout=timeout))
        return read_list(LadderEntry, await self._connection.call("GET", target, timeout=timeout))

    async def guide(self, league_id: str, *, timeout: float | None = None) -> str:
        """Instructions for taking part in a league, as Markdown, on servers that have them.

        Raises:
            NotFound: If there is no such league, or the server has no instructions.
        """
        params = {"league_id": await self.id_of(league_id, timeout=timeout)}
        return (await self._connection.call("GET", "/v2/participate", params=params, timeout=timeout)).text
