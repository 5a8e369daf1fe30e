"""Members of a league: placement, checks of newcomers, champions and disqualification."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ..episodes.access import player_faults
from ..store.audit import audit
from ..store.columns import now
from ..store.database import Database
from ..store.disabled import enabled_versions
from ..store.event_log import record_event
from ..store.models import (
    FINAL_STATUSES,
    Coworld,
    Division,
    EpisodeRequest,
    Game,
    League,
    Membership,
    Participant,
    Policy,
    PolicyVersion,
    Submission,
)
from .game_setup import setup_of
from .league_settings import LeagueSettings
from .lineups import Candidate, episode_configs, plan_config
from .new_episodes import EpisodeTemplate, add_episodes

__all__ = ["CHECK", "QUALIFYING", "champions", "check_newcomers", "disqualify", "make_champion", "place_submission"]

CHECK = "qualification"
"""`EpisodeRequest.source` of the episode in which a newcomer plays against itself."""
QUALIFYING = "qualifying"
"""`Membership.status` until that check is over."""
_TRIES = 3
"""How many checks to play at most when something other than the policy fails."""


def champions(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Select each owner's champion, in the order in which they joined. Closed policies and accounts are left out.

    Args:
        conditions: Further conditions on `Membership`.
    """
    return (
        sa.select(Membership)
        .join(PolicyVersion, PolicyVersion.id == Membership.policy_version_id)
        .join(Policy, Policy.id == PolicyVersion.policy_id)
        .where(*conditions, Membership.end_time.is_(None), Membership.is_champion, enabled_versions())
        .order_by(Membership.created_at, Membership.id)
    )


async def place_submission(session: AsyncSession, submission: Submission, version: PolicyVersion) -> None:
    """Place a submission in a division, or reject it with a reason.

    It goes where its owner already plays, else into the lowest division. If the league checks newcomers, it competes
    once it has passed the check.
    """
    already = await session.scalar(
        sa.select(Membership).where(
            Membership.league_id == submission.league_id,
            Membership.policy_version_id == version.id,
            Membership.end_time.is_(None),
        )
    )
    if already is not None:
        submission.status, submission.membership_id = "placed", already.id
        notes = f"{_label(version)} is already a member."
        if already.status == QUALIFYING:
            submission.status = "processing"
        elif not already.is_champion and await _becomes_champion(session, submission, version):
            await make_champion(session, already)
            notes += " It is your champion again."
        submission.notes = notes
        return
    division = await _division_of(session, submission)
    refusal = "The league has no division for newcomers." if division is None else await _full(session, submission)
    if division is None or refusal is not None:
        await _reject(session, submission, version, refusal or "")
        return
    membership = Membership(
        league_id=submission.league_id,
        division_id=division.id,
        policy_version_id=version.id,
        user_id=submission.user_id,
        player_id=submission.player_id,
        substatus="active",
    )
    membership.division, membership.policy_version = division, version
    session.add(membership)
    await session.flush()
    submission.membership_id = membership.id
    league = await session.get_one(League, submission.league_id)
    if LeagueSettings.of(league.commissioner_config).check:
        membership.status, membership.substatus = QUALIFYING, "checking"
        submission.status = "processing"
        submission.notes = "It plays an episode against itself before it competes."
        return
    await _compete(session, submission, membership)


async def _compete(session: AsyncSession, submission: Submission, membership: Membership) -> None:
    version = membership.policy_version
    submission.status, submission.notes = "placed", None
    membership.status, membership.substatus = "competing", "active"
    if await _becomes_champion(session, submission, version):
        await make_champion(session, membership)
    headline = f"{_label(version)} joined {membership.division.name}"
    await record_event(session, "submission_placed", headline, membership=membership)


async def _reject(session: AsyncSession, submission: Submission, version: PolicyVersion, why: str) -> None:
    submission.status, submission.notes = "rejected", why
    await record_event(
        session,
        "submission_rejected",
        f"{_label(version)} was not placed",
        summary=why,
        audience="owner",
        policy_version=version,
        league_id=submission.league_id,
    )


