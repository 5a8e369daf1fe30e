"""What roles say of an episode: grades, reports and diagnoses on its page, and the buttons that ask for them.

A page that a program wrote is shown in a sandboxed frame and served with `RENDER_HEADERS`, so that no script of it runs
and no request of it leaves. The frame has no origin and sends no cookie: its address has a ticket, which the visitor's
page contains only if the visitor may see the report.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from coworld_core.api import HostedRole, RoleRunBody
from coworld_core.errors import CoworldError
from coworld_core.roles import RENDER_HEADERS, RENDER_SANDBOX, render_markdown
from coworld_core.text import strip_controls

from ..api.role_runs import ask_for_role, find_role_run, page_of, role_runs_of, send_output
from ..episodes.access import find_episode, own_slots, takes_part
from ..errors import Refusal
from ..services import Services
from ..store.artifacts import MemberTooLarge, NoMember
from ..store.audit import acting
from ..store.models import Coworld, EpisodeRequest, RoleRun
from ..work.role_orders import declared_roles, diagnosed_player
from .visit import Visit, actor_of, open_visit, page, read_form, refused_form, trouble

__all__ = ["ask", "output", "report_file", "role_run", "role_values"]

_LARGEST = 32 << 20
"""Most bytes of a file of a report that is shown."""
_WORDS = 300
_MARKDOWN = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 1rem 1.25rem; overflow-wrap: anywhere; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
th, td {{ border-bottom: 1px solid #8886; padding: .3rem .8rem .3rem 0; text-align: left; }}
pre {{ overflow-x: auto; }} img {{ max-width: 100%; }}
</style></head><body>{body}</body></html>
"""


@dataclass(frozen=True, kw_only=True)
class RoleRow:
    """A run of a role, on a page."""

    id: str
    role: str
    name: str
    """Its id in the manifest."""
    about: str
    """What it looked at besides the episode: a player; empty if nothing."""
    private: bool
    """Whether only the owners of some policies see it."""
    status: str
    score: float | None
    words: str
    """What a grade says besides its score."""
    error_type: str | None
    error: str | None
    log: str | None
    frame: str | None
    """Address of its page for a frame."""
    href: str
    size: int | None


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A role that the visitor can ask for."""

    role: HostedRole
    name: str
    position: int | None
    private: bool
    label: str


async def role_values(visit: Visit, row: EpisodeRequest) -> dict[str, Any]:
    """The values that an episode's page shows of roles."""
    runs = await role_runs_of(visit.db, visit.caller, row)
    return {
        "roles": [_shown(visit.services, row, run) for run in runs],
        "waiting": any(run.status in ("pending", "running") for run in runs),
        "sandbox": RENDER_SANDBOX,
        "choices": await _choices(visit, row, runs),
    }


async def ask(request: Request) -> Response:
    """Ask for a role by a form; then show the episode again."""
    episode_id = request.path_params["episode_id"]
    place = f"/episodes/{episode_id}"
    async with open_visit(request) as visit:
        caller, services = visit.caller, visit.services
    if (refused := refused_form(request, caller, place)) is not None:
        return refused
    values = await read_form(request)
    try:
        body = RoleRunBody.model_validate({key: values[key] for key in RoleRunBody.model_fields if values.get(key)})
        with acting(actor_of(request, caller)):
            async with services.database.writing() as db:
                row = await find_episode(db, services, caller, episode_id)
                await ask_for_role(db, services, caller, row, body)
    except ValidationError:
        return trouble(request, caller, 404, "Not found", "There is no such role.")
    except Refusal as refusal:
        detail = refusal.detail if isinstance(refusal.detail, str) else str(refusal.detail[0].get("msg"))
        return trouble(request, caller, refusal.status, "Nothing was started", detail)
    part = "grades" if body.role == "grader" else "reports"
    return RedirectResponse(f"{place}#{part}", status_code=303)


async def role_run(request: Request) -> Response:
    """The page of a report or diagnosis, in a frame of its own."""
    async with open_visit(request) as visit:
        found = await _found(visit)
        if found is None:
            return _nothing(visit)
        run, row = found
        return page(
            request,
            "role.html",
            visit.caller,
            here="episodes",
            sandbox=RENDER_SANDBOX,
            run=_shown(visit.services, row, run),
            episode=row.id,
        )


async def output(request: Request) -> Response:
    """What a program wrote, for a browser."""
    async with open_visit(request) as visit:
        found = await _found(visit)
        if found is None:
            return _nothing(visit)
    try:
        answer = send_output(visit.services, request, found[0])
    except Refusal as refusal:
        return trouble(request, visit.caller, refusal.status, "Not available", refusal.message)
    answer.headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return answer


