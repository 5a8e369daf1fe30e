"""The queue of episodes, and of roles to run on them: claimed under a lease, kept by renewing it, finished once.

A claim writes a token into the row. Renewing and finishing require that token, so a worker that was wrongly taken for
dead can change nothing: a request never has two results. Locks are always taken in the same order: the experience
request, its episodes, their account, the counter of changes.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased, lazyload

from coworld_core.ids import new_run_id

from ..settings import Settings
from ..store.columns import Moment, new_id, now
from ..store.database import Database, next_revision
from ..store.disabled import disabled_episodes, disabled_roles
from ..store.models import FINAL_STATUSES, Artifact, EpisodeRequest, ExperienceRequest, Queued, RoleRun, User
from .role_orders import RoleEnd, order_after_episode, write_role_end
from .scores import add_scores

__all__ = ["MAX_ATTEMPTS", "Claim", "Outcome", "Queue", "StoredArtifact", "first_of", "settle_request", "write_outcome"]

MAX_ATTEMPTS = 3
"""How many times an episode is started before it counts as failed."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """An episode that this worker may play, or a role that it may run on one, while its lease lasts."""

    episode_id: str
    role_run_id: str | None = None
    """The role to run on the episode; None: to play it."""
    token: str
    run_id: str
    attempt: int
    traceparent: str | None = None
    """The span of the request that asked for the episode."""

    @property
    def what(self) -> str:
        """What is to be done, for the log."""
        return _what(self.episode_id, self.role_run_id)

    @property
    def prefix(self) -> str:
        """Where this attempt stores what it leaves; different for each, so that none overwrites another's."""
        return _prefix(self.episode_id, self.role_run_id, self.run_id)


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
    """`completed` or `failed`."""
    error_type: str | None = None
    error: str | None = None
    failed_policy_index: int | None = None
    unplayable_seat: int | None = None
    """The seat whose policy cannot be played on this platform, if that is why it failed; nobody is to blame."""
    scores: tuple[float, ...] = ()
    steps: int | None = None
    stats: dict[str, Any] | None = None
    record: dict[str, Any] | None = None
    artifacts: tuple[StoredArtifact, ...] = field(default=(), repr=False)


@dataclass(frozen=True, kw_only=True)
class Expired:
    """A claim whose worker has died."""

    what: str
    """For the log."""
    prefix: str
    """Where the attempt may have stored something."""
    run_id: str


