"""Sign-in of a command line by way of the browser: a page that trades a token for a code, and sends the code back."""

from __future__ import annotations

import html
from typing import cast
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from ..api.calls import read_body
from ..errors import Refusal
from ..identity.auth import new_code
from ..services import Services

__all__ = ["router"]

_LOOPBACK = ("127.0.0.1", "localhost", "::1")

_HEADERS = {
    # the form may only go to us; where the code goes afterwards is checked below
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Sign in the command line</title><style>
:root{{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}}
body{{max-width:30rem;margin:15vh auto 0;padding:0 1rem}}
input,button{{font:inherit;padding:.5rem .7rem;width:100%;box-sizing:border-box;margin:.3rem 0}}
.error{{color:#b3261e}}code{{font-size:1.05em;word-break:break-all}}
</style></head><body><h1>Sign in the command line</h1>{content}</body></html>
"""


async def _page(request: Request) -> Response:
    callback = request.query_params.get("callback", "")
    if callback and not _is_loopback(callback):
        return _shown("<p class=error>This sign-in leads away from your machine, so it ends here.</p>", 400)
    return _form(callback)


async def _sign_in(request: Request) -> Response:
    services = cast("Services", request.app.state.services)
    try:
        form = parse_qs((await read_body(request, 16 * 1024)).decode("utf-8", "replace"))
    except Refusal:
        return _shown("<p class=error>That is too long for a token.</p>", 413)
    callback, token = (form.get(name, [""])[0].strip() for name in ("callback", "token"))
    if callback and not _is_loopback(callback):
        return _shown("<p class=error>This sign-in leads away from your machine, so it ends here.</p>", 400)
    async with services.database.writing() as session:
        try:
            found = await services.tokens.find(session, token)
        except Refusal as refusal:
            return _form(callback, error=refusal.message)
        if found is None or found[0].kind != "user":
            return _form(callback, error="This is not a token of yours, or not any more.")
        code = await new_code(session, found[1].id)
    if not callback:
        return _shown(f"<p>Give this code to the command line:</p><p><code>{html.escape(code)}</code></p>")
    return RedirectResponse(_with_code(callback, code), status_code=303, headers=_HEADERS)


def _form(callback: str, *, error: str = "") -> HTMLResponse:
    said = f"<p class=error>{html.escape(error)}</p>" if error else ""
    content = f"""<p>Show your token once; the command line gets one of its own.</p>{said}
<form method="post" action="/cli-auth"><input type="hidden" name="callback" value="{html.escape(callback)}">
<label>Token<input name="token" type="password" autocomplete="off" required autofocus></label>
<button>Sign in</button></form>"""
    return _shown(content, 403 if error else 200)


def _shown(content: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(_PAGE.format(content=content), status_code=status, headers=_HEADERS)


def _is_loopback(callback: str) -> bool:
    """Whether a code sent there stays on the machine of whoever sees the page."""
    try:
        url = urlsplit(callback)
        return url.scheme == "http" and url.hostname in _LOOPBACK and url.username is None and url.port is not None
    except ValueError:
        return False


def _with_code(callback: str, code: str) -> str:
    url = urlsplit(callback)
    query = "&".join(part for part in (url.query, urlencode({"code": code})) if part)
    return urlunsplit((url.scheme, url.netloc, url.path, query, ""))


router = APIRouter(include_in_schema=False)
router.add_api_route("/cli-auth", _page, methods=["GET", "HEAD"])
router.add_api_route("/cli-auth", _sign_in, methods=["POST"])
