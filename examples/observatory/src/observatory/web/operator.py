"""The operator's pages: what is going on, and lists to search, with forms that create, close and reopen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from coworld_core.errors import CoworldError
from coworld_core.text import strip_controls
from coworld_runner.evaluation.tournament import pairing_names

from ..api.leagues import LeagueError, create_league
from ..api.pagination import Page, PageQuery, paginate
from ..errors import Refusal, conflict, explained
from ..identity.invitations import Person, invite_all
from ..operations import overview
from ..operations.moderation import disable_policy, disable_user, enable_policy, enable_user, find_policy
from ..store.audit import acting, audit_entries, audit_lines
from ..store.models import AuditEntry, EpisodeRequest, Game, League, PolicyVersion, User
from ..work.league_settings import LeagueSettings
from ..work.seasons import change_league
from .visit import PAGE_ROWS, Visit, actor_of, open_visit, page, read_form, read_number, refused_form, trouble

__all__ = ["act", "operator", "operator_list"]

_INVITED_DAYS = 14
_STATES = {"episodes": ("pending", "running", "failed"), "policies": ("all", "disabled")}
"""The states of which a list shows one, the first unless another is asked for."""
_LIST_OF = {"user": "accounts", "league": "leagues", "policy": "policies"}
"""The list with the forms for a kind."""
_TERMS = ("pairing", "rounds", "entries_per_user", "check")


async def operator(request: Request) -> Response:
    """What is going on, and what does not go on, for team members."""
    async with open_visit(request) as visit:
        if not visit.caller.is_team:
            return _nothing(visit)
        leagues = await overview.leagues(visit.db)
        return page(
            request,
            "operator.html",
            visit.caller,
            what="",
            accounts=await visit.db.scalar(sa.select(sa.func.count(User.id))),
            leagues=len(leagues),
            stuck=[row for row in leagues if row["trouble"] or row["unattended"] or row["stopped"]],
            queue=await overview.queue(visit.db),
            most=PAGE_ROWS,
            workers=await overview.workers(visit.db),
            disk=await overview.disk(visit.db, visit.services.settings.data),
        )


async def operator_list(request: Request) -> Response:
    """A list, of which the address has the page and what is searched for, for team members."""
    async with open_visit(request) as visit:
        if not visit.caller.is_team:
            return _nothing(visit)
        return await _list_page(visit, request.path_params["what"])


async def act(request: Request) -> Response:
    """Apply a form's action to an account (`user`), a `policy` or a `league`; then show the list again."""
    async with open_visit(request) as visit:
        caller, services = visit.caller, visit.services
        if not caller.is_team:
            return _nothing(visit)
    if (refused := refused_form(request, caller, "/operator")) is not None:
        return refused
    form = await read_form(request)
    kind, action = request.path_params["kind"], request.path_params["action"]
    name, reason = form.get("name", "").strip(), form.get("reason", "").strip()[:500] or None
    said: dict[str, Any] = {}
    try:
        with acting(actor_of(request, caller)):
            async with services.database.writing() as session:
                match kind, action:
                    case "user", "disable":
                        if caller.user is not None and name == caller.user.id:
                            raise conflict("You cannot disable your own account.")
                        await disable_user(session, name, reason=reason)
                    case "user", "enable":
                        await enable_user(session, name)
                    case "user", "invite":
                        person = Person(name=name, email=form.get("email", "").strip()[:250] or None)
                        [made] = await invite_all(session, [person], days=_INVITED_DAYS)
                        if made.code is None:
                            # A link to it would let an operator act as somebody else
                            raise conflict(f"{name} has an account already.", code="name_taken")
                        said = {"invited": made.user.name, "link": f"{services.settings.url}/invitations/{made.code}"}
                    case "policy", "disable":
                        await disable_policy(session, await find_policy(session, name), reason=reason)
                    case "policy", "enable":
                        enable_policy(session, await find_policy(session, name))
                    case "league", ("pause" | "resume" | "season"):
                        await change_league(session, name, action)
                    case "league", "create":
                        await create_league(
                            session,
                            name,
                            coworld=form.get("coworld", ""),
                            variant_id=form.get("variant", "").strip() or None,
                            public="private" not in form,
                            **_terms_of(form),
                        )
                    case _:
                        return trouble(request, caller, 404, "Not found", "There is no such action.")
    except CoworldError as error:
        status = error.status if isinstance(error, Refusal) else 422 if action in ("invite", "create") else 404
        if action not in ("invite", "create"):
            return trouble(request, caller, status, "Refused" if status == 409 else "Not found", error.message)
        said = {"wrong": explained(error), "form": form, "status": status}
    if said:
        async with open_visit(request) as visit:
            return await _list_page(visit, _LIST_OF[kind], **said)
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"/operator/{_LIST_OF[kind]}{query}", status_code=303)


