"""Roles that are run on episodes: asking for one, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.requests import Request
from starlette.responses import Response

from coworld_core import api
from coworld_core.errors import CoworldError
from coworld_core.text import listed

from ..episodes.access import find_episode, may_read, own_slots, takes_part
from ..episodes.downloads import send
from ..errors import Refusal, conflict, explained, forbidden, invalid, not_found
from ..identity.auth import Caller
from ..identity.limits import require_episodes
from ..services import Services
from ..store.columns import JsonObject
from ..store.models import Artifact, Coworld, EpisodeRequest, RoleRun
from ..work.role_orders import declared_roles, order_role, to_declare
from .episodes import refuse_unfinished
from .routing import Anyone, ApiRouter, Json, SignedIn, binary, refusals

__all__ = ["ask_for_role", "find_role_run", "page_of", "role_runs_of", "router", "send_output", "shown_run"]

router = ApiRouter(tags=["Roles"])


@router.get("/v2/episode-requests/{ereq}/role-runs", response_model=list[api.RoleRun])
async def list_role_runs(call: Anyone, ereq: str) -> Json:
    """Grades, reports and diagnoses of an episode that you may see, oldest first."""
    row = await find_episode(call.db, call.services, call.caller, ereq)
    return Json([shown_run(run, call.base_url) for run in await role_runs_of(call.db, call.caller, row)])


@router.post("/v2/episode-requests/{ereq}/role-runs", response_model=api.RoleRun, responses=refusals(409))
async def create_role_run(call: SignedIn, ereq: str, body: api.RoleRunBody) -> Json:
    """Have a grader, reporter or diagnoser of the Coworld run on an episode that is over and that you take part in.

    What has been done is not done again: you get the run there is. One that has failed begins again.
    """
    row = await find_episode(call.db, call.services, call.caller, ereq)
    return Json(shown_run(await ask_for_role(call.db, call.services, call.caller, row, body), call.base_url))


@router.get("/v2/role-runs/{role_run}", response_model=api.RoleRun)
async def get_role_run(call: Anyone, role_run: str) -> Json:
    """A role's run on an episode, and what it says."""
    run, _ = await find_role_run(call.db, call.services, call.caller, role_run)
    return Json(shown_run(run, call.base_url))


@router.get(
    "/v2/role-runs/{role_run}/output", response_class=binary("application/octet-stream"), responses=refusals(409, 410)
)
async def get_role_output(call: Anyone, role_run: str) -> Response:
    """What the program wrote: JSON of a grader, a zip of a reporter or a diagnoser."""
    run, _ = await find_role_run(call.db, call.services, call.caller, role_run)
    return send_output(call.services, call.request, run)


# --- also for pages


async def role_runs_of(session: AsyncSession, caller: Caller, row: EpisodeRequest) -> Sequence[RoleRun]:
    """The runs on an episode that a caller who may see the episode may see as well, oldest first."""
    runs = await session.scalars(
        sa.select(RoleRun)
        .where(RoleRun.episode_request_id == row.id)
        .order_by(RoleRun.created_at, RoleRun.index, RoleRun.id)
    )
    return [run for run in runs if may_read(caller, row, run.slots)]


async def find_role_run(
    session: AsyncSession, services: Services, caller: Caller, id: str
) -> tuple[RoleRun, EpisodeRequest]:
    """Find a run that the caller may see, and its episode.

    Raises:
        Refusal: 404 if it does not exist, or the caller may not see it.
    """
    run = await session.get(RoleRun, id)
    if run is None:
        raise not_found("role run", id)
    try:
        row = await find_episode(session, services, caller, run.episode_request_id)
    except Refusal as refusal:
        raise not_found("role run", id) from refusal
    if not may_read(caller, row, run.slots):
        raise not_found("role run", id)
    return run, row


