"""The queue of episodes: claimed under a lease, kept by renewing it, finished once.

A claim writes a token into the row. Renewing and finishing require that token, so a worker that was wrongly taken for
dead can change nothing: a request never has two results. Locks are always taken in the same order: the experience
request, its episodes, their account, the counter of changes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import lazyload

from coworld_core.ids import new_run_id

from ..store.columns import new_id, now
from ..store.database import Database, next_revision
from ..store.disabled import disabled_episodes
from ..store.models import FINAL_STATUSES, Artifact, EpisodeRequest, ExperienceRequest, User
from .scores import add_scores

__all__ = ["MAX_ATTEMPTS", "Claim", "Outcome", "Queue", "StoredArtifact", "settle_request", "write_outcome"]

MAX_ATTEMPTS = 3
"""How many times an episode is started before it counts as failed."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """An episode that this worker may play while its lease lasts."""

    episode_id: str
    token: str
    run_id: str
    attempt: int


@dataclass(frozen=True, kw_only=True)
class StoredArtifact:
    """An artifact whose bytes are in the store."""

    kind: str
    key: str
    size: int
    sha256: str
    media_type: str
    encoding: str = "identity"
    position: int = -1


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an episode ended."""

    status: str
    """``completed`` or ``failed``."""
    error_type: str | None = None
    error: str | None = None
    failed_policy_index: int | None = None
    scores: tuple[float, ...] = ()
    steps: int | None = None
    stats: dict[str, Any] | None = None
    record: dict[str, Any] | None = None
    artifacts: tuple[StoredArtifact, ...] = field(default=(), repr=False)


@dataclass(frozen=True, kw_only=True)
class Expired:
    """A claim whose worker has died."""

    episode_id: str
    run_id: str


