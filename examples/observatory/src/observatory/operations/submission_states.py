"""What became of submissions to leagues, why, and what their owners can do next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ..store.columns import now
from ..store.models import EpisodeRequest, Membership, Submission
from ..work.league_members import QUALIFYING, checks_of
from ..work.league_settings import LeagueSettings
from .moderation import disabled_since

__all__ = ["SubmissionState", "submission_states"]

_NEXT = {
    "waiting": "Its check waits for its turn. It competes once it has passed.",
    "checking": "It plays an episode against itself. It competes once it has passed.",
    "champion": "It plays in each round. A newer version takes its place:",
    "admitted": "It does not play: your champion does. This one plays instead after",
    "rejected": "Mend it, and upload the next version:",
    "retired": "It plays again after",
    "disqualified": "Mend it, and upload the next version:",
    "disabled": "Ask the operator of this Observatory.",
}


@dataclass(frozen=True, kw_only=True)
class SubmissionState:
    """A submission as its owner sees it."""

    submission: Submission
    state: str
    """`waiting`, `checking`, `champion`, `admitted` (but another one is champion), `rejected`, `retired`,
    `disqualified`, or `disabled` (by an operator)."""
    reason: str | None
    """Why, in words for its owner alone."""
    next: str
    """What to do next, or what happens next."""
    command: str | None
    """The command that ends the sentence `next`, if one does."""
    check: EpisodeRequest | None
    """Its last check, if it had one."""
    entry_id: str | None
    """The entry that it plays for."""


async def submission_states(session: AsyncSession, rows: Sequence[Submission], *, server: str) -> list[SubmissionState]:
    """What became of submissions.

    Args:
        session: For reading.
        rows: The submissions.
        server: The address of this Observatory, for the commands.
    """
    ids = {row.membership_id for row in rows if row.membership_id is not None}
    found = await session.scalars(sa.select(Membership).where(Membership.id.in_(ids)))
    members = {member.id: member for member in found.unique()}
    checks: dict[str, EpisodeRequest] = {}
    for check, member in await session.execute(checks_of(*ids)):
        checks.setdefault(member, check)
    return [
        _state(row, members.get(row.membership_id or ""), checks.get(row.membership_id or ""), server) for row in rows
    ]


def _state(row: Submission, member: Membership | None, check: EpisodeRequest | None, server: str) -> SubmissionState:
    disabled = disabled_since(row.policy_version)
    reason = row.notes
    if row.status == "rejected":
        state = "rejected"
    elif member is not None and member.end_time is not None:
        state, reason = member.status, member.reason
    elif disabled is not None:
        state, reason = "disabled", disabled[1]
    elif member is None or member.status == QUALIFYING:
        state = "checking" if check is not None and check.status == "running" else "waiting"
    else:
        state = "champion" if member.is_champion else "admitted"
        reason = member.reason or reason
    words, command = _next(row, state, server)
    return SubmissionState(
        submission=row,
        state=state,
        reason=reason,
        next=words,
        command=command,
        check=check,
        entry_id=member.entry_id if member is not None else None,
    )


def _next(row: Submission, state: str, server: str) -> tuple[str, str | None]:
    version, league = row.policy_version, row.league
    label = f"{version.policy.name}:v{version.version}"
    upload = ["upload-policy", "FILE", "--name", version.policy.name]
    words = {
        "champion": upload,
        "rejected": upload,
        "disqualified": upload,
        "admitted": ["champion", label],
        "retired": ["submit", label],
    }.get(state)
    if words is None:
        return _NEXT[state], None
    if (closed := LeagueSettings.of(league.commissioner_config).why_closed(league.season, now())) is not None:
        return closed, None
    team = ["--as-team", version.user.name] if version.user.is_shared else []
    return _NEXT[state], shlex.join(["coworld", *words, "--league", league.name, *team, "--server", server])