async def _division_of(session: AsyncSession, submission: Submission) -> Division | None:
    open_ones = sa.select(Division).where(Division.league_id == submission.league_id, Division.archived_at.is_(None))
    own = (
        open_ones.join(Membership, Membership.division_id == Division.id)
        .where(Membership.is_champion, Membership.end_time.is_(None), _same_owner(submission))
        .limit(1)
    )
    return await session.scalar(own) or await session.scalar(open_ones.order_by(Division.level).limit(1))


async def _full(session: AsyncSession, submission: Submission) -> str | None:
    """Why the owner may have no more members in the league, or None."""
    manifest = await session.scalar(
        sa.select(Coworld.manifest)
        .join(Game, Game.coworld_id == Coworld.id)
        .join(League, League.game_id == Game.id)
        .where(League.id == submission.league_id)
    )
    most = (manifest or {}).get("players_per_user")
    if not isinstance(most, int):
        return None
    count = await session.scalar(
        sa.select(sa.func.count())
        .select_from(Membership)
        .where(
            Membership.league_id == submission.league_id,
            Membership.user_id == submission.user_id,
            Membership.end_time.is_(None),
        )
    )
    if (count or 0) < most:
        return None
    return f"The game limits active policies to {most} for each user. Retire one first."


async def _becomes_champion(session: AsyncSession, submission: Submission, version: PolicyVersion) -> bool:
    if submission.auto_champion != "lineage":
        return submission.auto_champion == "always"
    policies = await session.scalars(
        sa.select(PolicyVersion.policy_id)
        .join(Membership, Membership.policy_version_id == PolicyVersion.id)
        .where(Membership.is_champion, Membership.league_id == submission.league_id, _same_owner(submission))
    )
    champions = set(policies)
    return not champions or champions == {version.policy_id}


async def make_champion(session: AsyncSession, membership: Membership) -> None:
    """Make a membership its owner's only champion in the league."""
    await session.execute(
        sa.update(Membership)
        .where(
            Membership.league_id == membership.league_id,
            Membership.id != membership.id,
            Membership.is_champion,
            _same_owner(membership),
        )
        .values(is_champion=False, substatus="benched")
        .execution_options(synchronize_session="fetch")
    )
    membership.is_champion, membership.substatus = True, "champion"
    await session.flush()


def _same_owner(row: Submission | Membership) -> sa.ColumnElement[bool]:
    player = Membership.player_id.is_(None) if row.player_id is None else Membership.player_id == row.player_id
    return sa.and_(Membership.user_id == row.user_id, player, Membership.league_id == row.league_id)


# --- newcomers


async def check_newcomers(database: Database) -> None:
    """Order checks of newcomers, and admit or reject those whose check is over."""
    waiting = (
        sa.select(Membership.id)
        .join(PolicyVersion, PolicyVersion.id == Membership.policy_version_id)
        .join(Policy, Policy.id == PolicyVersion.policy_id)
        .where(Membership.status == QUALIFYING, Membership.end_time.is_(None), enabled_versions())
    )
    async with database.reading() as session:
        due = [found for found in await session.scalars(waiting) if await _is_due(session, found)]
    for membership_id in due:
        async with database.writing() as session:
            # Read again: another server may have been faster, or the owner may have retired it.
            membership = await session.get_one(Membership, membership_id, with_for_update={"of": Membership})
            if membership.status == QUALIFYING and await _is_due(session, membership_id):
                await _check(session, membership)


def _checks(membership: Membership) -> sa.Select[EpisodeRequest]:
    return (
        sa.select(EpisodeRequest)
        .join(Participant, Participant.episode_request_id == EpisodeRequest.id)
        .where(
            EpisodeRequest.source == CHECK,
            EpisodeRequest.league_id == membership.league_id,
            EpisodeRequest.created_at >= membership.created_at,
            Participant.policy_version_id == membership.policy_version_id,
            Participant.position == 0,
        )
        .order_by(EpisodeRequest.created_at.desc())
    )


