"""Your webhooks."""

from __future__ import annotations

from coworld_core.api import NewWebhook, Webhook, WebhookBody

from ..pages import AsyncPager
from ..transport._connection import path
from ..transport._replies import read
from ._base import Resource

__all__ = ["Webhooks"]


class Webhooks(Resource):
    """Addresses that are told when a submission of yours is rejected, a policy disqualified, or a season over.

    They are managed with a user's token, not with a player's session.
    """

    def list(self, *, limit: int | None = None, timeout: float | None = None) -> AsyncPager[Webhook]:
        """Your webhooks, oldest first, each with why the last attempt failed, if it did."""
        return self._list(Webhook, "/v2/webhooks", limit=limit, whole=True, timeout=timeout)

    async def create(self, url: str, *, timeout: float | None = None) -> NewWebhook:
        """Have an address told of events. The key that signs them is in the answer alone.

        Raises:
            Conflict: You have as many as you may have.
        """
        return await self._post(NewWebhook, "/v2/webhooks", WebhookBody.of(url=url), timeout=timeout)

    async def delete(self, webhook: str, *, timeout: float | None = None) -> Webhook:
        """Remove a webhook by its id."""
        return read(Webhook, await self._connection.call("DELETE", path("/v2/webhooks/{}", webhook), timeout=timeout))