class Queue:
    """The queue as one worker sees it.

    Args:
        database: The database.
        owner: The worker's name in the rows it claims.
        lease: Seconds until a claim expires unless renewed. The clocks of all machines must agree far better.
        league_share: The share of claims, from 0 to 1, for which episodes of leagues' rounds come first; for the
            others, everything else comes first. So neither waits for the end of the other.
    """

    def __init__(
        self, database: Database, *, owner: str, lease: float = 30.0, league_share: float = Settings.league_share
    ) -> None:
        self._database = database
        self.owner = owner
        self.lease = lease
        self.league_share = league_share

    async def claim(self) -> Claim | None:
        """Claim what is next, if anything waits."""
        async with self._database.reading() as session:
            # Look without a lock first, so that polling an idle queue does not block writers.
            for table in _TABLES:
                if await session.scalar(sa.select(table.id).where(table.status == "pending").limit(1)) is not None:
                    break
            else:
                return None
        parent = None
        async with self._database.writing() as session:
            row = await _next(session, rounds_first=random.random() < self.league_share)
            if row is None:
                return None
            is_episode = isinstance(row, EpisodeRequest)
            claim = Claim(
                episode_id=row.id if is_episode else row.episode_request_id,
                role_run_id=None if is_episode else row.id,
                token=new_id(),
                run_id=new_run_id(),
                attempt=row.attempts + 1,
                traceparent=row.traceparent if isinstance(row, EpisodeRequest) else None,
            )
            row.status = "running"
            row.attempts = claim.attempt
            row.lease_token = claim.token
            row.lease_owner = self.owner
            row.lease_expires_at = self._deadline()
            row.run_id = claim.run_id
            row.started_at = now()
            who = User.id.in_({row.user_id, row.person_id})
            await session.execute(sa.update(User).where(who).values(served_at=row.started_at))
            if is_episode:
                row.job_id = row.job_id or new_id()
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
        kept: set[str] = set()
        async with self._database.writing() as session:
            for table in _TABLES:
                renewed = await session.scalars(
                    sa.update(table)
                    .where(table.lease_token.in_(list(tokens)))
                    .values(lease_expires_at=self._deadline())
                    .returning(table.lease_token)
                    .execution_options(synchronize_session=False)
                )
                kept |= {token for token in renewed if token is not None}
        return kept

    async def watchable(self, claim: Claim, url: str) -> bool:
        """Store where the running episode can be watched; returns False if the lease was lost."""
        async with self._database.writing() as session:
            row = await _held(session, claim, EpisodeRequest)
            if row is None:
                return False
            row.live_url = url
            row.revision = await next_revision(session)
            return True

    async def finish(self, claim: Claim, outcome: Outcome | RoleEnd) -> bool:
        """Store how an episode or a role ended, in one transaction.

        Returns:
            False if the lease was lost: another worker does the work, and nothing was stored.
        """
        if isinstance(outcome, RoleEnd):
            return await self._finish_role(claim, outcome)
        async with self._database.writing() as session:
            parent = await session.scalar(
                sa.select(EpisodeRequest.experience_request_id).where(EpisodeRequest.id == claim.episode_id)
            )
            if parent is not None:
                await _locked(session, parent)
            row = await _held(session, claim, EpisodeRequest)
            if row is None:
                # The write may have succeeded although its confirmation was lost.
                return await _is_over(session, claim, EpisodeRequest)
            await write_outcome(session, row, outcome)
            _let_go(row)
            await session.flush()
            await order_after_episode(session, row)
            if parent is not None:
                await settle_request(session, parent)
            row.revision = await next_revision(session)
            return True

    async def _finish_role(self, claim: Claim, end: RoleEnd) -> bool:
        async with self._database.writing() as session:
            row = await _held(session, claim, RoleRun)
            if row is None:
                return await _is_over(session, claim, RoleRun)
            write_role_end(row, end)
            _let_go(row)
            return True

    async def release(self, claim: Claim, *, counts: bool) -> bool:
        """Return an episode or a role to the queue.

        Args:
            claim: The claim.
            counts: Whether this counts as an attempt; an interruption by an orderly stop does not.

        Returns:
            False if the lease was lost.
        """
        async with self._database.writing() as session:
            row = await _held(session, claim, _table_of(claim))
            if row is None:
                return False
            row.status = "pending"
            row.started_at = None
            if not counts:
                row.attempts -= 1
            _let_go(row)
            if isinstance(row, EpisodeRequest):
                row.revision = await next_revision(session)
            return True

    async def live_runs(self) -> frozenset[str]:
        """Labels of the runs under a lease."""
        async with self._database.reading() as session:
            held = (sa.select(table.run_id).where(table.status == "running") for table in _TABLES)
            found = await session.scalars(sa.union_all(*held))
            return frozenset(run_id for run_id in found if run_id is not None)

    async def expire(self, *, owned_by: str | None = None, held: Collection[str] = ()) -> tuple[Expired, ...]:
        """Return the work of dead workers to the queue, or fail what has had too many attempts.

        Args:
            owned_by: Take back this worker's work at once, even under a valid lease: it is known to be dead.
            held: Tokens of the caller's own claims, which are alive even if their leases have expired.
        """
        expired: list[Expired] = []
        for table in _TABLES:
            gone = table.lease_owner == owned_by if owned_by is not None else table.lease_expires_at < now()
            running = sa.and_(table.status == "running", gone, table.lease_token.not_in(list(held)))
            async with self._database.reading() as session:
                ids = (await session.scalars(sa.select(table.id).where(running))).all()
            for id in ids:
                async with self._database.writing() as session:
                    if (taken := await _take_back(session, table, sa.and_(table.id == id, running))) is not None:
                        expired.append(taken)
        return tuple(expired)

    def _deadline(self) -> dt.datetime:
        return now() + dt.timedelta(seconds=self.lease)


