"""The people who help to run a league, on its page: who may, appoints and dismisses them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..api.leagues import find_league
from ..errors import Refusal, not_found
from ..identity.auth import Caller
from ..operations.teams import appoint, may_appoint, officers_of
from ..services import Services
from ..store.audit import acting
from .visit import Visit, actor_of, open_visit, read_form, refused_form, trouble

__all__ = ["change", "officer_values"]

_ROLES = ("organiser", "assistant", "none")


async def officer_values(visit: Visit, league_id: str) -> dict[str, Any]:
    """What a league's page says of those who help to run it: nothing to visitors who have not signed in."""
    caller = _in_office(visit.caller)
    return {
        "officers": await officers_of(visit.db, league_id) if caller.known else [],
        "appoints": may_appoint(caller, league_id),
        "roles": _ROLES[:2] if caller.elevated else _ROLES[1:2],
    }


async def change(request: Request) -> Response:
    """Give somebody a role in a league, or take it away."""
    services = cast("Services", request.app.state.services)
    place = f"/leagues/{request.path_params['league_id']}"
    async with open_visit(request) as visit:
        caller = _in_office(visit.caller)
    if (refused := refused_form(request, caller, place)) is not None:
        return refused
    form = await read_form(request)
    name, role = form.get("user", "").strip(), form.get("role", "")
    try:
        if role not in _ROLES:
            raise not_found("role", role)
        with acting(actor_of(request, caller)):
            async with services.database.writing() as session:
                league = await find_league(session, caller, request.path_params["league_id"])
                await appoint(session, caller, league, name, role)
    except Refusal as refusal:
        return trouble(request, caller, refusal.status, "Not changed", refusal.message)
    return RedirectResponse(f"{place}#officers", status_code=303)


def _in_office(caller: Caller) -> Caller:
    """The visitor with an operator's rights, which pages do not ask for one by one."""
    return replace(caller, elevated=caller.is_team)
