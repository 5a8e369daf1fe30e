"""Signing in and out: a token is exchanged for a cookie that only allows reading."""

from __future__ import annotations

import datetime as dt
from typing import cast
from urllib.parse import parse_qs

import sqlalchemy as sa
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..api.routing import read_body
from ..errors import Refusal
from ..identity.auth import ANONYMOUS, SESSION_COOKIE
from ..services import Services
from ..store.audit import Actor, acting, audit
from ..store.columns import now
from ..store.models import Token
from .visit import is_same_origin, open_visit, page, trouble

__all__ = ["sign_in", "sign_in_page", "sign_out"]

LIFETIME = dt.timedelta(hours=12)
"""How long a browser stays signed in."""


async def sign_in_page(request: Request) -> Response:
    """The form."""
    async with open_visit(request) as visit:
        return page(
            request, "sign_in.html", visit.caller, next=_place(request.query_params.get("next", "/")), trouble=""
        )


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
    place, token = _place(form.get("next", ["/"])[0]), form.get("token", [""])[0].strip()
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
        said = {"next": place, "trouble": refusal.message}
        return page(request, "sign_in.html", ANONYMOUS, status=refusal.status, headers=refusal.headers, **said)
    answer = RedirectResponse(place, status_code=303)
    answer.set_cookie(
        SESSION_COOKIE,
        session_token.text,
        max_age=int(left.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=services.settings.url.startswith("https:"),
    )
    return answer


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


def _place(text: str) -> str:
    """The page to continue with; other sites are refused."""
    ours = text.startswith("/") and not text.startswith("//") and "\\" not in text and text.isprintable()
    return text if ours and len(text) < 1000 else "/"