async def _is_due(session: AsyncSession, membership_id: str) -> bool:
    last = await session.scalar(_checks(await session.get_one(Membership, membership_id)).limit(1))
    return last is None or last.status in FINAL_STATUSES


async def _check(session: AsyncSession, membership: Membership) -> None:
    checks = (await session.scalars(_checks(membership))).unique().all()
    submission = await session.scalar(
        sa.select(Submission)
        .where(Submission.membership_id == membership.id)
        .order_by(Submission.created_at.desc())
        .limit(1)
    )
    if submission is None:
        return
    faults = player_faults(checks[0]) if checks else []
    if not checks:
        await _order_check(session, membership)
    elif checks[0].status == "completed" and not faults:
        await _compete(session, submission, membership)
    elif faults or checks[0].failed_policy_index is not None:
        said = str(faults[0]["message"]) if faults else checks[0].error or "The episode failed."
        await _send_away(session, submission, membership, f"It did not pass its check (episode {checks[0].id}): {said}")
    elif len(checks) < _TRIES:
        await _order_check(session, membership)
    else:
        why = f"Its check could not be played, for no fault of the policy (episode {checks[0].id}): {checks[0].error}"
        await _send_away(session, submission, membership, why)


async def _send_away(session: AsyncSession, submission: Submission, membership: Membership, why: str) -> None:
    _end(membership, why)
    await _reject(session, submission, membership.policy_version, why)


async def _order_check(session: AsyncSession, membership: Membership) -> None:
    league = membership.division.league
    coworld = await session.get_one(Coworld, league.game.coworld_id)
    setup = setup_of(coworld, league.variant_id)
    lineup = [Candidate.of(membership.policy_version, membership.player)] * setup.seats
    config = plan_config(setup.manifest, setup.variant, {}, seats=setup.seats)
    configs = episode_configs(setup.manifest, config, [[seat.label for seat in lineup]], seed_pinned=False)
    order = EpisodeTemplate(
        source=CHECK,
        user_id=membership.user_id,
        player_id=membership.player_id,
        coworld_id=coworld.id,
        variant_id=setup.variant,
        league_id=league.id,
    )
    await add_episodes(session, order, [lineup], configs)


# --- disqualification


async def disqualify(session: AsyncSession, membership: Membership, *, most: int) -> bool:
    """Disqualify a member if it was at fault in each of its last episodes in the league's rounds.

    Args:
        session: A writing session.
        membership: The member.
        most: The number of such episodes in a row that disqualifies.
    """
    mine = Participant.policy_version_id == membership.policy_version_id
    last = (
        await session.scalars(
            sa.select(EpisodeRequest)
            .where(
                EpisodeRequest.league_id == membership.league_id,
                EpisodeRequest.round_id.is_not(None),
                EpisodeRequest.status.in_(("completed", "failed")),
                EpisodeRequest.created_at >= membership.created_at,
                EpisodeRequest.participants.any(mine),
            )
            .order_by(EpisodeRequest.completed_at.desc(), EpisodeRequest.id)
            .limit(most)
        )
    ).all()
    if len(last) < most or not all(_at_fault(row, membership.policy_version_id) for row in last):
        return False
    label = _label(membership.policy_version)
    why = f"The policy was at fault in each of its last {most} episodes, most recently {last[0].id}."
    _end(membership, why)
    await record_event(session, "policy_disqualified", f"{label} was disqualified", summary=why, membership=membership)
    audit(session, "member.disqualified", user_id=membership.user_id, subject=label, episodes=most)
    return True


def _at_fault(row: EpisodeRequest, version: str) -> bool:
    slots = {seat.position for seat in row.participants if seat.policy_version_id == version}
    return row.failed_policy_index in slots or any(fault["position"] in slots for fault in player_faults(row))


def _end(membership: Membership, why: str) -> None:
    membership.status = membership.substatus = "disqualified"
    membership.is_champion, membership.end_time, membership.reason = False, now(), why


def _label(version: PolicyVersion) -> str:
    return f"{version.policy.name}:v{version.version}"
