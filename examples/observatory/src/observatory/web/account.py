"""Signing in and out, where a token is exchanged for a cookie that only allows reading; and one's own account."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import parse_qs

import sqlalchemy as sa
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..api.routing import read_body
from ..errors import Refusal, conflict
from ..identity.accounts import own_tokens, revoke_token
from ..identity.auth import ANONYMOUS, SESSION_COOKIE, Caller, require_enabled, take_code
from ..identity.invitations import invited_by
from ..operations.deletion import delete_account, deletion_of
from ..operations.teams import members_of, teams_of
from ..services import Services
from ..store.audit import Actor, acting, audit
from ..store.columns import now
from ..store.models import Token, User
from .visit import Visit, actor_of, is_same_origin, open_visit, page, read_form, refused_form, trouble

__all__ = [
    "accept",
    "account",
    "account_page",
    "continue_to",
    "delete",
    "deletion",
    "invitation",
    "revoke",
    "set_session",
    "sign_in",
    "sign_in_form",
    "sign_in_page",
    "sign_out",
]

LIFETIME = dt.timedelta(hours=12)
"""How long a browser stays signed in."""


async def sign_in_page(request: Request) -> Response:
    """The form."""
    async with open_visit(request) as visit:
        return sign_in_form(request, visit.caller, continue_to(request.query_params.get("next", "/")))


def sign_in_form(
    request: Request,
    caller: Caller,
    place: str,
    *,
    trouble: str = "",
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The page with the form, and what went wrong if it was tried before."""
    provider = cast("Services", request.app.state.services).settings.oidc
    said = {"next": place, "trouble": trouble, "provider": provider.name if provider else ""}
    return page(request, "sign_in.html", caller, status=status, headers=headers, **said)


async def sign_in(request: Request) -> Response:
    """Exchange a token for a cookie."""
    services = cast("Services", request.app.state.services)
    if not is_same_origin(request):
        return trouble(
            request, ANONYMOUS, 403, "Refused", "This form was submitted from another site, so it was rejected."
        )
    try:
        form = parse_qs((await read_body(request, 16 * 1024)).decode("utf-8", "replace"))
    except Refusal:
        return trouble(request, ANONYMOUS, 413, "Too long", "This is too long to be a token.")
    place, token = continue_to(form.get("next", ["/"])[0]), form.get("token", [""])[0].strip()
    origin = request.client.host if request.client else None
    kinds = ("user", "player")
    try:
        async with services.sign_ins.by_token(services.database, services.tokens, request, token, kinds) as signed_in:
            session, shown, user, player = signed_in
            left = LIFETIME if shown.expires_at is None else min(LIFETIME, shown.expires_at - now())
            with acting(Actor(kind="player" if player else "user", user_id=user.id, origin=origin)):
                session_token = await services.tokens.mint(
                    session, "web", user.id, player_id=player.id if player else None, lifetime=left
                )
    except Refusal as refusal:
        return sign_in_form(
            request, ANONYMOUS, place, trouble=refusal.message, status=refusal.status, headers=refusal.headers
        )
    answer = RedirectResponse(place, status_code=303)
    set_session(answer, services, session_token.text, left)
    return answer


async def invitation(request: Request) -> Response:
    """The page that an invitation's link leads to; only its button uses the link up."""
    async with open_visit(request) as visit:
        user = await invited_by(visit.db, request.path_params["code"])
        if user is None:
            return _used_up(request)
        return page(request, "invitation.html", ANONYMOUS, name=user.name, token="", team=False)


async def accept(request: Request) -> Response:
    """Accept an invitation: show a new token once, and sign the browser in."""
    services = cast("Services", request.app.state.services)
    if not is_same_origin(request):
        return trouble(
            request, ANONYMOUS, 403, "Refused", "This form was submitted from another site, so it was rejected."
        )
    async with services.database.writing() as session:
        try:
            user = await session.get_one(User, await take_code(session, request.path_params["code"]))
        except Refusal:
            return _used_up(request)
        require_enabled(user)
        caller = Caller("user", user=user)
        with acting(actor_of(request, caller)):
            made = await services.tokens.mint(session, "user", user.id, label="invitation")
            entered = await services.tokens.mint(session, "web", user.id, lifetime=LIFETIME)
    answer = page(
        request, "invitation.html", caller, name=user.name, token=made.text, server=services.settings.url, team=False
    )
    set_session(answer, services, entered.text, LIFETIME)
    return answer


def _used_up(request: Request) -> Response:
    said = "This invitation was already used, or has expired. Ask whoever sent it for another one."
    return trouble(request, ANONYMOUS, 410, "No longer valid", said)


