"""Your own tokens."""

from __future__ import annotations

from coworld_core.api import NewToken, OwnToken, TokenBody

from ..pages import AsyncPager
from ..transport._connection import path
from ..transport._replies import read
from ._base import Resource

__all__ = ["Tokens"]


class Tokens(Resource):
    """Your own tokens. They can be managed with a user's token, but not with a player's session."""

    def list(self, *, limit: int | None = None, timeout: float | None = None) -> AsyncPager[OwnToken]:
        """Your valid tokens and sessions, newest first."""
        return self._list(OwnToken, "/credentials/tokens", limit=limit, whole=True, timeout=timeout)

    async def create(self, name: str, *, days: int | None = None, timeout: float | None = None) -> NewToken:
        """Make another token for your account; its text is in the answer alone.

        Args:
            name: What it is for.
            days: Days that it is valid; None: until revoked.
            timeout: Seconds for each attempt.
        """
        body = TokenBody.of(name=name, days=days)
        return await self._post(NewToken, "/credentials/tokens", body, timeout=timeout)

    async def revoke(self, token_id: str, *, timeout: float | None = None) -> OwnToken:
        """Revoke one of your tokens; it is refused from now on.

        Args:
            token_id: Its `id`, as in `list`.
            timeout: Seconds for each attempt.

        Raises:
            NotFound: You have no token of that id.
        """
        reply = await self._connection.call("DELETE", path("/credentials/tokens/{}", token_id), timeout=timeout)
        return read(OwnToken, reply)