_TABLES: tuple[type[EpisodeRequest] | type[RoleRun], ...] = (EpisodeRequest, RoleRun)
"""What is queued."""
_BARE = lazyload("*")
_Row = TypeVar("_Row", bound=Queued)


async def _take_back(
    session: AsyncSession, table: type[EpisodeRequest] | type[RoleRun], condition: sa.ColumnElement[bool]
) -> Expired | None:
    parent = None
    if table is EpisodeRequest:
        parent = await session.scalar(sa.select(EpisodeRequest.experience_request_id).where(condition))
        if parent is not None:
            await _locked(session, parent)
    row = await session.scalar(sa.select(table).where(condition).options(_BARE).with_for_update(of=table))
    if row is None:
        return None  # Its worker is alive after all, or another worker was faster.
    episode, role = (row.id, None) if isinstance(row, EpisodeRequest) else (row.episode_request_id, row.id)
    run_id = row.run_id or ""
    row.started_at = row.run_id = None
    if row.attempts < MAX_ATTEMPTS:
        row.status = "pending"
    else:
        row.status, row.completed_at = "failed", now()
        row.error_type = "crash"
        what = "this episode" if role is None else "it"
        row.error = f"The worker was lost {row.attempts} times while it ran {what}."
    _let_go(row)
    await session.flush()
    if isinstance(row, EpisodeRequest):
        if parent is not None and row.status == "failed":
            await settle_request(session, parent)
        row.revision = await next_revision(session)
    return Expired(what=_what(episode, role), prefix=_prefix(episode, role, run_id), run_id=run_id)


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


async def _next(session: AsyncSession, *, rounds_first: bool) -> EpisodeRequest | RoleRun | None:
    """Lock the next episode to play, or role to run: what comes first of the first of each."""
    firsts = [first for table in _TABLES if (first := await _first(session, table, rounds_first)) is not None]
    return min(firsts, key=lambda first: first[0])[1] if firsts else None


_Order = tuple[bool, dt.datetime, dt.datetime, int]
_NEVER, _LAST = (moment.replace(tzinfo=dt.UTC) for moment in (dt.datetime.min, dt.datetime.max))


async def _first(
    session: AsyncSession, table: type[EpisodeRequest] | type[RoleRun], rounds_first: bool
) -> tuple[_Order, EpisodeRequest | RoleRun] | None:
    """Lock the first waiting row of a table, and tell by what it is ordered.

    Work of an account that has just been disabled remains in the queue for up to a second, until it is cancelled. It is
    checked one row at a time, since checking all waiting rows would cost more than a claim.
    """
    closed: list[str] = []
    disabled = disabled_episodes() if table is EpisodeRequest else disabled_roles()
    while True:
        found = await session.execute(_claimed(table, rounds_first), {"closed": closed})
        first = found.first()
        if first is None:
            return None
        row, served_at = cast("tuple[EpisodeRequest | RoleRun, dt.datetime | None]", tuple(first))
        if await session.scalar(sa.select(table.id).where(table.id == row.id, disabled)) is None:
            is_round = isinstance(row, EpisodeRequest) and row.round_id is not None
            return (is_round != rounds_first, served_at or _NEVER, row.created_at, row.index), row
        closed.append(row.id)


@cache
def _claimed(table: type[EpisodeRequest] | type[RoleRun], rounds_first: bool) -> sa.Select[Any, Any]:
    """What `first_of` finds, to be locked; building it takes longer than finding."""
    return first_of(table, rounds_first=rounds_first).options(_BARE).with_for_update(of=table)


