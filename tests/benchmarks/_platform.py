"""An Observatory with many finished episodes, for the benchmarks."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from _measure import HERE

sys.path.insert(0, str(HERE.parent))

from support.observatory_kit import World, add_policy, seed

from observatory.identity.accounts import add_user
from observatory.services import Services
from observatory.store.columns import new_id
from observatory.store.models import (
    EpisodeRequest,
    EpisodeScore,
    Participant,
    Policy,
    PolicyVersion,
    Tally,
    User,
)

__all__ = ["Filled", "fill_episodes"]

_BATCH = 2000


@dataclass(frozen=True)
class Filled:
    """The added world and episodes."""

    world: World
    episodes: list[str]
    """Ids, oldest first."""


async def fill_episodes(services: Services, episodes: int, *, members: int, record: int = 0) -> Filled:
    """Add finished episodes with two seats, as if members of a league had played one per second.

    Args:
        services: The services of an Observatory with one account.
        episodes: The number of episodes.
        members: The number of accounts with a participating policy.
        record: Approximate number of characters in the runner's record of each episode.
    """
    async with services.database.reading() as session:
        owner = (await session.scalars(sa.select(User.id))).one()
    world = await seed(services, owner)
    owners = [owner]
    for number in range(1, members):
        async with services.database.writing() as session:
            user, _ = await add_user(session, services.tokens, f"member-{number}")
            owners.append(user.id)
    seats = [await _seat(services, user) for user in owners]
    chance = random.Random(1)
    tallies: dict[str, dict[str, Any]] = {}
    begun = datetime.now(UTC) - timedelta(days=30)
    ids = [new_id("ereq") for _ in range(episodes)]
    for first in range(0, episodes, _BATCH):
        requests: list[dict[str, Any]] = []
        participants: list[dict[str, Any]] = []
        scores: list[dict[str, Any]] = []
        for index, episode in enumerate(ids[first : first + _BATCH], first):
            at = begun + timedelta(seconds=index)
            requests.append(
                {
                    "id": episode,
                    "user_id": owner,
                    "division_id": world.division,
                    "league_id": world.league,
                    "coworld_id": world.id,
                    "own_config": {"width": 16, "height": 16},
                    "seed": index,
                    "status": "completed",
                    "created_at": at,
                    "completed_at": at,
                    "episode_id": new_id(),
                    "record": {"faults": [], "text": "x" * record} if record else None,
                }
            )
            for position, seat in enumerate(chance.sample(seats, 2) if members > 1 else seats * 2):
                row = {"episode_request_id": episode, "position": position}
                participants.append(row | seat)
                who = {name: seat[name] for name in ("policy_version_id", "user_id")}
                of = {"division_id": world.division, "finished_at": at, "score": float(chance.randrange(97))}
                scores.append(row | who | of)
                first_of = {**who, "division_id": world.division, "subject_id": who["user_id"]}
                tally = tallies.setdefault(who["policy_version_id"], {**first_of, "episodes": 0, "total": 0.0})
                tally["episodes"] += 1
                tally["total"] += of["score"]
        async with services.database.writing() as session:
            await session.execute(sa.insert(EpisodeRequest), requests)
            await session.execute(sa.insert(Participant), participants)
            await session.execute(sa.insert(EpisodeScore), scores)
    async with services.database.writing() as session:
        await session.execute(sa.insert(Tally), [*tallies.values()])
    return Filled(world, ids)


async def _seat(services: Services, user: str) -> dict[str, Any]:
    version_id = await add_policy(services, user, "sweeper")
    async with services.database.reading() as session:
        version = await session.get_one(PolicyVersion, version_id)
        policy = await session.get_one(Policy, version.policy_id)
    return {
        "policy_version_id": version_id,
        "policy_id": policy.id,
        "policy_name": policy.name,
        "version": version.version,
        "user_id": user,
    }
