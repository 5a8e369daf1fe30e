"""Members of a league: placement, entries, checks of newcomers, champions, and what happens to those that fail."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.text import listed

from ..episodes.access import player_faults
from ..store.account_lock import lock_account
from ..store.audit import audit
from ..store.columns import now
from ..store.database import Database
from ..store.disabled import enabled_versions
from ..store.event_log import record_event
from ..store.models import (
    CHECK,
    FINAL_STATUSES,
    Coworld,
    Division,
    EpisodeRequest,
    Event,
    Game,
    Image,
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

__all__ = [
    "QUALIFYING",
    "bench_surplus",
    "champions",
    "check_newcomers",
    "checks_of",
    "judge_members",
    "make_champion",
    "place_submission",
    "retire_member",
]

QUALIFYING = "qualifying"
"""`Membership.status` until its check is over."""
_TRIES = 3
"""How many checks to play at most when something other than the policy fails."""
_BENCHED = "policy_benched"
"""The event of a member that could not be played."""
_NAMED = 3
"""How many members with the same image are named."""


def champions(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Select the champion of each entry, in the order in which they joined. Closed policies and accounts are left out.

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

    It goes where its entry already plays, else into the lowest division. If the league checks newcomers, it competes
    once it has passed the check.
    """
    await lock_account(session, submission.user_id)
    league = await session.get_one(League, submission.league_id)
    terms = LeagueSettings.of(league.commissioner_config)
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
        elif not already.is_champion and await _becomes_champion(session, submission, already):
            benched = await make_champion(session, already)
            notes = _sentences(notes, "It is your champion again.", _replaces(already, benched, terms))
        submission.notes = notes
        return
    entry = await _entry_of(session, submission, terms.entries_per_user)
    division = await _division_of(session, submission, entry)
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
        entry_id=entry,
        substatus="active",
    )
    membership.division, membership.policy_version = division, version
    session.add(membership)
    await session.flush()
    submission.membership_id = membership.id
    if terms.check:
        membership.status, membership.substatus = QUALIFYING, "checking"
        submission.status = "processing"
        submission.notes = _sentences(
            "It plays an episode against itself before it competes.", await _same_image(session, membership)
        )
        return
    await _compete(session, submission, membership)


async def _compete(session: AsyncSession, submission: Submission, membership: Membership) -> None:
    version = membership.policy_version
    membership.status, membership.substatus = "competing", "active"
    replaced = None
    if await _becomes_champion(session, submission, membership):
        benched = await make_champion(session, membership)
        replaced = _replaces(membership, benched, LeagueSettings.of(membership.division.league.commissioner_config))
    submission.status = "placed"
    submission.notes = _sentences(replaced, await _same_image(session, membership)) or None
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


async def _entry_of(session: AsyncSession, submission: Submission, most: int | None) -> str:
    """The entry that a submission plays for (`Membership.entry_id`).

    A player keeps its entry. Another player of the account takes a new one while the league admits more, and else
    continues one that the account has, so that no rating begins afresh.
    """
    who = submission.player_id or submission.user_id
    rows = await session.execute(
        sa.select(
            sa.func.coalesce(Membership.player_id, Membership.user_id), Membership.entry_id, Membership.is_champion
        )
        .where(Membership.league_id == submission.league_id, Membership.user_id == submission.user_id)
        .order_by(Membership.created_at, Membership.id)
    )
    members = rows.all()
    own = next((entry for player, entry, _ in members if player == who), None)
    entries = list(dict.fromkeys(entry for _, entry, _ in members))
    if own is not None or most is None or len(entries) < most:
        return own or who
    playing = [entry for _, entry, is_champion in members if is_champion]
    free = [entry for entry in entries if entry not in playing]
    return playing[0] if len(playing) >= most or not free else free[-1]


async def _same_image(session: AsyncSession, membership: Membership) -> str | None:
    """A sentence that names the members of the league with the same image, or None."""
    own = (await session.get_one(Image, membership.policy_version.image_id)).content
    content = sa.func.coalesce(Image.layers, Image.digest)
    others = (
        (
            await session.scalars(
                sa.select(Membership)
                .join(PolicyVersion, PolicyVersion.id == Membership.policy_version_id)
                .join(Image, Image.id == PolicyVersion.image_id)
                .where(
                    Membership.league_id == membership.league_id,
                    Membership.id != membership.id,
                    Membership.end_time.is_(None),
                    # Nothing becomes another image by a label, or by a layer on top
                    sa.or_(content.startswith(own), sa.literal(own).startswith(content)),
                )
                .order_by(Membership.created_at, Membership.id)
            )
        )
        .unique()
        .all()
    )
    if not others or not own:
        return None
    return f"Its image is the same as that of {_listed(others)} in this league."


def _replaces(membership: Membership, benched: Sequence[Membership], terms: LeagueSettings) -> str | None:
    """A sentence about champions of other players of the account that a champion replaces, or None."""
    others = [one for one in benched if one.player_id != membership.player_id]
    if not others:
        return None
    return f"It takes the place of {_listed(others)}: one account may have {_entries(terms)} in this league."


