"""Supporting roles that are to be run on episodes which are over: what is ordered, with which inputs, and for whom.

A role gets the episode's bundle. What players have left in it is private to their owners, so a run notes whose files it
was given (`RoleRun.slots`), and what it says may be seen by those only who may read them all. A grader, and a reporter
whom nobody has given private files, gets what everybody sees who may see the episode.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from coworld_core.api import HostedRole
from coworld_core.errors import CoworldError
from coworld_core.manifest import RoleRunnable, load_manifest
from coworld_core.roles import DiagnosedPlayer
from coworld_runner.roles import RoleProgram

from ..episodes.bundles import bundle_of, digest_of
from ..store.artifacts import StoredObject
from ..store.columns import now
from ..store.models import Coworld, EpisodeRequest, Image, League, RoleRun
from .league_settings import LeagueSettings

__all__ = [
    "RoleEnd",
    "declared_roles",
    "diagnosed_player",
    "order_after_episode",
    "order_role",
    "to_declare",
    "write_role_end",
]

_log = logging.getLogger("observatory.work.worker")


@dataclass(frozen=True, kw_only=True)
class RoleEnd:
    """How the program of a role ended."""

    error_type: str | None = None
    """None: what it left is valid."""
    error: str | None = None
    answer: dict[str, Any] | None = None
    record: dict[str, Any] | None = None
    output: StoredObject | None = None


def declared_roles(coworld: Coworld, role: HostedRole) -> tuple[RoleRunnable, ...]:
    """The programs of a role that a Coworld declares, and that can be run here."""
    return load_manifest(dict(coworld.manifest), template=True).manifest.section(role)


def to_declare(role: HostedRole) -> str:
    """What to do so that a Coworld has a program of a role that can be run here."""
    words = (
        f"Declare one in the section `{role}` of its manifest, and upload that: one of the Coworld's images, and the "
        "command that runs it there. Files of a package run here in its images alone."
    )
    later = " Published versions from 0.1.30 on refuse reporters with an image; this server does not."
    return words + (later if role == "reporter" else "")


def diagnosed_player(row: EpisodeRequest, position: int) -> DiagnosedPlayer:
    """The player in a slot, as a diagnoser is told of it."""
    for seat in row.participants:
        if seat.position == position:
            name = seat.policy_name if seat.policy_version_id is None else f"{seat.policy_name}:v{seat.version}"
            source = seat.policy_version_id or seat.bundled_player or ""
            return DiagnosedPlayer(slot=position, name=name, source=source)
    return DiagnosedPlayer(slot=position)


async def order_role(
    session: AsyncSession,
    row: EpisodeRequest,
    entry: RoleRunnable,
    role: HostedRole,
    *,
    user_id: str,
    person_id: str,
    slots: Collection[int] | None = (),
    position: int = -1,
    automatic: bool = False,
    index: int = 0,
) -> RoleRun:
    """Put the run of a role into the queue, unless the same has been done or is to be done already.

    Args:
        session: A writing session.
        row: The episode, with its participants and artifacts.
        entry: The program, from the Coworld's manifest.
        role: Its role.
        user_id: The account whose turns it uses.
        person_id: Who asked for it, whose turns it uses as well.
        slots: The slots whose players' files it is given; None: all.
        position: The slot of the player to diagnose.
        automatic: Whether a league orders it.
        index: Its place among what is ordered at the same moment.

    Returns:
        The run: a new one, or the one that does the same. One that has failed begins again.
    """
    plan = bundle_of(row, slots=slots)
    given = {item.slot for item in plan.items if item.slot is not None}
    if position >= 0:
        given.add(position)
    digest = await session.scalar(sa.select(Image.digest).where(Image.id == entry.image))
    key = RoleProgram(role=role, id=entry.id, runnable=entry.as_runnable()).key(
        digest or "",
        episodes=[digest_of(plan)],
        player=diagnosed_player(row, position) if position >= 0 else None,
    )
    known = await session.scalar(sa.select(RoleRun).where(RoleRun.key == key).with_for_update(of=RoleRun))
    if known is not None:
        if known.status in ("failed", "cancelled") and not automatic:
            known.status, known.attempts, known.user_id, known.automatic = "pending", 0, user_id, False
            known.person_id = person_id
            known.error_type = known.error = known.record = known.completed_at = known.started_at = None
            known.created_at = now()
        return known
    run = RoleRun(
        episode_request_id=row.id,
        user_id=user_id,
        person_id=person_id,
        automatic=automatic,
        index=index,
        role=role,
        runnable_id=entry.id,
        position=position,
        slots=sorted(given),
        key=key,
    )
    session.add(run)
    await session.flush()
    return run


async def order_after_episode(session: AsyncSession, row: EpisodeRequest) -> None:
    """Order the roles that a league wants after each episode of its rounds, once one is completed."""
    if row.round_id is None or row.league_id is None or row.status != "completed":
        return
    league = await session.get_one(League, row.league_id)
    terms = LeagueSettings.of(league.commissioner_config)
    wanted: list[HostedRole] = []
    if terms.grade:
        wanted.append("grader")
    if terms.report:
        wanted.append("reporter")
    if not wanted:
        return
    coworld = await session.get_one(Coworld, row.coworld_id)
    try:
        entries: list[tuple[HostedRole, RoleRunnable]] = [
            (role, entry) for role in wanted for entry in declared_roles(coworld, role)
        ]
    except CoworldError as error:
        # The episode counts all the same
        _log.warning("Roles of %s cannot be run on episode %s: %s", coworld.name, row.id, error)
        return
    await session.refresh(row, ["participants", "artifacts"])
    for index, (role, entry) in enumerate(entries):
        by, person = row.user_id, row.person_id
        await order_role(session, row, entry, role, user_id=by, person_id=person, automatic=True, index=index)


def write_role_end(row: RoleRun, end: RoleEnd) -> None:
    """Store how the program of a role ended."""
    row.status = "completed" if end.error_type is None else "failed"
    row.error_type, row.error, row.answer, row.record = end.error_type, end.error, end.answer, end.record
    row.score = end.answer.get("score") if end.answer is not None and row.role == "grader" else None
    row.completed_at = now()
    if end.output is not None:
        row.output_key, row.output_size, row.output_sha256 = end.output.key, end.output.size, end.output.sha256
