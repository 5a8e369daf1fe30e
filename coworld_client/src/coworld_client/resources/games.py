"""Games that leagues are played in."""

from __future__ import annotations

from coworld_core.api import Game

from ..pages import AsyncPager
from ._base import Resource

__all__ = ["Games"]


class Games(Resource):
    """Games that leagues are played in."""

    def list(self, *, limit: int | None = None, offset: int = 0, timeout: float | None = None) -> AsyncPager[Game]:
        """All games."""
        return self._list(Game, "/v2/games", limit=limit, offset=offset, whole=True, timeout=timeout)