async def report_file(request: Request) -> Response:
    """A file of a report or diagnosis, for its frame: the ticket in the path shows that the visitor may see it."""
    run_id, entry = request.path_params["run_id"], request.path_params["entry"]
    async with open_visit(request) as visit:
        services = visit.services
        if not services.runtime.links.admits(_what(run_id), request.path_params["ticket"]):
            return _plain("This address has expired. Load the page of the episode again.", 403)
        run = await visit.db.get(RoleRun, run_id)
        if run is None or run.output_key is None or page_of(run) is None:
            return _plain("There is no such report, or it is not kept any longer.", 404)
        key = run.output_key
    try:
        content = await services.artifacts.member(key, entry, limit=_LARGEST)
        if not entry.lower().endswith(".md"):
            return _framed(content, mimetypes.guess_type(entry)[0] or "application/octet-stream")
        names = await services.artifacts.members(key)
    except (FileNotFoundError, NoMember):
        return _plain("The report has no such file.", 404)
    except MemberTooLarge:
        return _plain("This file is too large to be shown. Download the report instead.", 413)
    body = render_markdown(content.decode("utf-8", "replace"), entry=entry, names=names)
    return _framed(_MARKDOWN.format(title=escape(entry), body=body).encode(), "text/html")


async def _found(visit: Visit) -> tuple[RoleRun, EpisodeRequest] | None:
    params = visit.request.path_params
    try:
        run, row = await find_role_run(visit.db, visit.services, visit.caller, params["run_id"])
    except Refusal:
        return None
    return (run, row) if row.id == params["episode_id"] else None


def _shown(services: Services, row: EpisodeRequest, run: RoleRun) -> RoleRow:
    entry = page_of(run)
    frame = None
    if entry is not None:
        ticket = services.runtime.links.ticket(_what(run.id))
        frame = f"/reports/{ticket}/{run.id}/{quote(entry)}"
    record: dict[str, Any] = run.record or {}
    fault: dict[str, Any] = record.get("fault") or {}
    return RoleRow(
        id=run.id,
        role=run.role,
        name=run.runnable_id,
        about=diagnosed_player(row, run.position).name if run.position >= 0 else "",
        private=bool(run.slots),
        status=run.status,
        score=run.score,
        words=_words(run.answer or {}) if run.role == "grader" else "",
        error_type=run.error_type,
        error=run.error,
        log=strip_controls(str(fault.get("log_tail") or "")) or None,
        frame=frame,
        href=f"/episodes/{row.id}/roles/{run.id}",
        size=run.output_size if run.output_key is not None else None,
    )


def _words(answer: dict[str, Any]) -> str:
    """What a grade says besides its score, in one line."""
    said = (
        f"{key.replace('_', ' ')}: {value}"
        for key, value in answer.items()
        if key not in ("score", "grader_id") and isinstance(value, str | int | float)
    )
    return strip_controls("; ".join(said))[:_WORDS]


async def _choices(visit: Visit, row: EpisodeRequest, runs: Sequence[RoleRun]) -> list[Choice]:
    """What the visitor can ask for: nothing that is done, or is being done."""
    caller = visit.caller
    over = row.status in ("completed", "failed") and row.pruned_at is None
    if not (over and caller.known and await takes_part(visit.db, caller, row)):
        return []
    coworld = await visit.db.get_one(Coworld, row.coworld_id)
    own = own_slots(caller, row)
    done = {(run.role, run.runnable_id, run.position, bool(run.slots)) for run in runs if run.status != "failed"}
    found: list[Choice] = []
    try:
        for entry in declared_roles(coworld, "grader"):
            found.append(Choice(role="grader", name=entry.id, position=None, private=False, label="Grade"))
        for entry in declared_roles(coworld, "reporter"):
            found.append(Choice(role="reporter", name=entry.id, position=None, private=False, label="Report"))
            if own:
                label = "Report with your players' logs"
                found.append(Choice(role="reporter", name=entry.id, position=None, private=True, label=label))
        for entry in declared_roles(coworld, "diagnoser"):
            for slot in sorted(own or ()):
                label = f"Diagnose {diagnosed_player(row, slot).name}"
                found.append(Choice(role="diagnoser", name=entry.id, position=slot, private=True, label=label))
    except CoworldError:
        return []
    return [
        one
        for one in found
        if (one.role, one.name, -1 if one.position is None else one.position, one.private) not in done
    ]


def _what(run_id: str) -> str:
    return f"report {run_id}"


def _framed(content: bytes, kind: str) -> Response:
    text = f"{kind}; charset=utf-8" if kind.startswith("text/") or kind == "image/svg+xml" else kind
    headers = {**RENDER_HEADERS, "Content-Type": text, "Cache-Control": "private, max-age=3600"}
    return Response(content, headers=headers)


def _plain(text: str, status: int) -> Response:
    return Response(text, status_code=status, headers={**RENDER_HEADERS, "Content-Type": "text/plain; charset=utf-8"})


def _nothing(visit: Visit) -> Response:
    return trouble(
        visit.request, visit.caller, 404, "Not found", "There is no such report, or it is private. Try signing in."
    )
