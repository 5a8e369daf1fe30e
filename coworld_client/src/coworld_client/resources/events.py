"""Events in leagues."""

from __future__ import annotations

from coworld_core.api import CompetitionEvent, PolicyRef

from ..pages import AsyncPager
from ._base import Resource, optional_id
from ._names import named

__all__ = ["Events"]


class Events(Resource):
    """Events in leagues."""

    def list(
        self,
        *,
        league: str | None = None,
        division: str | None = None,
        round: str | None = None,
        event_type: str | None = None,
        audience: str | None = None,
        player: str | None = None,
        policy: str | PolicyRef | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        timeout: float | None = None,
    ) -> AsyncPager[CompetitionEvent]:
        """Events, newest first, filtered by each argument.

        Args:
            league: Name or id of the league.
            division: Name or id of the division.
            round: `round_…`.
            event_type: Kind of event.
            audience: The audience that events are for.
            player: Id or name of a player: of the league if one is named, else of yours.
            policy: `NAME`, `NAME:v3` or the UUID of a version; of any owner.
            limit: Maximum number of rows.
            cursor: Where to start, from an earlier page.
            timeout: Seconds for each attempt.
        """
        params = {
            "league_id": named(league, "league"),
            "division_id": named(division, "division", league=league),
            "round_id": optional_id(round, "round"),
            "event_type": event_type,
            "audience": audience,
            "player_id": named(player, "player", league=league),
        }
        return self._of_policy(
            CompetitionEvent, "/v2/competition-events", policy, params, limit=limit, cursor=cursor, timeout=timeout
        )
