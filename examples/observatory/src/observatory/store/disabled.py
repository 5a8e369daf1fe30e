"""Conditions for accounts and policies that an operator has disabled."""

from __future__ import annotations

import sqlalchemy as sa

from .models import EpisodeRequest, Participant, Policy, PolicyVersion, RoleRun, User

__all__ = ["disabled_episodes", "disabled_roles", "disabled_versions", "enabled_versions"]


def enabled_versions() -> sa.ColumnElement[bool]:
    """Policy versions that may be scheduled; the query must join `Policy`."""
    return sa.and_(
        PolicyVersion.disabled_at.is_(None), Policy.disabled_at.is_(None), PolicyVersion.user_id.not_in(_accounts())
    )


def disabled_versions() -> sa.Select[str]:
    """The ids of the policy versions that may not be scheduled."""
    return (
        sa.select(PolicyVersion.id)
        .join(Policy, Policy.id == PolicyVersion.policy_id)
        .where(sa.not_(enabled_versions()))
    )


def disabled_episodes() -> sa.ColumnElement[bool]:
    """Episodes requested by a disabled account, or with a disabled policy in a seat."""
    seated = sa.select(Participant.episode_request_id).where(Participant.policy_version_id.in_(disabled_versions()))
    # Rounds use the turns of the game's owner in the queue, but are not requests of that account.
    asked = sa.and_(EpisodeRequest.round_id.is_(None), EpisodeRequest.user_id.in_(_accounts()))
    return sa.or_(asked, EpisodeRequest.id.in_(seated))


def disabled_roles() -> sa.ColumnElement[bool]:
    """Runs of roles that a disabled account has asked for; those of a league only use the turns of an account."""
    return sa.and_(~RoleRun.automatic, RoleRun.user_id.in_(_accounts()))


def _accounts() -> sa.Select[str]:
    return sa.select(User.id).where(User.disabled_at.is_not(None))
