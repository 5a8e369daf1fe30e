"""One's own teams, on the page of the account; and the page that an invitation into a team leads to."""

from __future__ import annotations

from typing import cast

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from coworld_core.errors import CoworldError

from ..errors import Refusal
from ..operations.teams import Entries, find_team, invite_to_team, invited_to, join_team, leave_team, make_team
from ..services import Services
from ..store.audit import acting
from .account import account_page
from .visit import actor_of, open_visit, page, read_form, refused_form, trouble

__all__ = ["change", "invitation", "join"]

_INVITED_DAYS = 14


async def change(request: Request) -> Response:
    """Make a team, invite somebody into one, leave it, or, as its captain, remove a member; a link is shown once."""
    services = cast("Services", request.app.state.services)
    async with open_visit(request) as visit:
        caller = visit.caller
        if (refused := refused_form(request, caller, "/account")) is not None:
            return refused
        if caller.user is None or caller.player is not None:
            return trouble(request, caller, 403, "Refused", "Sign in with your own token to manage teams.")
        form, link, wrong = await read_form(request), None, None
        try:
            with acting(actor_of(request, caller)):
                async with services.database.writing() as session:
                    if form.get("do") == "make":
                        await make_team(session, caller.user, form.get("name", ""), services.settings.quotas)
                    else:
                        team = await find_team(session, caller.user.id, form.get("team", ""))
                        if form.get("do") == "invite":
                            code = await invite_to_team(session, team, caller.user.id, days=_INVITED_DAYS)
                            link = f"{services.settings.url}/teams/join/{code}"
                        elif form.get("do") == "leave":
                            entries = cast("Entries | None", "retire" if form.get("entries") == "retire" else None)
                            who = form.get("member", caller.user.id)
                            await leave_team(session, team, who, by=caller.user.id, entries=entries)
                        else:
                            return trouble(request, caller, 404, "Not found", "There is no such action.")
        except CoworldError as error:
            wrong = error.message
        if link is None and wrong is None:
            return RedirectResponse("/account", status_code=303)
        return await account_page(visit, status=409 if wrong else 200, link=link, wrong=wrong, days=_INVITED_DAYS)


async def invitation(request: Request) -> Response:
    """The page that an invitation's link leads to; only its button uses the link up."""
    async with open_visit(request) as visit:
        team = await invited_to(visit.db, request.path_params["code"])
        if team is None:
            said = "This invitation was already used, or has expired. Ask whoever sent it for another one."
            return trouble(request, visit.caller, 410, "No longer valid", said)
        if not visit.caller.known:
            return RedirectResponse(f"/sign-in?next={request.url.path}", status_code=303)
        return page(request, "invitation.html", visit.caller, name=team.name, token="", team=True)


async def join(request: Request) -> Response:
    """Join the team of an invitation."""
    services = cast("Services", request.app.state.services)
    async with open_visit(request) as visit:
        caller = visit.caller
    if (refused := refused_form(request, caller, request.url.path)) is not None:
        return refused
    if caller.user is None or caller.player is not None:
        return trouble(request, caller, 403, "Refused", "Sign in with your own token to join a team.")
    try:
        with acting(actor_of(request, caller)):
            async with services.database.writing() as session:
                await join_team(session, caller.user, request.path_params["code"], services.settings.quotas)
    except Refusal as refusal:
        return trouble(request, caller, refusal.status, "Not joined", refusal.message)
    return RedirectResponse("/account", status_code=303)
