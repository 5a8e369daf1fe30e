"""Players you own."""

from __future__ import annotations

from coworld_core.api import OwnedPlayer, PlayerBody, PlayerLogin

from ..pages import AsyncPager
from ..transport._connection import path
from ._base import Resource

__all__ = ["Players"]


class Players(Resource):
    """Players you own. They can be managed with a user's token, but not with a player's session."""

    def list(self, *, limit: int | None = None, timeout: float | None = None) -> AsyncPager[OwnedPlayer]:
        """Your players."""
        return self._list(OwnedPlayer, "/players", limit=limit, whole=True, timeout=timeout)

    async def id_of(self, player: str, *, timeout: float | None = None) -> str:
        """The id of one of your players, given by its name or its id. An id is checked without asking the server.

        Raises:
            NotFound: You have no player of that name.
            UsageError: Several of your players have that name (code `ambiguous`).
        """
        return await self._id(player, "player", timeout=timeout)

    async def create(
        self, name: str, *, timeout: float | None = None, idempotency_key: str | None = None
    ) -> OwnedPlayer:
        """Create a player.

        Args:
            name: Displayed name.
            timeout: Seconds for each attempt.
            idempotency_key: The key of an earlier call, to get the same player instead of another one.
        """
        return await self._post(
            OwnedPlayer, "/players", PlayerBody.of(name=name), timeout=timeout, idempotency_key=idempotency_key
        )

    async def login(self, player_id: str, *, timeout: float | None = None) -> PlayerLogin:
        """A session to act as one of your players, given by its name or id; good for a day.

        Raises:
            NotFound: If it does not exist, or is not yours.
        """
        player_id = await self.id_of(player_id, timeout=timeout)
        return await self._post(PlayerLogin, path("/players/{}/login", player_id), timeout=timeout)