class Queue:
    """The queue as one worker sees it.

    Args:
        database: The database.
        owner: The worker's name in the rows it claims.
        lease: Seconds until a claim expires unless renewed. The clocks of all machines must agree far better.
    """

    def __init__(self, database: Database, *, owner: str, lease: float = 30.0) -> None:
        self._database = database
        self.owner = owner
        self.lease = lease

    async def claim(self) -> Claim | None:
        """Claim the next waiting episode, if there is one."""
        async with self._database.reading() as session:
            # Look without a lock first, so that polling an idle queue does not block writers.
            waiting = await session.scalar(
                sa.select(EpisodeRequest.id).where(EpisodeRequest.status == "pending").limit(1)
            )
        if waiting is None:
            return None
        async with self._database.writing() as session:
            row = await _next(session)
            if row is None:
                return None
            claim = Claim(episode_id=row.id, token=new_id(), run_id=new_run_id(), attempt=row.attempts + 1)
            row.status = "running"
            row.attempts = claim.attempt
            row.lease_token = claim.token
            row.lease_owner = self.owner
            row.lease_expires_at = self._deadline()
            row.run_id = claim.run_id
            row.job_id = row.job_id or new_id()
            row.started_at = now()
            await session.execute(sa.update(User).where(User.id == row.user_id).values(served_at=row.started_at))
            parent = row.experience_request_id
            row.revision = await next_revision(session)
        if parent is not None:
            await self._begin(parent)
        return claim

    async def _begin(self, request_id: str) -> None:
        async with self._database.reading() as session:
            status = await session.scalar(sa.select(ExperienceRequest.status).where(ExperienceRequest.id == request_id))
        if status != "pending":
            return
        async with self._database.writing() as session:
            row = await _locked(session, request_id)
            if row is not None and row.status == "pending":
                row.status, row.started_at = "running", now()
                row.revision = await next_revision(session)

    async def renew(self, tokens: Collection[str]) -> set[str]:
        """Renew the leases of these tokens; returns the tokens that are still valid."""
        if not tokens:
            return set()
        async with self._database.writing() as session:
            kept = await session.scalars(
                sa.update(EpisodeRequest)
                .where(EpisodeRequest.lease_token.in_(list(tokens)))
                .values(lease_expires_at=self._deadline())
                .returning(EpisodeRequest.lease_token)
                .execution_options(synchronize_session=False)
            )
            return {token for token in kept if token is not None}

    async def watchable(self, claim: Claim, url: str) -> bool:
        """Store where the running episode can be watched; returns False if the lease was lost."""
        async with self._database.writing() as session:
            row = await _held(session, claim)
            if row is None:
                return False
            row.live_url = url
            row.revision = await next_revision(session)
            return True

    async def finish(self, claim: Claim, outcome: Outcome) -> bool:
        """Store how an episode ended, in one transaction.

        Returns:
            False if the lease was lost: another worker plays the episode, and nothing was stored.
        """
        async with self._database.writing() as session:
            parent = await session.scalar(
                sa.select(EpisodeRequest.experience_request_id).where(EpisodeRequest.id == claim.episode_id)
            )
            if parent is not None:
                await _locked(session, parent)
            row = await _held(session, claim)
            if row is None:
                # The write may have succeeded although its confirmation was lost.
                return await _is_over(session, claim)
            await write_outcome(session, row, outcome)
            _let_go(row)
            await session.flush()
            if parent is not None:
                await settle_request(session, parent)
            row.revision = await next_revision(session)
            return True

    async def release(self, claim: Claim, *, counts: bool) -> bool:
        """Return an episode to the queue.

        Args:
            claim: The claim.
            counts: Whether this counts as an attempt; an interruption by an orderly stop does not.

        Returns:
            False if the lease was lost.
        """
        async with self._database.writing() as session:
            row = await _held(session, claim)
            if row is None:
                return False
            row.status = "pending"
            row.started_at = None
            if not counts:
                row.attempts -= 1
            _let_go(row)
            row.revision = await next_revision(session)
            return True

    async def live_runs(self) -> frozenset[str]:
        """Labels of the runs under a lease."""
        async with self._database.reading() as session:
            found = await session.scalars(sa.select(EpisodeRequest.run_id).where(EpisodeRequest.status == "running"))
            return frozenset(run_id for run_id in found if run_id is not None)

    async def expire(self, *, owned_by: str | None = None, held: Collection[str] = ()) -> tuple[Expired, ...]:
        """Return the episodes of dead workers to the queue, or fail those with too many attempts.

        Args:
            owned_by: Take back this worker's episodes at once, even under a valid lease: it is known to be dead.
            held: Tokens of the caller's own claims, which are alive even if their leases have expired.
        """
        gone = (
            EpisodeRequest.lease_owner == owned_by if owned_by is not None else EpisodeRequest.lease_expires_at < now()
        )
        running = sa.and_(EpisodeRequest.status == "running", gone, EpisodeRequest.lease_token.not_in(list(held)))
        async with self._database.reading() as session:
            ids = (await session.scalars(sa.select(EpisodeRequest.id).where(running))).all()
        expired: list[Expired] = []
        for episode_id in ids:
            async with self._database.writing() as session:
                parent = await session.scalar(
                    sa.select(EpisodeRequest.experience_request_id).where(EpisodeRequest.id == episode_id)
                )
                if parent is not None:
                    await _locked(session, parent)
                row = await session.scalar(
                    sa.select(EpisodeRequest)
                    .where(EpisodeRequest.id == episode_id, running)
                    .options(*_BARE)
                    .with_for_update(of=EpisodeRequest)
                )
                if row is None:
                    continue  # Its worker is alive after all, or another worker was faster.
                expired.append(Expired(episode_id=row.id, run_id=row.run_id or ""))
                row.started_at = row.run_id = None
                if row.attempts < MAX_ATTEMPTS:
                    row.status = "pending"
                else:
                    row.status, row.completed_at = "failed", now()
                    row.error_type = "crash"
                    row.error = f"The worker was lost {row.attempts} times while it ran this episode."
                _let_go(row)
                await session.flush()
                if parent is not None and row.status == "failed":
                    await settle_request(session, parent)
                row.revision = await next_revision(session)
        return tuple(expired)

    def _deadline(self) -> dt.datetime:
        return now() + dt.timedelta(seconds=self.lease)


