"""Stores a hosted game that was played as an episode, with scores, replay and the game's log."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from coworld_core.episode import judge

from ..episodes.stats import SeatNames
from ..store.columns import new_id
from ..store.database import next_revision
from ..store.kept_labels import set_labels
from ..store.models import EpisodeRequest, HostedSession, Participant
from ..work.new_episodes import participant
from ..work.outcome import POLICY, store_outcome
from ..work.queue import write_outcome
from ..work.seat_files import SeatLimits

if TYPE_CHECKING:
    from coworld_core.episode import EpisodeLayout, EpisodeRecord
    from coworld_runner.package import EpisodePlan

    from ..services import Services
    from .sessions import Session

__all__ = ["SOURCE", "archive_play"]

SOURCE = "play"
"""`EpisodeRequest.source` of such an episode."""

_log = logging.getLogger("observatory.hosted")


async def archive_play(
    services: Services, session: Session, plan: EpisodePlan, record: EpisodeRecord, layout: EpisodeLayout
) -> str | None:
    """Store a finished game as an episode.

    The episode belongs to the account that started the game; everyone who took a seat may see it, and so may the
    owners of the policies. It belongs to no league, so no standings count it.

    Args:
        services: The Observatory.
        session: The finished game.
        plan: Its plan.
        record: Its record.
        layout: Its workspace.

    Returns:
        The episode's id; None if it could not be stored, which is logged and does not affect the players.
    """
    if session.user_id is None:
        return None
    episode_id = new_id("ereq")
    prefix = f"episodes/{episode_id}/{session.run_id}"
    joined, policies = session.joined, session.game.policies
    names = [_names(session, slot) for slot in range(session.game.slots)]
    verdict = judge(record, POLICY)
    try:
        outcome = await store_outcome(
            record, layout, verdict, names, limits=SeatLimits(), store=services.artifacts, prefix=prefix
        )
        async with services.database.writing() as db:
            row = EpisodeRequest(
                id=episode_id,
                user_id=session.user_id,
                player_id=session.player_id,
                source=SOURCE,
                coworld_id=session.coworld_id,
                variant_id=plan.variant,
                game_config=dict(plan.game_config),
                seed=plan.seed if plan.seed is not None and abs(plan.seed) < 1 << 63 else None,
                attempts=1,
                run_id=session.run_id,
                job_id=new_id(),
                created_at=record.started_at,
                started_at=record.started_at,
            )
            db.add(row)
            await db.flush()
            db.add_all(
                Participant(
                    episode_request_id=episode_id,
                    position=slot,
                    policy_name=seat.name,
                    user_id=seat.user_id,
                    player_id=seat.player_id,
                    player_name=seat.name if seat.player_id else None,
                )
                for slot, seat in joined.items()
            )
            db.add_all(participant(episode_id, slot, policy) for slot, policy in policies.items())
            await db.flush()
            await write_outcome(db, row, outcome)
            await set_labels(db, episode_id, session.labels)
            (await db.get_one(HostedSession, session.id)).episode_request_id = episode_id
            await db.flush()
            row.revision = await next_revision(db)
    except (OSError, SQLAlchemyError) as error:
        _log.warning("A finished game cannot be stored: %s", error)
        with contextlib.suppress(OSError):
            await services.artifacts.forget(prefix)
        return None
    return episode_id


def _names(session: Session, slot: int) -> SeatNames:
    if (policy := session.game.policies.get(slot)) is not None:
        return SeatNames(
            policy_version_id=policy.policy_version_id, policy_name=policy.name, policy_version=policy.version
        )
    person = session.joined.get(slot)
    return SeatNames(policy_name=person.name if person is not None else None)
