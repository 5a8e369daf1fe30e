"""Disables accounts, whose tokens are then refused, and policies, which are then not scheduled; enables them again.

Waiting episodes of a disabled account or policy are cancelled in the same transaction.
"""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.api import PolicyRef

from ..errors import forbidden
from ..identity.accounts import AccountError, find_user
from ..store.audit import audit
from ..store.columns import now
from ..store.models import EpisodeRequest, Participant, Policy, PolicyVersion, User
from ..work.cancellation import cancel_waiting

__all__ = [
    "PolicyError",
    "disable_policy",
    "disable_user",
    "disabled_since",
    "enable_policy",
    "enable_user",
    "find_policy",
    "policy_label",
    "require_enabled",
]


class PolicyError(AccountError):
    """There is no such policy, or several match."""

    default_code = "policy"


def disabled_since(version: PolicyVersion) -> tuple[dt.datetime, str | None] | None:
    """When and why an operator disabled a version or its policy; None if it is enabled."""
    for row in (version, version.policy):
        if row.disabled_at is not None:
            return row.disabled_at, row.disabled_reason
    return None


def require_enabled(version: PolicyVersion) -> None:
    """Refuse a version of the caller's own that an operator has disabled.

    Raises:
        Refusal: 403 (code ``policy_disabled``) with the reason.
    """
    if (disabled := disabled_since(version)) is not None:
        raise forbidden(
            f"An operator has disabled {_label(version)}{_because(disabled[1])}: it is not scheduled.",
            code="policy_disabled",
        )


async def disable_user(session: AsyncSession, name: str, *, reason: str | None = None) -> tuple[User, int]:
    """Disable an account: refuse its tokens and sessions from now on, and cancel its waiting episodes.

    Args:
        session: A writing session.
        name: The account's name or id.
        reason: The reason, shown to its owner.

    Returns:
        The account, and the number of cancelled episodes.

    Raises:
        AccountError: There is no such account.
    """
    user = await find_user(session, name)
    seated = sa.select(Participant.episode_request_id).where(Participant.user_id == user.id)
    cancelled = await cancel_waiting(
        session,
        sa.or_(EpisodeRequest.user_id == user.id, EpisodeRequest.id.in_(seated)),
        f"The account {user.name} was disabled by an operator before this episode was played.",
    )
    user.disabled_at, user.disabled_reason = user.disabled_at or now(), reason
    audit(session, "account.disabled", user_id=user.id, reason=reason, episodes_cancelled=cancelled)
    return user, cancelled


async def enable_user(session: AsyncSession, name: str) -> User:
    """Enable an account: its tokens that have not expired are valid again.

    Raises:
        AccountError: There is no such account.
    """
    user = await find_user(session, name)
    user.disabled_at = user.disabled_reason = None
    audit(session, "account.enabled", user_id=user.id)
    return user


async def find_policy(session: AsyncSession, reference: str, *, owner: str | None = None) -> Policy | PolicyVersion:
    """Find a policy (``NAME``) or one of its versions (``NAME:v3`` or an id).

    Args:
        session: A session.
        reference: The reference.
        owner: The name of the owning account, if several accounts have a policy of that name.

    Raises:
        PolicyError: There is none (code ``unknown_policy``), or several (``ambiguous_policy``).
        UsageError: The text is not a reference.
    """
    wanted = PolicyRef.parse(reference)
    if wanted.id is not None:
        row = await session.get(PolicyVersion, wanted.id) or await session.get(Policy, wanted.id)
        if row is None:
            raise _unknown(reference)
        return row
    statement = sa.select(Policy).join(User, User.id == Policy.user_id).where(Policy.name == wanted.name)
    if owner is not None:
        statement = statement.where(User.name == owner)
    found = (await session.scalars(statement)).all()
    if not found:
        raise _unknown(reference)
    if len(found) > 1:
        hint = "Say whose with --user NAME, or give an id; `observatory policy list` has both."
        raise PolicyError(f"Several accounts have a policy {wanted.name!r}.", code="ambiguous_policy", hint=hint)
    if wanted.version is None:
        return found[0]
    version = await session.scalar(
        sa.select(PolicyVersion).where(PolicyVersion.policy_id == found[0].id, PolicyVersion.version == wanted.version)
    )
    if version is None:
        raise _unknown(reference)
    return version


async def disable_policy(session: AsyncSession, row: Policy | PolicyVersion, *, reason: str | None = None) -> int:
    """Disable a policy or one version of it: it is no longer scheduled, and its owner sees the reason.

    Returns:
        The number of waiting episodes with it, which are cancelled.
    """
    one = isinstance(row, PolicyVersion)
    seat = (Participant.policy_version_id if one else Participant.policy_id) == row.id
    label = policy_label(row)
    cancelled = await cancel_waiting(
        session,
        EpisodeRequest.id.in_(sa.select(Participant.episode_request_id).where(seat)),
        f"The policy {label} was disabled by an operator before this episode was played.",
    )
    row.disabled_at, row.disabled_reason = row.disabled_at or now(), reason
    audit(
        session,
        "policy.disabled",
        user_id=row.user_id,
        subject=label,
        id=row.id,
        reason=reason,
        episodes_cancelled=cancelled,
    )
    return cancelled


def enable_policy(session: AsyncSession, row: Policy | PolicyVersion) -> None:
    """Enable a policy or one version of it; it is scheduled from now on."""
    row.disabled_at = row.disabled_reason = None
    audit(session, "policy.enabled", user_id=row.user_id, subject=policy_label(row), id=row.id)


def policy_label(row: Policy | PolicyVersion) -> str:
    """``name`` or ``name:v3``."""
    return row.name if isinstance(row, Policy) else _label(row)


def _unknown(reference: str) -> PolicyError:
    hint = "`observatory policy list` has them all."
    return PolicyError(f"There is no policy {reference!r}.", code="unknown_policy", hint=hint)


def _label(version: PolicyVersion) -> str:
    return f"{version.policy.name}:v{version.version}"


def _because(reason: str | None) -> str:
    return f" ({reason})" if reason else ""
