"""Webhooks of the caller."""

from __future__ import annotations

from typing import Annotated

from coworld_core import api

from ..errors import not_found
from ..operations.webhooks import make_webhook, webhooks_of
from ..store.columns import JsonObject
from ..store.models import Webhook
from .routing import ApiRouter, Call, InPerson, Json, gate, refusals

__all__ = ["router"]

router = ApiRouter(tags=["Webhooks"])


@router.get("/v2/webhooks", response_model=list[api.Webhook])
async def list_webhooks(call: InPerson) -> Json:
    """Your webhooks, oldest first."""
    return Json([_webhook(row) for row in await webhooks_of(call.db, call.caller.require().id)])


@router.post("/v2/webhooks", response_model=api.NewWebhook, responses=refusals(409))
async def create_webhook(call: Annotated[Call, gate("user", secret=True)], body: api.WebhookBody) -> Json:
    """Have an address told when a submission of yours is rejected, a policy disqualified, or a season over.

    The key that signs what it is told is shown only here.
    """
    made, key = await make_webhook(call.services, call.db, call.caller.require(), body.url)
    return Json({**_webhook(made), "key": key})


@router.delete("/v2/webhooks/{webhook_id}", response_model=api.Webhook)
async def delete_webhook(call: InPerson, webhook_id: str) -> Json:
    """Remove a webhook of yours."""
    own = await webhooks_of(call.db, call.caller.require().id)
    row = next((one for one in own if one.id == webhook_id), None)
    if row is None:
        raise not_found("webhook of yours", webhook_id)
    shown = _webhook(row)
    await call.db.delete(row)
    return Json(shown)


def _webhook(row: Webhook) -> JsonObject:
    return {
        "id": row.id,
        "url": row.url,
        "created_at": row.created_at,
        "delivered_at": row.delivered_at,
        "error": row.error,
        "ended_at": row.ended_at,
    }
