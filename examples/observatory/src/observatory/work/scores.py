"""Scores of an episode: in rows of its own, and in the sums of its division's table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession

from ..store.models import EpisodeRequest, EpisodeScore, Participant, Round, Tally

__all__ = ["add_scores", "discount"]


async def add_scores(session: AsyncSession, row: EpisodeRequest, scores: Sequence[float], moment: dt.datetime) -> None:
    """Store the scores of a finished episode whose participants are already stored.

    Only episodes that the league itself scheduled count in its division's table, never requested ones. An episode does
    not count either if its season was closed while it ran, or if its round was dropped.
    """
    division = row.division_id if row.round_id is not None else None
    if division is not None:
        idle = sa.select(Round.id).where(Round.id == row.round_id, Round.status.in_(("cancelled", "failed")))
        division = None if await session.scalar(idle) is not None else division
    seated = {
        seat.position: seat
        for seat in await session.scalars(sa.select(Participant).where(Participant.episode_request_id == row.id))
    }
    counted: list[tuple[Participant, float]] = []
    for position, score in enumerate(scores):
        seat = seated.get(position)
        session.add(
            EpisodeScore(
                episode_request_id=row.id,
                position=position,
                policy_version_id=seat.policy_version_id if seat else None,
                user_id=seat.user_id if seat else None,
                player_id=seat.player_id if seat else None,
                division_id=division,
                score=score,
                finished_at=moment,
            )
        )
        if division and seat and seat.user_id and seat.policy_version_id:
            counted.append((seat, score))
    # Always in the same order: episodes with the same policies in other seats would deadlock on each other's rows.
    for seat, score in sorted(counted, key=lambda pair: (pair[0].policy_version_id or "", _subject(pair[0]))):
        await _count(session, division or "", seat, score)


async def discount(session: AsyncSession, round_id: str) -> None:
    """Remove a round's scores from its division's table."""
    of_round = EpisodeScore.episode_request_id.in_(
        sa.select(EpisodeRequest.id).where(EpisodeRequest.round_id == round_id)
    )
    columns = (
        EpisodeScore.division_id,
        EpisodeScore.policy_version_id,
        sa.func.coalesce(EpisodeScore.player_id, EpisodeScore.user_id),
    )
    counted = await session.execute(
        sa.select(*columns, sa.func.count(), sa.func.sum(EpisodeScore.score))
        .where(of_round, EpisodeScore.division_id.is_not(None))
        .group_by(*columns)
        .order_by(*columns)
    )
    for division, version, subject, episodes, total in counted.all():
        line = sa.and_(Tally.division_id == division, Tally.policy_version_id == version, Tally.subject_id == subject)
        less = {"episodes": Tally.episodes - episodes, "total": Tally.total - total}
        await session.execute(sa.update(Tally).where(line).values(less))
        await session.execute(sa.delete(Tally).where(line, Tally.episodes <= 0))
    await session.execute(sa.update(EpisodeScore).where(of_round).values(division_id=None))


def _subject(seat: Participant) -> str:
    return seat.player_id or seat.user_id or ""


async def _count(session: AsyncSession, division: str, seat: Participant, score: float) -> None:
    insert: Any = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}[session.get_bind().dialect.name]
    adding = insert(Tally).values(
        division_id=division,
        policy_version_id=seat.policy_version_id,
        subject_id=_subject(seat),
        user_id=seat.user_id,
        player_id=seat.player_id,
        episodes=1,
        total=score,
    )
    more = {"episodes": Tally.episodes + 1, "total": Tally.total + score}
    keys = [Tally.division_id, Tally.policy_version_id, Tally.subject_id]
    await session.execute(adding.on_conflict_do_update(index_elements=keys, set_=more))
