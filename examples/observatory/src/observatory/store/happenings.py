"""What happens in competitions, written down."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from .columns import JsonObject
from .models import Event, Membership, PolicyVersion

__all__ = ["record"]


async def record(
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
    """Write down that something happened.

    Args:
        session: A writing session.
        event_type: Stable name of the kind of event.
        headline: In a few words.
        summary: In a sentence or two.
        audience: ``public``, or ``owner`` for the eyes of whose policy it is.
        membership: What it is about, if that is a membership.
        policy_version: What it is about, if that is a policy version.
        league_id: Where, when no membership says it.
        payload: For programs.
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
