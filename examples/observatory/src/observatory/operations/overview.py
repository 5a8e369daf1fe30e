"""Overviews for operators: accounts, leagues, policies, episodes, the queue, workers and storage, as JSON values.

Each list has a statement that selects its rows by what is searched for, of which a page shows a part.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from ..store.columns import JsonObject, mentions, now
from ..store.models import (
    WORKER_GONE,
    Commission,
    Coworld,
    Division,
    EpisodeRequest,
    Game,
    League,
    Membership,
    Policy,
    PolicyVersion,
    RoleRun,
    Round,
    User,
    WorkerRow,
)
from ..store.usage import stored
from ..work.league_settings import LeagueSettings
from ..work.seasons import last_report, state_of, who_decides, why_stopped, why_unattended

__all__ = [
    "accounts",
    "disk",
    "episodes",
    "leagues",
    "policies",
    "queue",
    "search_accounts",
    "search_episodes",
    "search_leagues",
    "search_policies",
    "storage_of_owners",
    "workers",
]


def search_accounts(words: str) -> sa.Select[User]:
    """Select the accounts with this in their name or address."""
    return sa.select(User).where(mentions(words, User.name, User.email))


async def accounts(session: AsyncSession, among: Sequence[User] | None = None) -> list[JsonObject]:
    """Accounts with their usage and their own quotas: these, in their order; None: all, by name."""
    users = (await session.scalars(sa.select(User).order_by(User.name))).all() if among is None else among
    waiting = {row["user"]: row for row in await queue(session)}
    sizes = stored()
    held = {
        user_id: int(size)
        for user_id, size in await session.execute(
            sa.select(sizes.c.user_id, sa.func.sum(sizes.c.size)).group_by("user_id")
        )
    }
    return [
        {
            "id": user.id,
            "name": user.name,
            "email": user.email,
            "team": user.is_team,
            "shared": user.is_shared,
            "quotas": user.quotas or {},
            "stored": held.get(user.id, 0),
            "waiting": waiting.get(user.name, {}).get("waiting", 0),
            "running": waiting.get(user.name, {}).get("running", 0),
            "created_at": user.created_at.isoformat(),
            "disabled_at": _text(user.disabled_at),
            "disabled_reason": user.disabled_reason,
        }
        for user in users
    ]


def search_leagues(words: str) -> sa.Select[League]:
    """Select the leagues with this in their name, or in that of their Coworld."""
    return sa.select(League).join(Game, Game.id == League.game_id).where(mentions(words, League.name, Game.name))


async def leagues(session: AsyncSession, among: Sequence[League] | None = None) -> list[JsonObject]:
    """Leagues with their settings and current rounds: these, in their order; None: all, oldest first."""
    rows = among
    if rows is None:
        rows = (await session.scalars(sa.select(League).order_by(League.created_at, League.id))).unique().all()
    leases = {row.league_id: row for row in await session.scalars(sa.select(Commission))}
    members = await _counted(session, Membership.league_id, Membership.end_time.is_(None))
    divisions = await _counted(session, Division.league_id, Division.archived_at.is_(None))
    over = sa.func.count(EpisodeRequest.id).filter(EpisodeRequest.status.not_in(("pending", "running")))
    under_way: dict[str, list[JsonObject]] = {}
    for league, number, done, all_of_them in await session.execute(
        sa.select(Division.league_id, Round.round_number, over, sa.func.count(EpisodeRequest.id))
        .join(Division, Division.id == Round.division_id)
        .join(EpisodeRequest, EpisodeRequest.round_id == Round.id)
        .where(Round.status == "running")
        .group_by(Division.league_id, Round.id, Round.round_number)
        .order_by(Round.round_number)
    ):
        under_way.setdefault(league, []).append({"round": number, "over": done, "episodes": all_of_them})
    return [
        {
            "id": row.id,
            "name": row.name,
            "coworld": row.game.name,
            "public": row.public,
            "state": state_of(row),
            "pairing": LeagueSettings.of(row.commissioner_config).pairing,
            "every_seconds": LeagueSettings.of(row.commissioner_config).every_seconds,
            "decides": who_decides(row),
            "trouble": leases[row.id].trouble if row.id in leases else None,
            "unattended": why_unattended(row, leases.get(row.id)),
            "season": row.season,
            "submissions": LeagueSettings.of(row.commissioner_config).submissions_in_words(row.season, now()),
            "roles": LeagueSettings.of(row.commissioner_config).roles_in_words,
            "entries_per_user": LeagueSettings.of(row.commissioner_config).entries_per_user,
            "members": members.get(row.id, 0),
            "divisions": divisions.get(row.id, 0),
            "rounds": under_way.get(row.id, []),
            "stopped": await _stopped(session, row),
        }
        for row in rows
    ]


async def _stopped(session: AsyncSession, league: League) -> list[JsonObject]:
    """Divisions of a league that cannot finish its season, with the reason."""
    rows = await session.execute(
        sa.select(Division.id, Division.name)
        .where(Division.league_id == league.id, Division.archived_at.is_(None))
        .order_by(Division.level.desc())
    )
    found = [(name, why_stopped(await last_report(session, id, league.season))) for id, name in rows.all()]
    return [{"division": name, "why": why} for name, why in found if why is not None]


async def _counted(
    session: AsyncSession, by: InstrumentedAttribute[str], condition: sa.ColumnElement[bool]
) -> dict[str, int]:
    rows = await session.execute(sa.select(by, sa.func.count()).where(condition).group_by(by))
    return {row[0]: row[1] for row in rows}


def search_policies(words: str = "", *, disabled: bool = False) -> sa.Select[PolicyVersion]:
    """Select the policy versions with this in their name or their owner's; or of those, what operators have closed."""
    statement = (
        sa.select(PolicyVersion)
        .join(Policy, Policy.id == PolicyVersion.policy_id)
        .join(User, User.id == PolicyVersion.user_id)
        .where(mentions(words, Policy.name, User.name))
    )
    if disabled:
        statement = statement.where(sa.or_(PolicyVersion.disabled_at.is_not(None), Policy.disabled_at.is_not(None)))
    return statement


