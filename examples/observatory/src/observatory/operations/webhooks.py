"""Webhooks: addresses that are told when a submission is rejected, a policy disqualified, or a season over.

Requests are as https://www.standardwebhooks.com describes them: signed, with an id by which one that comes twice is
known. Several servers share the work by claims in the database.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import json
import logging
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, cast
from urllib.parse import urlsplit

import anyio
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_runner.web import is_public

from ..errors import conflict, invalid
from ..services import Services
from ..store.audit import audit
from ..store.columns import JsonObject, now
from ..store.models import Event, Membership, User, Webhook
from ..supervisor import Supervisor
from .teams import teams_of

__all__ = ["TOLD", "deliver_due", "lifespan", "make_webhook", "webhooks_of"]

TOLD: Final = ("submission_rejected", "policy_disqualified", "season_ended")
"""The events that are told."""

_EVERY: Final = 5.0
_MOST: Final = 5
"""Webhooks of an account."""
_TRIES: Final = 12
"""Attempts in a row that may fail, over nearly half a day."""
_CLAIMED: Final = dt.timedelta(seconds=60)
"""How long one server has a webhook to itself."""
_WINDOW: Final = dt.timedelta(minutes=10)
"""How much later than others an event may be committed that was made earlier."""
_TIMEOUT: Final = 10.0
_WEBHOOKS: Final = 100
"""Webhooks that one server tells at a time."""
_AT_ONCE: Final = 4
"""Events that are told while a webhook is claimed."""
_GONE: Final = "It answers 410: it wants no more."

_log = logging.getLogger("observatory")


async def webhooks_of(session: AsyncSession, user_id: str) -> list[Webhook]:
    """The webhooks of an account, oldest first."""
    statement = sa.select(Webhook).where(Webhook.user_id == user_id).order_by(Webhook.created_at, Webhook.id)
    return list(await session.scalars(statement))


async def make_webhook(services: Services, session: AsyncSession, user: User, url: str) -> tuple[Webhook, str]:
    """Make a webhook; returns it, and the key by which its requests are signed.

    Raises:
        Refusal: 422 (code `bad_url`): no request can be sent there; 409 (code `quota_exceeded`).
    """
    try:
        address = urlsplit(url)
        port = address.port
    except ValueError:
        address, port = urlsplit(""), None
    if address.scheme not in ("http", "https") or not address.hostname or address.username or port == 0:
        raise invalid("A webhook needs an address such as https://example.org/hook.", at=("body", "url"))
    if len(await webhooks_of(session, user.id)) >= _MOST:
        raise conflict(f"You have {_MOST} webhooks. Remove one that you need no more.", code="quota_exceeded")
    webhook = Webhook(user_id=user.id, url=url)
    session.add(webhook)
    await session.flush()
    audit(session, "webhook.created", user_id=user.id, subject=webhook.id)
    return webhook, f"whsec_{base64.b64encode(_key(services, webhook.id)).decode()}"


def _key(services: Services, webhook_id: str) -> bytes:
    return services.vault.key(f"webhook {webhook_id}")


@asynccontextmanager
async def lifespan(services: Services) -> AsyncGenerator[None]:
    """Tell of events while the server runs."""
    telling = partial(
        Supervisor(_log, repeats=False).repeat, partial(deliver_due, services), "No webhook is told", seconds=_EVERY
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(telling)
        yield
        tasks.cancel_scope.cancel()


async def deliver_due(services: Services) -> None:
    """Tell all webhooks that may be tried now of the events that they have not been told of."""
    before, waiting, idle = now() - _WINDOW, list[Webhook](), list[str]()
    async with services.database.reading() as session:
        newest = await session.scalar(sa.select(sa.func.max(Event.created_at)).where(Event.event_type.in_(TOLD)))
        if newest is None:
            return
        may = sa.and_(Webhook.ended_at.is_(None), Webhook.next_at <= now(), Webhook.after <= newest)
        for webhook in await session.scalars(sa.select(Webhook).where(may).order_by(Webhook.next_at)):
            if await _untold(session, webhook):
                waiting.append(webhook)
                if len(waiting) == _WEBHOOKS:
                    break
            elif newest < before or webhook.after < before - _WINDOW:
                idle.append(webhook.id)
    if idle:
        # What concerns others is not read again
        passed = sa.update(Webhook).where(Webhook.id.in_(idle), Webhook.after < before)
        async with services.database.writing() as session:
            await session.execute(passed.values(after=before))
    async with anyio.create_task_group() as tasks:
        for webhook in waiting:
            tasks.start_soon(_tell, services, webhook.id, webhook.next_at)


async def _untold(session: AsyncSession, webhook: Webhook) -> list[Event]:
    """Events of which a webhook has not been told: of its account, of its teams, and of leagues that they play in."""
    accounts = [webhook.user_id, *(team.id for team in await teams_of(session, webhook.user_id))]
    entered = sa.select(Membership.league_id).where(Membership.user_id.in_(accounts))
    over = sa.and_(Event.event_type == "season_ended", Event.league_id.in_(entered))
    statement = (
        sa.select(Event)
        .where(Event.event_type.in_(TOLD), Event.created_at >= webhook.after)
        .where(sa.or_(Event.user_id.in_(accounts), over))
        .order_by(Event.created_at, Event.id)
    )
    return [event for event in (await session.scalars(statement)).unique() if event.id not in webhook.told]


async def _tell(services: Services, webhook_id: str, seen: dt.datetime) -> None:
    """Tell a webhook what it has not been told of, one event after the other, unless another server does."""
    claim = sa.update(Webhook).where(Webhook.id == webhook_id, Webhook.next_at == seen)
    async with services.database.writing() as session:
        claimed = cast("sa.CursorResult[object]", await session.execute(claim.values(next_at=now() + _CLAIMED)))
        webhook = await session.get(Webhook, webhook_id, populate_existing=True)
        if claimed.rowcount == 0 or webhook is None:
            return
        events = [(event.id, _payload(event)) for event in (await _untold(session, webhook))[:_AT_ONCE]]
        url = webhook.url
    key = _key(services, webhook_id)
    told: list[str] = []
    trouble = ""
    for event_id, payload in events:
        if trouble := await _send(url, key, event_id, payload, private=services.settings.private_webhooks):
            break
        told.append(event_id)
    await _note(services, webhook_id, told, trouble)


async def _note(services: Services, webhook_id: str, told: list[str], trouble: str) -> None:
    async with services.database.writing() as session:
        if (webhook := await session.get(Webhook, webhook_id)) is None:
            return
        if told:
            webhook.delivered_at, webhook.failures = now(), 0
            before = max(webhook.after, now() - _WINDOW)
            kept = sa.select(Event.id).where(Event.id.in_([*webhook.told, *told]), Event.created_at >= before)
            webhook.told, webhook.after = list(await session.scalars(kept)), before
        webhook.error, webhook.next_at = trouble or None, now()
        if trouble:
            webhook.failures += 1
            webhook.next_at += dt.timedelta(seconds=min(3600, 15 * 2**webhook.failures))
            if webhook.failures >= _TRIES or trouble == _GONE:
                webhook.ended_at = now()


def _payload(event: Event) -> JsonObject:
    league, version = event.league, event.policy_version
    return {
        "type": event.event_type,
        "timestamp": event.created_at.isoformat(),
        "data": {
            "headline": event.headline,
            "summary": event.summary,
            "league_id": event.league_id,
            "league": league.name if league is not None else None,
            "policy_version_id": event.policy_version_id,
            "policy": f"{version.policy.name}:v{version.version}" if version is not None else None,
            **event.payload,
        },
    }


async def _send(url: str, key: bytes, event_id: str, payload: JsonObject, *, private: bool) -> str:
    """Send an event; returns why that failed, or an empty string."""
    import httpx2

    body, moment = json.dumps(payload).encode(), str(int(time.time()))
    signed = hmac.digest(key, f"{event_id}.{moment}.".encode() + body, hashlib.sha256)
    address = httpx2.URL(url)
    headers = {
        "Host": address.netloc.decode(),
        "Content-Type": "application/json",
        "User-Agent": "observatory",
        "webhook-id": event_id,
        "webhook-timestamp": moment,
        "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
    }
    try:
        with anyio.fail_after(_TIMEOUT):
            found = await anyio.getaddrinfo(address.host, address.port or address.scheme, type=socket.SOCK_STREAM)
            place = str(found[0][4][0])
            if not (private or is_public(place)):
                return f"{address.host} is at {place}, which is no public address."
            async with (
                # No other address than the one that was looked at
                httpx2.AsyncClient(trust_env=False, follow_redirects=False, timeout=_TIMEOUT) as client,
                client.stream(
                    "POST",
                    address.copy_with(host=place),
                    content=body,
                    headers=headers,
                    extensions={"sni_hostname": address.host},
                ) as answer,
            ):
                status = answer.status_code
    except (httpx2.HTTPError, OSError, UnicodeError) as error:
        return f"It cannot be reached: {error or type(error).__name__}"[:300]
    return "" if 200 <= status < 300 else _GONE if status == 410 else f"It answers {status}."