def first_of(table: type[EpisodeRequest] | type[RoleRun], *, rounds_first: bool) -> sa.Select[Any, Any]:
    """The waiting row whose turn it is, but for the ids `closed` (a parameter), with when its account last had one.

    Accounts take turns: a thousand episodes of one account do not delay the first episode of another. A turn of a team
    is one of its member as well, so that nobody has more of them by being in several.
    """
    of_round = EpisodeRequest.round_id.is_not(None)
    turns = [of_round.desc() if rounds_first else of_round.asc()] if table is EpisodeRequest else []
    person, heads = aliased(User), _heads(table)
    served = sa.case(
        (person.served_at > User.served_at, person.served_at), else_=sa.func.coalesce(User.served_at, person.served_at)
    )
    return (
        sa.select(table, served)
        .join(heads, heads.c.id == table.id)
        .join(User, User.id == table.user_id)
        .join(person, person.id == table.person_id)
        .order_by(*turns, served.asc().nulls_first(), table.created_at, table.index)
        .limit(1)
    )


def _heads(table: type[EpisodeRequest] | type[RoleRun]) -> sa.CTE:
    """The first waiting row of each line, but for closed ones: one step in the index for each line, however long."""

    def line(of: sa.FromClause) -> list[sa.ColumnElement[Any]]:
        return [of.c[name] for name in table.LINE]

    closed: sa.BindParameter[Any] = sa.bindparam("closed", expanding=True)

    def first(*conditions: sa.ColumnElement[bool], of: sa.FromClause) -> sa.ScalarSelect[Any]:
        waiting = sa.select(of.c.id).where(of.c.status == "pending", of.c.id.not_in(closed), *conditions)
        return waiting.order_by(*line(of), of.c.created_at, of.c.index).limit(1).scalar_subquery()

    begin, here, later = (table.__table__.alias() for _ in range(3))
    heads = sa.select(first(of=begin).label("id")).cte("heads", recursive=True)
    # SQLite looks up a tuple by all its columns only if what they are compared to is of no column's type, and begins at
    # one that is equal; so the last of a line is compared, not the line, whose rows would all be read
    last = (*(part.concat("") for part in line(here)), sa.literal(_LAST, Moment()))
    after = sa.tuple_(*line(later), later.c.created_at) > sa.tuple_(*last)
    following = first(after, of=later)
    return heads.union_all(sa.select(following).join_from(heads, here, here.c.id == heads.c.id))


async def _locked(session: AsyncSession, request_id: str) -> ExperienceRequest | None:
    return await session.get(ExperienceRequest, request_id, with_for_update=True)


def _table_of(claim: Claim) -> type[EpisodeRequest] | type[RoleRun]:
    return EpisodeRequest if claim.role_run_id is None else RoleRun


def _id_of(claim: Claim) -> str:
    return claim.role_run_id or claim.episode_id


def _what(episode_id: str, role_run_id: str | None) -> str:
    return f"Episode {episode_id}" if role_run_id is None else f"Role {role_run_id} on episode {episode_id}"


def _prefix(episode_id: str, role_run_id: str | None, run_id: str) -> str:
    return f"episodes/{episode_id}/{run_id}" if role_run_id is None else f"roles/{role_run_id}/{run_id}"


async def _held(session: AsyncSession, claim: Claim, table: type[_Row]) -> _Row | None:
    return await session.scalar(
        sa.select(table)
        .where(table.id == _id_of(claim), table.lease_token == claim.token)
        .options(_BARE)
        .with_for_update(of=table)
    )


async def _is_over(session: AsyncSession, claim: Claim, table: type[Queued]) -> bool:
    found = sa.select(table.id).where(
        table.id == _id_of(claim), table.run_id == claim.run_id, table.status.in_(FINAL_STATUSES)
    )
    return await session.scalar(found) is not None


async def write_outcome(session: AsyncSession, row: EpisodeRequest, outcome: Outcome) -> None:
    """Store the outcome, scores and artifacts of an episode whose participants are already stored."""
    moment = now()
    row.status = outcome.status
    row.episode_id = new_id()
    row.error_type, row.error = outcome.error_type, outcome.error
    row.failed_policy_index, row.failed_agent_index = outcome.failed_policy_index, outcome.unplayable_seat
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


def _let_go(row: EpisodeRequest | RoleRun) -> None:
    row.lease_token = row.lease_owner = row.lease_expires_at = None
    if isinstance(row, EpisodeRequest):
        row.live_url = None
