"""Requests for leagues, for the platform's team."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coworld_core.api import LeagueSeed, LeagueSeedBody

from ..pages import AsyncPager
from ._base import Resource

__all__ = ["LeagueSeeds"]


class LeagueSeeds(Resource):
    """Requests for leagues, for the platform's team."""

    def list(self, *, limit: int | None = None, timeout: float | None = None) -> AsyncPager[LeagueSeed]:
        """All requests for leagues."""
        return self._list(LeagueSeed, "/v2/coworld-league-seeds", limit=limit, whole=True, timeout=timeout)

    async def create(
        self,
        coworld_name: str,
        *,
        template: str = "commissioner_driven",
        overrides: Mapping[str, Any] | None = None,
        enabled: bool = True,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> LeagueSeed:
        """Request a league for a Coworld.

        Args:
            coworld_name: Name of the Coworld.
            template: Kind of league.
            overrides: Differences from the template.
            enabled: Whether the request takes effect.
            timeout: Seconds for each attempt.
            idempotency_key: The key of an earlier call, to get the same request instead of another one.

        Raises:
            Forbidden: If you are not in the team.
        """
        body = LeagueSeedBody.of(
            coworld_name=coworld_name,
            template=template,
            overrides=dict(overrides) if overrides is not None else None,
            enabled=enabled,
        )
        return await self._post(
            LeagueSeed, "/v2/coworld-league-seeds", body, timeout=timeout, idempotency_key=idempotency_key
        )
