"""Deletes an account: what it alone has goes, what others have a part in stays under a neutral name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ..errors import conflict
from ..identity.accounts import find_user
from ..services import Services
from ..store.audit import audit
from ..store.columns import Base, now
from ..store.database import next_revision
from ..store.models import (
    AuthCode,
    EpisodeRequest,
    EpisodeScore,
    ExperienceRequest,
    HostedSession,
    Idempotent,
    Label,
    LeagueOfficer,
    Lobby,
    Membership,
    Participant,
    Player,
    Policy,
    PolicySecretEnv,
    PolicyVersion,
    RoleRun,
    RoundResult,
    SignInLink,
    Submission,
    Tally,
    Token,
    User,
    Webhook,
)
from ..work.cancellation import cancel_waiting
from ..work.league_members import retire_member
from .teams import leave_team, teams_of

__all__ = ["GOES", "STAYS", "Deletion", "delete_account", "delete_named", "deletion_of"]

GOES = (
    "name and e-mail, tokens, sessions, sign-in codes and links, keys, labels, secrets of policies, requests that "
    "nothing has played, and policy versions that never played"
)
STAYS = (
    "under a neutral name, episodes with replays and logs, standings, seasons, policies that played, and Coworlds as "
    "they were uploaded; in a file that a game wrote, the names that it wrote, until `retention` removes it; "
    "with a team, what it has; the audit log as it was written, which is the operator's alone and only grows"
)

_AS_WRITTEN = frozenset(
    {"audit_entries", "coworlds", "coworld_names", "coworld_secrets", "users", "tokens", "idempotent_answers"}
)
"""Tables whose texts nobody changes, are what others download, or go."""
_FIXED = frozenset({"hash", "digest", "layers", "client_hash", "key", "run", "status", "kind", "traceparent"})


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """What a deletion does, or has done."""

    name: str
    neutral_name: str
    """What stands in place of the name."""
    episodes: int
    """Episodes that stay."""
    requests: int
    """Waiting episodes that are cancelled."""
    memberships: int
    """Policies that are taken out of leagues."""
    unused: int
    """Policy versions that go, since they never played."""
    tokens: int
    goes: str = GOES
    stays: str = STAYS


async def deletion_of(session: AsyncSession, user: User) -> Deletion:
    """What the deletion of an account would do.

    Raises:
        Refusal: 409 (code `is_team`): it is a team, which ends when its last member leaves.
    """
    if user.is_shared:
        raise conflict(f"{user.name} is a team. It ends when its last member leaves it.", code="is_team")

    async def count(statement: sa.Select[Any]) -> int:
        return await session.scalar(sa.select(sa.func.count()).select_from(statement.subquery())) or 0

    seated = sa.select(Participant.episode_request_id).where(Participant.user_id == user.id)
    mine = sa.or_(EpisodeRequest.user_id == user.id, EpisodeRequest.id.in_(seated))
    return Deletion(
        name=user.name,
        neutral_name=f"deleted-{user.id.replace('-', '')[-10:]}",
        episodes=await count(sa.select(EpisodeRequest.id).where(mine, EpisodeRequest.status != "pending")),
        requests=await count(sa.select(EpisodeRequest.id).where(mine, EpisodeRequest.status == "pending")),
        memberships=await count(
            sa.select(Membership.id).where(Membership.user_id == user.id, Membership.end_time.is_(None))
        ),
        unused=await count(_unused(user.id)),
        tokens=await count(sa.select(Token.id).where(Token.user_id == user.id, Token.revoked_at.is_(None))),
    )


async def delete_account(services: Services, user_id: str) -> Deletion:
    """Delete an account, in one transaction; then the values of its secrets.

    Raises:
        Refusal: 409 (code `last_member`): it is the last member of a team that has entries; `is_team`.
    """
    async with services.database.writing() as session:
        user = await session.get_one(User, user_id)
        done = await deletion_of(session, user)
        for team in await teams_of(session, user_id):
            await leave_team(session, team, user_id, by=user_id)
        await _end(session, user, done)
        await _rename(session, user, done.neutral_name)
        await _remove(session, user)
        user.name, user.email, user.quotas, user.is_team = done.neutral_name, None, None, False
        user.disabled_at, user.disabled_reason = now(), "The account was deleted."
        kept, cancelled = done.episodes, done.requests
        audit(session, "account.deleted", user_id=user.id, episodes=kept, requests=cancelled, unused=done.unused)
    return done


async def delete_named(services: Services, name: str, *, really: bool) -> Deletion:
    """Delete the account of a name or an id; unless `really`, only say what that would do.

    Raises:
        AccountError: There is no such account (code `unknown_user`).
        Refusal: As by `delete_account`.
    """
    async with services.database.reading() as session:
        user = await find_user(session, name)
        planned = await deletion_of(session, user)
    return await delete_account(services, user.id) if really else planned


async def _end(session: AsyncSession, user: User, done: Deletion) -> None:
    """End what is going on: memberships, waiting episodes and roles, games and lobbies."""
    why = "The account of its owner was deleted."
    live = sa.select(Membership).where(Membership.user_id == user.id, Membership.end_time.is_(None))
    for membership in (await session.scalars(live)).unique().all():
        await retire_member(session, membership, why)
    seated = sa.select(Participant.episode_request_id).where(Participant.user_id == user.id)
    waiting = sa.or_(EpisodeRequest.user_id == user.id, EpisodeRequest.id.in_(seated))
    await cancel_waiting(session, waiting, f"{done.neutral_name} has deleted its account before this was played.")
    closed = {"status": "cancelled", "completed_at": now(), "error_type": "disabled", "error": why}
    asked = sa.and_(RoleRun.user_id == user.id, RoleRun.status == "pending", ~RoleRun.automatic)
    await session.execute(sa.update(RoleRun).where(asked).values(**closed))
    drafts = sa.and_(Lobby.user_id == user.id, Lobby.started_at.is_(None), Lobby.cancelled_at.is_(None))
    await session.execute(sa.update(Lobby).where(drafts).values(cancelled_at=now()))
    running = sa.and_(HostedSession.user_id == user.id, HostedSession.ended_at.is_(None))
    await session.execute(sa.update(HostedSession).where(running).values(expires_at=now()))


async def _remove(session: AsyncSession, user: User) -> None:
    """Remove what the account alone has."""
    players = sa.select(Player.id).where(Player.user_id == user.id)
    versions = sa.select(PolicyVersion.id).where(PolicyVersion.user_id == user.id)
    requests = sa.select(EpisodeRequest.id).where(EpisodeRequest.user_id == user.id)
    groups = sa.select(ExperienceRequest.id).where(ExperienceRequest.user_id == user.id)
    await session.execute(sa.delete(Label).where(Label.subject_id.in_(sa.union(versions, requests, groups))))
    await session.execute(
        sa.delete(Idempotent).where(sa.or_(Idempotent.subject_id == user.id, Idempotent.subject_id.in_(players)))
    )
    own = PolicyVersion.user_id == user.id
    await session.execute(sa.update(PolicyVersion).where(own).values(secret_env_id=None))
    # Read first: what is deleted decides what is unused
    unused = list(await session.scalars(_unused(user.id)))
    await session.execute(sa.delete(PolicyVersion).where(PolicyVersion.id.in_(unused)))
    used = sa.select(PolicyVersion.policy_id)
    await session.execute(sa.delete(Policy).where(Policy.user_id == user.id, Policy.id.not_in(used)))
    for table in (PolicySecretEnv, AuthCode, SignInLink, Token, LeagueOfficer, Webhook):
        await session.execute(sa.delete(table).where(table.user_id == user.id))
    await session.execute(sa.update(Player).where(Player.user_id == user.id).values(avatar_url=None, disabled_at=now()))


def _unused(user_id: str) -> sa.Select[str]:
    """Policy versions of an account to which nothing refers that stays."""
    statement = sa.select(PolicyVersion.id).where(PolicyVersion.user_id == user_id)
    for table in (Participant, Membership, Submission, EpisodeScore, Tally, RoundResult):
        used = sa.select(table.policy_version_id).where(table.policy_version_id.is_not(None))
        statement = statement.where(PolicyVersion.id.not_in(used))
    events = Base.metadata.tables["competition_events"].c.policy_version_id
    return statement.where(PolicyVersion.id.not_in(sa.select(events).where(events.is_not(None))))


async def _rename(session: AsyncSession, user: User, neutral: str) -> None:
    """Put neutral names in place of those of an account and its players, where they stand as words."""
    players = await session.scalars(
        sa.select(Player).where(Player.user_id == user.id).order_by(Player.created_at, Player.id)
    )
    names = {user.name: neutral, **({user.email: neutral} if user.email else {})}
    for number, player in enumerate(players, 1):
        names.setdefault(player.name, f"{neutral}-{number}")
        player.name = f"{neutral}-{number}"
    # As it stands in the names of repositories (`api.images`)
    names.setdefault(re.sub(r"[^a-z0-9]+", "-", user.name.lower())[:60].strip("-") or neutral, neutral)
    await session.flush()
    tables, of = Base.metadata.tables, user.id
    words = _substitute(names)
    policies = await session.scalars(sa.select(Policy.name).where(Policy.user_id == of))
    known = {*names, *policies}

    def whole(text: str) -> str:
        return words(text) if text.partition(":")[0] in known else text

    seated = sa.select(Participant.episode_request_id).where(Participant.user_id == of)
    ours = sa.or_(EpisodeRequest.user_id == of, EpisodeRequest.id.in_(seated))
    leagues = list(await session.scalars(sa.select(Membership.league_id).where(Membership.user_id == of).distinct()))
    for name, table in tables.items():
        columns = table.c
        if name in _AS_WRITTEN or name == "episode_requests":
            continue
        owners = [columns[one] == of for one in ("user_id", "created_by") if one in columns]
        if name in ("rounds", "round_results", "commissions", "commission_events", "lobbies", "hosted_sessions"):
            texts = [sa.cast(one, sa.Text) for one in _texts(table)]
            written = {*names, *(json.dumps(one)[1:-1] for one in names)}
            owners += [one.icontains(text, autoescape=True) for one in texts for text in written]
        elif "league_id" in columns:
            owners.append(columns.league_id.in_(leagues))
        if owners:
            await _change(session, table, sa.or_(*owners), _texts(table), words)
    requests, configs = tables["episode_requests"], tables["game_configs"]
    mine = requests.c.id.in_(sa.select(EpisodeRequest.id).where(ours))
    texts = [one for one in _texts(requests) if one.name != "game_config"]
    await _change(session, requests, mine, texts, words)
    # In a config, only a whole text is a name: of a player, or `NAME:vN` of a policy
    await _change(session, requests, mine, [requests.c.game_config], whole)
    shared = configs.c.id.in_(sa.select(EpisodeRequest.config_id).where(ours))
    await _change(session, configs, shared, [configs.c.config], whole)
    revision = await next_revision(session)
    await session.execute(sa.update(requests).where(mine).values(revision=revision))
    for name in ("registry_manifests", "registry_tags", "registry_blobs"):
        column = tables[name].c.repository
        for repository in set(await session.scalars(sa.select(column).where(column.contains(f"-{of[-6:]}/")))):
            await session.execute(
                sa.update(tables[name]).where(column == repository).values(repository=words(repository))
            )


def _texts(table: sa.Table) -> list[sa.Column[Any]]:
    """Columns of a table in which names may stand."""
    return [
        one
        for one in table.c
        if isinstance(one.type, sa.String | sa.JSON)
        and not (one.primary_key or one.foreign_keys or one.name in _FIXED)
        and not one.name.endswith("_id")
    ]


async def _change(
    session: AsyncSession,
    table: sa.Table,
    condition: sa.ColumnElement[bool],
    columns: Iterable[sa.Column[Any]],
    change: Callable[[str], str],
) -> None:
    columns, key = list(columns), list(table.primary_key)
    if not columns:
        return
    for found in (await session.execute(sa.select(*key, *columns).where(condition))).mappings().all():
        new = {one.name: _deep(found[one], change) for one in columns}
        if changed := {name: value for name, value in new.items() if value != found[table.c[name]]}:
            await session.execute(sa.update(table).where(*(one == found[one] for one in key)).values(changed))


def _deep(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_deep(one, change) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {change(name): _deep(one, change) for name, one in cast("dict[str, Any]", value).items()}
    return value


def _substitute(names: dict[str, str]) -> Callable[[str], str]:
    folded = {name.casefold(): neutral for name, neutral in names.items()}
    longest = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    pattern = re.compile(rf"(?<![^\W_])(?:{longest})(?![^\W_])", re.IGNORECASE)
    return lambda text: pattern.sub(lambda match: folded[match[0].casefold()], text)