async def policies(
    session: AsyncSession,
    *,
    owner: str | None = None,
    disabled: bool = False,
    among: Sequence[PolicyVersion] | None = None,
) -> list[JsonObject]:
    """Policy versions.

    Args:
        session: A session.
        owner: Only those of the account with this name.
        disabled: Only those closed by an operator.
        among: These instead, in their order; None: by owner and name, newest first.
    """
    rows = among
    if rows is None:
        statement = search_policies(disabled=disabled)
        if owner is not None:
            statement = statement.where(User.name == owner)
        found = await session.scalars(statement.order_by(User.name, Policy.name, PolicyVersion.version.desc()))
        rows = found.unique().all()
    return [
        {
            "id": version.id,
            "policy_id": version.policy_id,
            "user": version.user.name,
            "name": version.policy.name,
            "version": version.version,
            "created_at": version.created_at.isoformat(),
            "disabled": next((what for what, row in _levels(version) if row.disabled_at is not None), None),
            "disabled_at": _text(next((row.disabled_at for _, row in _levels(version) if row.disabled_at), None)),
            "disabled_reason": next((row.disabled_reason for _, row in _levels(version) if row.disabled_at), None),
        }
        for version in rows
    ]


def search_episodes(words: str, status: str) -> sa.Select[EpisodeRequest]:
    """Select the episodes of a status with this in an error, or in the name of their account, Coworld or league."""
    return (
        sa.select(EpisodeRequest)
        .join(User, User.id == EpisodeRequest.user_id)
        .join(Coworld, Coworld.id == EpisodeRequest.coworld_id)
        .outerjoin(League, League.id == EpisodeRequest.league_id)
        .where(EpisodeRequest.status == status)
        .where(mentions(words, User.name, Coworld.name, League.name, EpisodeRequest.error_type, EpisodeRequest.error))
    )


async def episodes(session: AsyncSession, among: Sequence[EpisodeRequest]) -> list[JsonObject]:
    """Episodes of anybody, in their order: who asked for them, what they are of, and what became of them."""
    names: dict[str, str] = {}
    for table, ids in (
        (User, {row.user_id for row in among}),
        (Coworld, {row.coworld_id for row in among}),
        (League, {row.league_id for row in among if row.league_id is not None}),
    ):
        rows = await session.execute(sa.select(table.id, table.name).where(table.id.in_(ids)))
        names |= {row[0]: row[1] for row in rows}
    return [
        {
            "id": row.id,
            "status": row.status,
            "user": names[row.user_id],
            "coworld": names[row.coworld_id],
            "league": names.get(row.league_id or ""),
            "source": row.source,
            "attempts": row.attempts,
            "worker": row.lease_owner,
            "seconds": (row.completed_at - row.started_at).total_seconds()
            if row.started_at is not None and row.completed_at is not None
            else None,
            "error_type": row.error_type,
            "error": row.error,
            "created_at": row.created_at.isoformat(),
            "started_at": _text(row.started_at),
        }
        for row in among
    ]


