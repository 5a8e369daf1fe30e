"""Sign-in of a command line in the browser: a page that exchanges a token for a code, and sends the code back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import cast
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from coworld_core.loopback import is_loopback

from ..api.routing import read_body
from ..errors import Refusal
from ..identity.auth import ANONYMOUS, new_code
from ..services import Services
from ..store.models import User
from .visit import is_same_origin, open_visit, page, trouble

__all__ = ["router"]


_AWAY = "This sign-in would send your token to another machine, so it was rejected."
_LOOSE = {
    # Forms of other pages may only be sent to this server, including redirects. Here the redirect leads to the command
    # line; its target is checked below.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
}


async def _ask(request: Request) -> Response:
    callback = request.query_params.get("callback", "")
    if callback and not _is_loopback(callback):
        return trouble(request, ANONYMOUS, 400, "Refused", _AWAY)
    return await _shown(request, callback=callback)


async def _sign_in(request: Request) -> Response:
    services = cast("Services", request.app.state.services)
    try:
        form = parse_qs((await read_body(request, 16 * 1024)).decode("utf-8", "replace"))
    except Refusal:
        return trouble(request, ANONYMOUS, 413, "Too long", "This is too long to be a token.")
    callback, token = (form.get(name, [""])[0].strip() for name in ("callback", "token"))
    if callback and not _is_loopback(callback):
        return trouble(request, ANONYMOUS, 400, "Refused", _AWAY)
    try:
        if not token and (user := await _signed_in(request)) is not None and is_same_origin(request):
            async with services.database.writing() as session:
                code = await new_code(session, user.id)
        else:
            async with services.sign_ins.by_token(services.database, services.tokens, request, token) as signed_in:
                code = await new_code(signed_in[0], signed_in[2].id)
    except Refusal as refusal:
        return await _shown(request, refusal.status, refusal.headers, callback=callback, wrong=refusal.message)
    if not callback:
        return await _shown(request, code=code)
    headers = {**_LOOSE, "Cache-Control": "no-store"}
    return RedirectResponse(_with_code(callback, code), status_code=303, headers=headers)


async def _signed_in(request: Request) -> User | None:
    """Whose session the browser has, where a provider signs people in: they may have no token to enter."""
    if cast("Services", request.app.state.services).oidc is None:
        return None
    with suppress(Refusal):
        async with open_visit(request) as visit:
            return visit.caller.user if visit.caller.player is None else None
    return None


async def _shown(
    request: Request, status: int = 200, headers: Mapping[str, str] | None = None, **values: str
) -> Response:
    provider, user = cast("Services", request.app.state.services).settings.oidc, await _signed_in(request)
    shown = {"callback": "", "code": "", "wrong": "", "provider": provider.name if provider else "", **values}
    again = urlencode({"callback": shown["callback"]} if shown["callback"] else {})
    shown |= {"here_again": f"/cli-auth?{again}", "signed_in": user.name if user is not None else ""}
    answer = page(request, "cli_sign_in.html", ANONYMOUS, status=status, headers=headers, **shown)
    answer.headers.update(_LOOSE)
    return answer


def _is_loopback(callback: str) -> bool:
    """Whether a code sent there stays on the visitor's own machine."""
    try:
        url = urlsplit(callback)
        return (
            url.scheme == "http" and is_loopback(url.hostname or "") and url.username is None and url.port is not None
        )
    except ValueError:
        return False


def _with_code(callback: str, code: str) -> str:
    url = urlsplit(callback)
    query = "&".join(part for part in (url.query, urlencode({"code": code})) if part)
    return urlunsplit((url.scheme, url.netloc, url.path, query, ""))


router = APIRouter(include_in_schema=False)
router.add_api_route("/cli-auth", _ask, methods=["GET", "HEAD"])
router.add_api_route("/cli-auth", _sign_in, methods=["POST"])