def _entries(terms: LeagueSettings) -> str:
    return f"{terms.entries_in_words} {'entry' if terms.entries_per_user == 1 else 'entries'}"


def _listed(members: Sequence[Membership]) -> str:
    """Members with their owners, for a sentence."""
    owners = (one.player.name if one.player is not None else one.policy_version.user.name for one in members)
    words = [f"{_label(one.policy_version)} of {owner}" for one, owner in zip(members, owners, strict=True)]
    return listed(words, limit=_NAMED)


def _sentences(*parts: str | None) -> str:
    return " ".join(part for part in parts if part)


async def _division_of(session: AsyncSession, submission: Submission, entry: str) -> Division | None:
    open_ones = sa.select(Division).where(Division.league_id == submission.league_id, Division.archived_at.is_(None))
    own = (
        open_ones.join(Membership, Membership.division_id == Division.id)
        .where(
            Membership.is_champion,
            Membership.end_time.is_(None),
            Membership.league_id == submission.league_id,
            Membership.entry_id == entry,
        )
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


async def _becomes_champion(session: AsyncSession, submission: Submission, membership: Membership) -> bool:
    league = await session.get_one(League, membership.league_id)
    if LeagueSettings.of(league.commissioner_config).is_frozen(league.season):
        return False  # It was submitted before, and its check took until now
    if submission.auto_champion != "lineage":
        return submission.auto_champion == "always"
    policies = await session.scalars(
        sa.select(PolicyVersion.policy_id)
        .join(Membership, Membership.policy_version_id == PolicyVersion.id)
        .where(
            Membership.is_champion,
            Membership.league_id == membership.league_id,
            Membership.entry_id == membership.entry_id,
        )
    )
    champions = set(policies)
    return not champions or champions == {membership.policy_version.policy_id}


async def make_champion(session: AsyncSession, membership: Membership) -> list[Membership]:
    """Make a membership the only champion of its entry; returns those that are benched for it."""
    await lock_account(session, membership.user_id)
    membership.is_champion, membership.substatus, membership.reason = True, "champion", None
    await session.flush()
    league = await session.get_one(League, membership.league_id)
    return await bench_surplus(session, league, nominated=membership)


async def retire_member(session: AsyncSession, membership: Membership, reason: str | None = None) -> None:
    """End a membership, for a reason that its owner reads."""
    membership.status, membership.substatus = "retired", "retired"
    membership.is_champion = False
    membership.end_time, membership.reason = now(), reason
    headline = f"{_label(membership.policy_version)} retired"
    await record_event(session, "membership_retired", headline, membership=membership)


async def bench_surplus(
    session: AsyncSession, league: League, *, nominated: Membership | None = None
) -> list[Membership]:
    """Bench champions beyond the league's number of entries for each account; those that joined last stay.

    Args:
        session: A writing session.
        league: The league.
        nominated: A champion that stays in any case; only champions of its account are benched.

    Returns:
        The benched members.
    """
    most = LeagueSettings.of(league.commissioner_config).entries_per_user
    statement = (
        sa.select(Membership)
        .where(Membership.league_id == league.id, Membership.is_champion)
        .order_by(Membership.created_at.desc(), Membership.id)
    )
    if nominated is not None:
        statement = statement.where(Membership.user_id == nominated.user_id)
    rows = (await session.scalars(statement)).unique().all()
    kept: dict[str, set[str]] = {}
    benched: list[Membership] = []
    for row in sorted(rows, key=lambda row: row is not nominated):
        entries = kept.setdefault(row.user_id, set())
        if row.entry_id not in entries and (most is None or len(entries) < most):
            entries.add(row.entry_id)
        else:
            row.is_champion, row.substatus = False, "benched"
            benched.append(row)
    await session.flush()
    return benched


# --- newcomers


async def check_newcomers(database: Database) -> None:
    """Order checks of newcomers, and admit or reject those whose check is over."""
    waiting = (
        sa.select(Membership.id)
        .join(PolicyVersion, PolicyVersion.id == Membership.policy_version_id)
        .join(Policy, Policy.id == PolicyVersion.policy_id)
        .where(Membership.status == QUALIFYING, Membership.end_time.is_(None), enabled_versions())
        .order_by(Membership.created_at, Membership.id)
    )
    async with database.reading() as session:
        due = [found for found in await session.scalars(waiting) if await _is_due(session, found)]
    for membership_id in due:
        async with database.writing() as session:
            # Read again: another server may have been faster, or the owner may have retired it.
            membership = await session.get_one(Membership, membership_id, with_for_update={"of": Membership})
            if membership.status == QUALIFYING and await _is_due(session, membership_id):
                await _check(session, membership)


def checks_of(*membership_ids: str) -> sa.Select[EpisodeRequest, str]:
    """Select the episodes in which members were checked, newest first, each with the member's id."""
    until = sa.func.coalesce(Membership.end_time, EpisodeRequest.created_at)
    return (
        sa.select(EpisodeRequest, Membership.id)
        .join(Participant, Participant.episode_request_id == EpisodeRequest.id)
        .join(Membership, Membership.policy_version_id == Participant.policy_version_id)
        .where(
            Membership.id.in_(membership_ids),
            EpisodeRequest.source == CHECK,
            EpisodeRequest.league_id == Membership.league_id,
            EpisodeRequest.created_at.between(Membership.created_at, until),
            Participant.position == 0,
        )
        .order_by(EpisodeRequest.created_at.desc())
    )


async def _is_due(session: AsyncSession, membership_id: str) -> bool:
    last = await session.scalar(checks_of(membership_id).limit(1))
    return last is None or last.status in FINAL_STATUSES


async def _check(session: AsyncSession, membership: Membership) -> None:
    checks = (await session.scalars(checks_of(membership.id))).unique().all()
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


# --- members that fail repeatedly


async def judge_members(
    session: AsyncSession, round_id: str, members: Sequence[Membership], terms: LeagueSettings
) -> bool:
    """Disqualify members that were at fault in each of their last episodes; bench those that could not be played.

    Args:
        session: A writing session.
        round_id: The round that has just ended.
        members: Members of the league.
        terms: The league's terms.

    Returns:
        Whether a member was disqualified or benched.
    """
    gone = [await _disqualify(session, member, terms.faults) for member in members] if terms.faults else []
    if terms.unplayable:
        unplayed = await session.scalars(
            sa.select(Participant.policy_version_id)
            .join(EpisodeRequest, EpisodeRequest.id == Participant.episode_request_id)
            .where(EpisodeRequest.round_id == round_id, EpisodeRequest.failed_agent_index == Participant.position)
        )
        versions = set(unplayed)
        suspects = [one for one in members if one.is_champion and one.policy_version_id in versions]
        gone += [await _bench(session, member, terms.unplayable) for member in suspects]
    await session.flush()
    return any(gone)


async def _disqualify(session: AsyncSession, membership: Membership, most: int) -> bool:
    """Disqualify a member if it was at fault in each of its last episodes in the league's rounds."""
    last = await _last_episodes(session, membership, most)
    if len(last) < most or not all(_at_fault(row, membership.policy_version_id) for row in last):
        return False
    label = _label(membership.policy_version)
    why = f"The policy was at fault in each of its last {most} episodes, most recently {last[0].id}."
    _end(membership, why)
    await record_event(session, "policy_disqualified", f"{label} was disqualified", summary=why, membership=membership)
    audit(session, "member.disqualified", user_id=membership.user_id, subject=label, episodes=most)
    return True


async def _bench(session: AsyncSession, membership: Membership, most: int) -> bool:
    """Bench a member if this platform could not play it in any of its last episodes in the league's rounds.

    Episodes before it was last benched for that do not count, since it was submitted again.
    """
    before = await session.scalar(
        sa.select(sa.func.max(Event.created_at)).where(
            Event.event_type == _BENCHED,
            Event.league_id == membership.league_id,
            Event.policy_version_id == membership.policy_version_id,
        )
    )
    last = await _last_episodes(session, membership, most, since=before)
    if len(last) < most or not all(_unplayable(row, membership.policy_version_id) for row in last):
        return False
    label = _label(membership.policy_version)
    why = (
        f"The platform could not play it in its last {most} episodes, most recently {last[0].id}: {last[0].error} "
        "Submit it again once that has changed, or another version."
    )
    membership.is_champion, membership.substatus, membership.reason = False, "benched", why
    headline = f"{label} was benched"
    await record_event(session, _BENCHED, headline, summary=why, audience="owner", membership=membership)
    audit(session, "member.benched", user_id=membership.user_id, subject=label, episodes=most)
    return True


async def _last_episodes(
    session: AsyncSession, membership: Membership, most: int, *, since: dt.datetime | None = None
) -> Sequence[EpisodeRequest]:
    """A member's last episodes in the league's rounds that were played or failed, newest first."""
    mine = Participant.policy_version_id == membership.policy_version_id
    found = await session.scalars(
        sa.select(EpisodeRequest)
        .where(
            EpisodeRequest.league_id == membership.league_id,
            EpisodeRequest.round_id.is_not(None),
            EpisodeRequest.status.in_(("completed", "failed")),
            EpisodeRequest.created_at >= (since or membership.created_at),
            EpisodeRequest.participants.any(mine),
        )
        .order_by(EpisodeRequest.completed_at.desc(), EpisodeRequest.id)
        .limit(most)
    )
    return found.all()


def _unplayable(row: EpisodeRequest, version: str) -> bool:
    slots = {seat.position for seat in row.participants if seat.policy_version_id == version}
    return row.failed_agent_index in slots


def _at_fault(row: EpisodeRequest, version: str) -> bool:
    slots = {seat.position for seat in row.participants if seat.policy_version_id == version}
    return row.failed_policy_index in slots or any(fault["position"] in slots for fault in player_faults(row))


def _end(membership: Membership, why: str) -> None:
    membership.status = membership.substatus = "disqualified"
    membership.is_champion, membership.end_time, membership.reason = False, now(), why


def _label(version: PolicyVersion) -> str:
    return f"{version.policy.name}:v{version.version}"
