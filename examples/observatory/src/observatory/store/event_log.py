"""Events of competitions."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from .columns import JsonObject
from .models import Event, Membership, PolicyVersion

__all__ = ["record_event"]


async def record_event(
    session: AsyncSession,
    event_type: str,
    headline: str,
    *,
    summary: str = "",
    audience: str = "public",
    membership: Membership | None = None,
    policy_version: PolicyVersion | None = None,
    league_id: str | None = None,
    payload: JsonObject | None = None,
) -> Event:
    """Record an event.

    Args:
        session: A writing session.
        event_type: The stable name of the kind of event.
        headline: A few words.
        summary: A sentence or two.
        audience: ``public``, or ``owner``: visible only to the owner of the policy.
        membership: The membership that the event concerns, if any.
        policy_version: The policy version that the event concerns, if any.
        league_id: The league, if there is no membership.
        payload: Data for programs.
    """
    version = policy_version or (membership.policy_version if membership else None)
    event = Event(
        event_type=event_type,
        headline=headline,
        summary=summary,
        audience=audience,
        user_id=version.user_id if version else None,
        player_id=membership.player_id if membership else version.player_id if version else None,
        policy_version_id=version.id if version else None,
        league_id=membership.league_id if membership else league_id,
        division_id=membership.division_id if membership else None,
        payload=payload or {},
    )
    session.add(event)
    await session.flush()
    return event
