"""The operator's page: accounts, queue, workers, disk and the audit log, with buttons for closing and reopening."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from coworld_core.errors import CoworldError

from ..operations import overview
from ..operations.moderation import disable_policy, disable_user, enable_policy, enable_user, find_policy
from ..store.audit import acting, audit_lines
from ..work.seasons import change_league
from .visit import Visit, actor_of, open_visit, page, read_form, refused_form, trouble

__all__ = ["act", "operator"]

_LINES = 20


async def operator(request: Request) -> Response:
    """The operator's page, for team members."""
    async with open_visit(request) as visit:
        if not visit.caller.is_team:
            return _nothing(visit)
        return page(
            request,
            "operator.html",
            visit.caller,
            own_id=visit.caller.user_id,
            accounts=await overview.accounts(visit.db, visit.services.settings.quotas),
            leagues=await overview.leagues(visit.db),
            queue=await overview.queue(visit.db),
            workers=await overview.workers(visit.db),
            disk=await overview.disk(visit.db, visit.services.settings.data),
            policies=await overview.policies(visit.db, disabled=True),
            lines=(await audit_lines(visit.db, limit=_LINES))[::-1],
        )


async def act(request: Request) -> Response:
    """Apply a form's action to an account (`user`), a `policy` or a `league`; then show the page again."""
    async with open_visit(request) as visit:
        caller, services = visit.caller, visit.services
        if not caller.is_team:
            return _nothing(visit)
    if (refused := refused_form(request, caller, "/operator")) is not None:
        return refused
    form = await read_form(request)
    name, reason = form.get("name", "").strip(), form.get("reason", "").strip()[:500] or None
    try:
        with acting(actor_of(request, caller)):
            async with services.database.writing() as session:
                match request.path_params["kind"], request.path_params["action"]:
                    case "user", "disable":
                        if caller.user is not None and name == caller.user.id:
                            return trouble(request, caller, 409, "Refused", "You cannot disable your own account.")
                        await disable_user(session, name, reason=reason)
                    case "user", "enable":
                        await enable_user(session, name)
                    case "policy", "disable":
                        await disable_policy(session, await find_policy(session, name), reason=reason)
                    case "policy", "enable":
                        enable_policy(session, await find_policy(session, name))
                    case "league", ("pause" | "resume" | "season") as action:
                        await change_league(session, name, action)
                    case _:
                        return trouble(request, caller, 404, "Not found", "There is no such action.")
    except CoworldError as error:
        return trouble(request, caller, 404, "Not found", error.message)
    return RedirectResponse("/operator", status_code=303)


def _nothing(visit: Visit) -> Response:
    return trouble(
        visit.request, visit.caller, 404, "Not found", "There is no such page, or you may not see it. Try signing in."
    )