async def queue(session: AsyncSession) -> list[JsonObject]:
    """Waiting and running episodes and roles by account, in the order in which accounts are served next."""
    work = sa.union_all(
        *(
            sa.select(table.user_id, table.status, table.created_at).where(table.status.in_(("pending", "running")))
            for table in (EpisodeRequest, RoleRun)
        )
    ).subquery()
    pending = work.c.status == "pending"
    statement = (
        sa.select(
            User.name,
            sa.func.sum(sa.case((pending, 1), else_=0)),
            sa.func.sum(sa.case((pending, 0), else_=1)),
            sa.func.min(work.c.created_at).filter(pending),
        )
        .join(User, User.id == work.c.user_id)
        .group_by(User.id, User.name, User.served_at)
        .order_by(User.served_at.asc().nulls_first(), User.name)
    )
    return [
        {"user": name, "waiting": int(waiting), "running": int(running), "oldest_at": _text(oldest)}
        for name, waiting, running, oldest in await session.execute(statement)
    ]


async def workers(session: AsyncSession) -> list[JsonObject]:
    """Workers with their last announcement and their episodes; workers that stopped in order are not listed."""
    plays, looks = await _held(session, EpisodeRequest), await _held(session, RoleRun)
    rows = {row.name: row for row in await session.scalars(sa.select(WorkerRow).order_by(WorkerRow.name))}
    found: list[JsonObject] = []
    for name in sorted({*rows, *plays, *looks}):
        row = rows.get(name)
        alive = row is not None and now() - row.seen_at < WORKER_GONE
        found.append(
            {
                "name": name,
                "state": "gone" if not alive else "paused" if row is not None and row.trouble else "working",
                "backend": row.backend if row else None,
                "parallel": row.parallel if row else None,
                "trouble": row.trouble if row else None,
                "started_at": _text(row.started_at) if row else None,
                "seen_at": _text(row.seen_at) if row else None,
                "episodes": plays.get(name, []),
                "roles": looks.get(name, []),
            }
        )
    return found


async def _held(session: AsyncSession, table: type[EpisodeRequest] | type[RoleRun]) -> dict[str, list[str]]:
    """The ids of what each worker is working on, in the order in which it has begun."""
    found: dict[str, list[str]] = {}
    for owner, id in await session.execute(
        sa.select(table.lease_owner, table.id)
        .where(table.status == "running", table.lease_owner.is_not(None))
        .order_by(table.started_at)
    ):
        found.setdefault(str(owner), []).append(id)
    return found


async def disk(session: AsyncSession, directory: Path) -> JsonObject:
    """Stored bytes by account and kind, and free space on the directory's disk."""
    sizes = stored()
    rows = await session.execute(
        sa.select(User.name, sizes.c.kind, sizes.c["items"], sizes.c.size)
        .join(User, User.id == sizes.c.user_id)
        .order_by(sizes.c.size.desc(), User.name)
    )
    items = [{"user": name, "kind": kind, "items": int(count), "bytes": int(size)} for name, kind, count, size in rows]
    usage = await anyio.to_thread.run_sync(shutil.disk_usage, directory)
    return {
        "items": items,
        "bytes": sum(int(row["bytes"]) for row in items),
        "free_bytes": usage.free,
        "disk_bytes": usage.total,
    }


def storage_of_owners(items: Sequence[JsonObject], words: str = "") -> list[JsonObject]:
    """What `disk` says by account and kind, as one row for each account with this in its name, the largest first."""
    owners: dict[str, JsonObject] = {}
    for row in items:
        if words.casefold() in row["user"].casefold():
            owner = owners.setdefault(row["user"], {"user": row["user"], "bytes": 0, "kinds": []})
            owner["bytes"] += row["bytes"]
            owner["kinds"].append(row)
    return sorted(owners.values(), key=lambda owner: -owner["bytes"])


def _levels(version: PolicyVersion) -> tuple[tuple[str, PolicyVersion | Policy], ...]:
    return (("version", version), ("policy", version.policy))


def _text(moment: dt.datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None
