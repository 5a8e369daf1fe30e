"""Webhooks: addresses that are told of events."""

from __future__ import annotations

from pydantic import Field

from ._wire_models import Body, LongText, Time, Wire, required

__all__ = ["NewWebhook", "Webhook", "WebhookBody"]


class Webhook(Wire):
    """An address that is told when a submission of yours is rejected, a policy disqualified, or a season over."""

    id: str = required("Its id.")
    url: str = required("The address.")
    created_at: Time | None = required("When it was made.", None)
    delivered_at: Time | None = required("When it last took an event; null: never.", None)
    error: str | None = required("Why the last attempt failed; null if it did not.", None)
    ended_at: Time | None = required(
        "When it was given up, after it had failed for half a day; null: it was not.", None
    )


class NewWebhook(Webhook):
    """A webhook that was just made."""

    key: str = Field(
        default="",
        description="The key that signs what it is told; shown only here.",
        repr=False,
        json_schema_extra={"x-required": True},
    )


class WebhookBody(Body):
    """Make a webhook."""

    url: LongText = Field(description="An http or https address.")
