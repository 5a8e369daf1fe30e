"""Overviews for operators: accounts, leagues, policies, the queue, workers and storage, as JSON values."""

from __future__ import annotations

import datetime as dt
import shutil
from dataclasses import asdict
from pathlib import Path

import anyio.to_thread
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from ..identity.limits import quotas_of
from ..quotas import Quotas
from ..store.columns import JsonObject, now
from ..store.models import (
    WORKER_GONE,
    Commission,
    Division,
    EpisodeRequest,
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

__all__ = ["accounts", "disk", "leagues", "policies", "queue", "workers"]


async def accounts(session: AsyncSession, base: Quotas | None = None) -> list[JsonObject]:
    """Accounts by name, with their usage and quotas.

    Args:
        session: A session.
        base: The default quotas; None if unknown: only quotas set for an account are shown.
    """
    users = (await session.scalars(sa.select(User).order_by(User.name))).all()
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
            "quotas": user.quotas or {},
            "may": asdict(quotas_of(user, base)) if base is not None else None,
            "stored": held.get(user.id, 0),
            "waiting": waiting.get(user.name, {}).get("waiting", 0),
            "running": waiting.get(user.name, {}).get("running", 0),
            "created_at": user.created_at.isoformat(),
            "disabled_at": _text(user.disabled_at),
            "disabled_reason": user.disabled_reason,
        }
        for user in users
    ]


async def leagues(session: AsyncSession) -> list[JsonObject]:
    """Leagues, oldest first, with their settings and current rounds."""
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


async def policies(session: AsyncSession, *, owner: str | None = None, disabled: bool = False) -> list[JsonObject]:
    """Policy versions by owner and name, newest first.

    Args:
        session: A session.
        owner: Only those of the account with this name.
        disabled: Only those closed by an operator.
    """
    statement = (
        sa.select(PolicyVersion, User.name)
        .join(Policy, Policy.id == PolicyVersion.policy_id)
        .join(User, User.id == PolicyVersion.user_id)
        .order_by(User.name, Policy.name, PolicyVersion.version.desc())
    )
    if owner is not None:
        statement = statement.where(User.name == owner)
    if disabled:
        statement = statement.where(sa.or_(PolicyVersion.disabled_at.is_not(None), Policy.disabled_at.is_not(None)))
    return [
        {
            "id": version.id,
            "policy_id": version.policy_id,
            "user": name,
            "name": version.policy.name,
            "version": version.version,
            "created_at": version.created_at.isoformat(),
            "disabled": next((what for what, row in _levels(version) if row.disabled_at is not None), None),
            "disabled_at": _text(next((row.disabled_at for _, row in _levels(version) if row.disabled_at), None)),
            "disabled_reason": next((row.disabled_reason for _, row in _levels(version) if row.disabled_at), None),
        }
        for version, name in (await session.execute(statement)).unique()
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


def _levels(version: PolicyVersion) -> tuple[tuple[str, PolicyVersion | Policy], ...]:
    return (("version", version), ("policy", version.policy))


def _text(moment: dt.datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None
