"""A league that the test itself plays: its members, and episodes that end with chosen scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from observatory.store.columns import now
from observatory.store.database import next_revision
from observatory.store.models import EpisodeRequest, League
from observatory.work.queue import Outcome, write_outcome
from observatory.work.rounds import advance

from .observatory_kit import Platform, World

__all__ = ["contestants", "league_of", "play", "play_rounds", "strengths_of"]


async def league_of(platform: Platform, world: World, **terms: Any) -> None:
    """Configure the league; the test begins its rounds, not the server."""
    async with platform.services.database.writing() as session:
        league = await session.get_one(League, world.league)
        league.commissioner_config = {"every_seconds": 0, **terms}


async def contestants(platform: Platform, world: World, count: int) -> dict[str, str]:
    """Add members to the league; returns their policy versions by name, the strongest first."""
    found: dict[str, str] = {}
    for number in range(count):
        account = await platform.account(f"bot{number}")
        found[account.name] = await platform.policy(account, account.name)
        await platform.join(world, found[account.name])
    return found


async def play(platform: Platform, strengths: Mapping[str, float], *, faulty: str = "", unplayable: str = "") -> int:
    """End all pending episodes with each policy's strength as its score; returns their number.

    Episodes with the policy `faulty` fail, and those with `unplayable` cannot be played.
    """
    async with platform.services.database.writing() as session:
        rows = (await session.scalars(sa.select(EpisodeRequest).where(EpisodeRequest.status == "pending"))).all()
        for row in rows:
            seats = [seat.policy_version_id or "" for seat in row.participants]
            if faulty in seats:
                slot = seats.index(faulty)
                outcome = Outcome(status="failed", error_type="player_error", error="gone", failed_policy_index=slot)
            elif unplayable in seats:
                slot = seats.index(unplayable)
                outcome = Outcome(status="failed", error_type="crash", error="No images.", unplayable_seat=slot)
            else:
                outcome = Outcome(status="completed", scores=tuple(strengths[seat] for seat in seats))
            row.started_at, row.revision = now(), await next_revision(session)
            await write_outcome(session, row, outcome)
        return len(rows)


async def play_rounds(platform: Platform, division: str, strengths: Mapping[str, float], count: int) -> None:
    for _ in range(count):
        assert await advance(platform.services.database, division) is not None
        assert await play(platform, strengths)


def strengths_of(versions: Mapping[str, str]) -> dict[str, float]:
    return {version: float(-place) for place, version in enumerate(versions.values())}