def _terms_of(form: Mapping[str, str]) -> dict[str, Any]:
    """The rhythm and the terms of a new league, as `create_league` takes them.

    Raises:
        LeagueError: A setting has no such value.
    """
    given: dict[str, Any] = {name: text for name in _TERMS if (text := form.get(name, "").strip())}
    # A browser says the time without its zone
    given |= {name: f"{form[name]}Z" for name in ("opens_at", "closes_at") if form.get(name, "").strip()}
    minutes = form.get("minutes", "").strip()
    try:
        if minutes:
            given["every_seconds"] = float(minutes) * 60
        terms = LeagueSettings.model_validate(given).model_dump(mode="json", include=set(given))
    except ValidationError as error:
        wrong = "; ".join(f"{one['loc'][0]}: {one['msg']}" for one in error.errors())
        raise LeagueError(wrong) from error
    except ValueError as error:
        raise LeagueError(f"{minutes!r} is no number of minutes.") from error
    return {"every": terms.pop("every_seconds", None), "terms": terms}


async def _list_page(visit: Visit, what: str, *, status: int = 200, **said: Any) -> Response:
    """The page of a list; `said` is what a form of it has done."""
    session, asked = visit.db, visit.request.query_params
    words = strip_controls(asked.get("q", ""))[:100].strip()
    states = _STATES.get(what, ())
    state = asked["state"] if asked.get("state") in states else "".join(states[:1])
    part = PageQuery(limit=PAGE_ROWS, offset=min(read_number(asked, "offset"), 10**9))
    shown: dict[str, Any] = {"wrong": None, "link": None, "form": {}, "own_id": visit.caller.user_id}
    found: Page[Any]
    match what:
        case "accounts":
            statement = overview.search_accounts(words)
            found = await paginate(session, statement, part, moment=User.created_at, key=User.id)
            rows = await overview.accounts(session, found.rows)
            shown |= {"days": _INVITED_DAYS, "defaults": asdict(visit.services.settings.quotas)}
        case "leagues":
            statement = overview.search_leagues(words)
            found = await paginate(session, statement, part, moment=League.created_at, key=League.id)
            rows = await overview.leagues(session, found.rows)
            shown["games"] = (await session.scalars(sa.select(Game.name).order_by(Game.name))).all()
            shown["pairings"] = pairing_names()
        case "policies":
            statement = overview.search_policies(words, disabled=state == "disabled")
            found = await paginate(session, statement, part, moment=PolicyVersion.created_at, key=PolicyVersion.id)
            rows = await overview.policies(session, among=found.rows)
        case "episodes":
            statement = overview.search_episodes(words, state)
            found = await paginate(session, statement, part, moment=EpisodeRequest.created_at, key=EpisodeRequest.id)
            rows = await overview.episodes(session, found.rows)
        case "storage":
            disk = await overview.disk(session, visit.services.settings.data)
            owners = overview.storage_of_owners(disk["items"], words)
            rows = owners[part.offset : part.offset + PAGE_ROWS]
            found = Page(rows=rows, total=len(owners), limit=PAGE_ROWS, offset=part.offset, next_cursor=None)
        case "audit":
            statement = audit_entries(words)
            found = await paginate(session, statement, part, moment=AuditEntry.created_at, key=AuditEntry.id)
            rows = (await audit_lines(session, among=found.rows))[::-1]
        case _:
            return _nothing(visit)
    shown |= {"what": what, "rows": rows, "found": found, "words": words, "states": states, "state": state}
    query = visit.request.url.query
    return page(visit.request, f"operator_{what}.html", visit.caller, status=status, query=query, **(shown | said))


def _nothing(visit: Visit) -> Response:
    return trouble(
        visit.request, visit.caller, 404, "Not found", "There is no such page, or you may not see it. Try signing in."
    )