_BARE = (
    lazyload(EpisodeRequest.participants),
    lazyload(EpisodeRequest.scores),
    lazyload(EpisodeRequest.artifacts),
    lazyload(EpisodeRequest.shared),
)


async def settle_request(session: AsyncSession, request_id: str) -> None:
    """Close an experience request if its last episode is over; its row must be locked."""
    row = await session.get(ExperienceRequest, request_id)
    if row is None:
        return
    found = await session.execute(
        sa.select(EpisodeRequest.status, sa.func.count())
        .where(EpisodeRequest.experience_request_id == request_id)
        .group_by(EpisodeRequest.status)
    )
    counts = {status: count for status, count in found}  # noqa: C416 - rows are no pairs to a type checker
    if not any(counts.get(status) for status in ("pending", "running")):
        row.completed_at = row.completed_at or now()
        if row.status != "cancelled":
            row.status = "completed" if counts.get("completed") else "failed"
            if row.status == "failed":
                row.error = "No episode was completed."
    row.revision = await next_revision(session)


async def _next(session: AsyncSession) -> EpisodeRequest | None:
    """Lock the next episode to play.

    Episodes of an account that has just been disabled remain in the queue for up to a second, until they are cancelled.
    They are checked one at a time, since checking all waiting episodes would cost more than a claim.
    """
    closed: list[str] = []
    while True:
        row = await session.scalar(
            sa.select(EpisodeRequest)
            .join(User, User.id == EpisodeRequest.user_id)
            .where(EpisodeRequest.status == "pending", EpisodeRequest.id.not_in(closed))
            # Accounts take turns: a thousand episodes of one account do not delay the first episode of another.
            .order_by(
                EpisodeRequest.priority,
                User.served_at.asc().nulls_first(),
                EpisodeRequest.created_at,
                EpisodeRequest.index,
            )
            .limit(1)
            .options(*_BARE)
            .with_for_update(skip_locked=True, of=EpisodeRequest)
        )
        if row is None:
            return None
        its_own = sa.select(EpisodeRequest.id).where(EpisodeRequest.id == row.id, disabled_episodes())
        if await session.scalar(its_own) is None:
            return row
        closed.append(row.id)


async def _locked(session: AsyncSession, request_id: str) -> ExperienceRequest | None:
    return await session.get(ExperienceRequest, request_id, with_for_update=True)


async def _held(session: AsyncSession, claim: Claim) -> EpisodeRequest | None:
    return await session.scalar(
        sa.select(EpisodeRequest)
        .where(EpisodeRequest.id == claim.episode_id, EpisodeRequest.lease_token == claim.token)
        .options(*_BARE)
        .with_for_update(of=EpisodeRequest)
    )


async def _is_over(session: AsyncSession, claim: Claim) -> bool:
    found = sa.select(EpisodeRequest.id).where(
        EpisodeRequest.id == claim.episode_id,
        EpisodeRequest.run_id == claim.run_id,
        EpisodeRequest.status.in_(FINAL_STATUSES),
    )
    return await session.scalar(found) is not None


async def write_outcome(session: AsyncSession, row: EpisodeRequest, outcome: Outcome) -> None:
    """Store the outcome, scores and artifacts of an episode whose participants are already stored."""
    moment = now()
    row.status = outcome.status
    row.episode_id = new_id()
    row.error_type, row.error = outcome.error_type, outcome.error
    row.failed_policy_index = outcome.failed_policy_index
    row.steps, row.stats, row.record = outcome.steps, outcome.stats, outcome.record
    row.completed_at = moment
    for artifact in outcome.artifacts:
        session.add(
            Artifact(
                episode_request_id=row.id,
                kind=artifact.kind,
                position=artifact.position,
                key=artifact.key,
                media_type=artifact.media_type,
                encoding=artifact.encoding,
                size=artifact.size,
                sha256=artifact.sha256,
            )
        )
    if outcome.status == "completed":
        await add_scores(session, row, outcome.scores, moment)


def _let_go(row: EpisodeRequest) -> None:
    row.lease_token = row.lease_owner = row.lease_expires_at = row.live_url = None