async def ask_for_role(
    session: AsyncSession, services: Services, caller: Caller, row: EpisodeRequest, body: api.RoleRunBody
) -> RoleRun:
    """Order the run of a role on an episode, as the caller may.

    Args:
        session: A writing session.
        services: The stores.
        caller: The caller.
        row: The episode, which the caller may see.
        body: The role.

    Raises:
        Refusal: 403, 409, 410, 422 or 429.
    """
    user = caller.require()
    if not await takes_part(session, caller, row):
        raise forbidden(
            "Only those who requested this episode, have a policy in it or are members of its league may have a role "
            "run on it.",
            code="not_yours",
        )
    refuse_unfinished(row)
    if row.status == "cancelled":
        raise conflict("The episode was cancelled, so there is nothing to look at.", code="nothing_left")
    if row.pruned_at is not None:
        raise Refusal(410, f"What the episode {row.id} had left is not kept any longer.", code="not_kept")
    own = own_slots(caller, row)
    slots: frozenset[int] | None = frozenset()
    if body.role == "diagnoser":
        if body.position is None:
            raise invalid("A diagnoser looks at one player: give its slot.", at=("body", "position"))
        if body.position not in {seat.position for seat in row.participants}:
            raise invalid(f"The episode has no slot {body.position}.", at=("body", "position"))
        if own is not None and body.position not in own:
            raise forbidden("Only the owner of a policy may have its player diagnosed.", code="not_yours")
        slots = frozenset({body.position})
    elif body.position is not None:
        raise invalid(f"A {body.role} looks at the whole episode.", at=("body", "position"))
    if body.private:
        if body.role != "reporter":
            raise invalid("Only a reporter can be given private files.", at=("body", "private"))
        if own is not None and not own:
            raise forbidden("You have no policy in this episode, and so no private files.", code="not_yours")
        slots = own
    coworld = await session.get_one(Coworld, row.coworld_id)
    try:
        entries = {entry.id: entry for entry in declared_roles(coworld, body.role)}
    except CoworldError as error:
        raise conflict(explained(error), code="manifest_unreadable") from error
    name = body.runnable_id or next(iter(entries), "")
    if name not in entries or (body.runnable_id is None and len(entries) > 1):
        raise invalid(_choices(coworld, body, list(entries)), at=("body", "runnable_id"))
    await require_episodes(session, user, services.settings.quotas, 1, person=caller.person_id)
    position = -1 if body.position is None else body.position
    person = caller.person_id or user.id
    return await order_role(
        session, row, entries[name], body.role, user_id=user.id, person_id=person, slots=slots, position=position
    )


def _choices(coworld: Coworld, body: api.RoleRunBody, ids: Sequence[str]) -> str:
    if not ids:
        none = f"{coworld.name} {coworld.version} declares no {body.role} that can be run here."
        return f"{none} {to_declare(body.role)}"
    known = f"{coworld.name} {coworld.version} declares {listed(ids)}."
    return f"Name a {body.role}: {known}" if body.runnable_id is None else f"No {body.runnable_id!r}: {known}"


def shown_run(run: RoleRun, base_url: str) -> JsonObject:
    """A run, as in the API."""
    record: dict[str, Any] = run.record or {}
    fault: dict[str, Any] = record.get("fault") or {}
    return {
        "id": run.id,
        "episode_request_id": run.episode_request_id,
        "role": run.role,
        "runnable_id": run.runnable_id,
        "automatic": run.automatic,
        "position": run.position if run.position >= 0 else None,
        "slots": run.slots,
        "status": run.status,
        "answer": run.answer,
        "error_type": run.error_type,
        "error": run.error,
        "log_tail": fault.get("log_tail") or None,
        "output_size": run.output_size if run.output_key is not None else None,
        "page_url": f"{base_url}/episodes/{run.episode_request_id}/roles/{run.id}" if page_of(run) else None,
        "seconds": record.get("seconds"),
        "created_at": run.created_at,
        "started_at": run.started_at,
        "completed_at": run.completed_at,
    }


def page_of(run: RoleRun) -> str | None:
    """The entry of the page of a report or diagnosis that is kept; None if there is none."""
    return (run.answer or {}).get("render") if run.output_key is not None and run.role != "grader" else None


def send_output(services: Services, request: Request, run: RoleRun) -> Response:
    """Send what a program wrote.

    Raises:
        Refusal: 404, 409 or 410 if there is nothing.
    """
    if run.output_key is None:
        if run.status in ("pending", "running"):
            raise Refusal(
                409, f"The {run.role} is {run.status}. Try again later.", code="not_over", headers={"Retry-After": "2"}
            )
        if run.status == "completed":
            raise Refusal(410, f"What the {run.role} wrote is not kept any longer.", code="not_kept")
        raise Refusal(404, f"The {run.role} has failed: {run.error}", code="not_found")
    is_json = run.role == "grader"
    written = Artifact(
        kind=run.role,
        position=run.position,
        key=run.output_key,
        size=run.output_size,
        sha256=run.output_sha256,
        media_type="application/json" if is_json else "application/zip",
        encoding="identity",
    )
    name = f"{run.episode_request_id}-{run.runnable_id}{'.json' if is_json else '.zip'}"
    return send(services.artifacts, request, written, name=name)