def set_session(answer: Response, services: Services, token: str, lifetime: dt.timedelta) -> None:
    """Sign the browser in by a `web` token."""
    answer.set_cookie(
        SESSION_COOKIE,
        token,
        max_age=int(lifetime.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=services.settings.url.startswith("https:"),
    )


async def sign_out(request: Request) -> Response:
    """Revoke the cookie."""
    services = cast("Services", request.app.state.services)
    async with open_visit(request) as visit:
        token_id = visit.caller.token_id
    if not is_same_origin(request):
        return trouble(
            request, ANONYMOUS, 403, "Refused", "This form was submitted from another site, so it was rejected."
        )
    if token_id is not None:
        origin = request.client.host if request.client else ""
        with acting(Actor(kind=visit.caller.kind, user_id=visit.caller.user_id, origin=origin)):
            async with services.database.writing() as session:
                await session.execute(sa.update(Token).where(Token.id == token_id).values(revoked_at=now()))
                audit(session, "session.closed", user_id=visit.caller.user_id, subject=token_id)
    answer = RedirectResponse("/", status_code=303)
    answer.delete_cookie(SESSION_COOKIE)
    return answer


async def account(request: Request) -> Response:
    """One's own account, with its tokens."""
    async with open_visit(request) as visit:
        caller = visit.caller
        if caller.user is None:
            return RedirectResponse("/sign-in?next=/account", status_code=303)
        return await account_page(visit)


async def account_page(visit: Visit, *, status: int = 200, **values: Any) -> Response:
    """The page of the visitor's own account; `values` say what a form of it has done."""
    caller = visit.caller
    assert caller.user is not None, "visitors without an account sign in"
    # A player's session does not manage what its owner has
    own = None if caller.player is not None else caller.user.id
    shown: dict[str, Any] = {
        "link": None,
        "wrong": None,
        "user": caller.user,
        "tokens": [] if own is None else await own_tokens(visit.db, own),
        "current": caller.token_id,
        "teams": []
        if own is None
        else [(one, await members_of(visit.db, one.id)) for one in await teams_of(visit.db, own)],
    }
    return page(visit.request, "account.html", caller, here="account", status=status, **(shown | values))


async def deletion(request: Request) -> Response:
    """What deleting one's own account would do, with a form for it."""
    async with open_visit(request) as visit:
        if visit.caller.user is None or visit.caller.player is not None:
            return RedirectResponse("/sign-in?next=/account/delete", status_code=303)
        planned = await deletion_of(visit.db, visit.caller.user)
        return page(request, "deletion.html", visit.caller, here="account", done=planned, deleted=False, wrong=None)


async def delete(request: Request) -> Response:
    """Delete one's own account, if its name was typed, and say what has become of everything."""
    services = cast("Services", request.app.state.services)
    async with open_visit(request) as visit:
        caller = visit.caller
        if (refused := refused_form(request, caller, "/account/delete")) is not None:
            return refused
        if caller.user is None or caller.player is not None:
            return trouble(request, caller, 403, "Refused", "Sign in with your own token to delete your account.")
        planned = await deletion_of(visit.db, caller.user)
    try:
        if (await read_form(request)).get("name") != caller.user.name:
            raise conflict("This is not the name of the account.", code="not_confirmed")
        with acting(actor_of(request, caller)):
            done = await delete_account(services, caller.user.id)
    except Refusal as refusal:
        said: dict[str, Any] = {"done": planned, "deleted": False, "wrong": refusal.message}
        return page(request, "deletion.html", caller, here="account", status=refusal.status, **said)
    answer = page(request, "deletion.html", ANONYMOUS, done=done, deleted=True, wrong=None)
    answer.delete_cookie(SESSION_COOKIE)
    return answer


async def revoke(request: Request) -> Response:
    """Revoke one of one's own tokens."""
    services = cast("Services", request.app.state.services)
    async with open_visit(request) as visit:
        caller = visit.caller
    if (refused := refused_form(request, caller, "/account")) is not None:
        return refused
    if caller.user is None or caller.player is not None:
        return trouble(request, caller, 403, "Refused", "Sign in with your own token to manage tokens.")
    token_id = (await read_form(request)).get("token_id", "")
    with acting(actor_of(request, caller)):
        async with services.database.writing() as session:
            found = await revoke_token(session, caller.user.id, token_id)
    if found is None:
        return trouble(request, caller, 404, "Not found", "This is none of your tokens.")
    return RedirectResponse("/account", status_code=303)


def continue_to(text: str) -> str:
    """The page to continue with; other sites are refused."""
    ours = text.startswith("/") and not text.startswith("//") and "\\" not in text and text.isprintable()
    return text if ours and len(text) < 1000 else "/"
