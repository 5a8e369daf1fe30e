"""Requests of browsers: the visitor, and responses with pages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from sqlalchemy.ext.asyncio import AsyncSession
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ..api.routing import read_body
from ..identity.auth import ANONYMOUS, SESSION_COOKIE, Caller
from ..services import Services
from ..store.audit import Actor
from .static import ASSETS, templates

__all__ = [
    "PAGE_ROWS",
    "Visit",
    "actor_of",
    "is_same_origin",
    "open_visit",
    "page",
    "read_form",
    "read_number",
    "refused_form",
    "trouble",
]

PAGE_ROWS = 50
"""The number of rows on a page of a list."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True, kw_only=True)
class Visit:
    """A request of a browser."""

    request: Request
    services: Services
    caller: Caller
    db: AsyncSession
    """A session for reading."""


@asynccontextmanager
async def open_visit(request: Request) -> AsyncGenerator[Visit]:
    """Identify the visitor by the cookie; anonymous without one."""
    services = cast("Services", request.app.state.services)
    async with services.database.reading() as session:
        caller = None
        if SESSION_COOKIE in request.cookies:
            caller = await services.tokens.caller(session, {}, request.cookies, reading=True)
        yield Visit(request=request, services=services, caller=caller or ANONYMOUS, db=session)


def page(
    request: Request,
    template: str,
    caller: Caller,
    *,
    here: str = "",
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **values: Any,
) -> HTMLResponse:
    """Respond with a page, with headers that isolate it from other sites."""
    viewer = None
    if caller.user is not None:
        viewer = caller.player.name if caller.player else caller.user.name
    executor = cast("Services", request.app.state.services).runtime.executor
    text = (
        templates()
        .get_template(template)
        .render(
            assets=ASSETS(),
            here=here,
            viewer=viewer,
            operator=caller.is_team,
            path=request.url.path,
            notice=executor.notice if executor is not None else None,
            **values,
        )
    )
    ours = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-store", "Referrer-Policy": "same-origin"}
    return HTMLResponse(text, status_code=status, headers={**(headers or {}), **ours})


def trouble(
    request: Request, caller: Caller, status: int, title: str, text: str, headers: Mapping[str, str] | None = None
) -> HTMLResponse:
    """Respond with an error page."""
    return page(request, "trouble.html", caller, status=status, headers=headers, title=title, text=text)


def is_same_origin(request: Request) -> bool:
    """Whether a form was sent by a page of this server, not by another site."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


async def read_form(request: Request) -> dict[str, str]:
    """The first value of each field of a form."""
    form = parse_qs((await read_body(request, 16 * 1024)).decode("utf-8", "replace"))
    return {name: given[0] for name, given in form.items()}


def read_number(values: Mapping[str, str], name: str) -> int:
    """A whole number in an address; 0 if there is none, or it is none."""
    text = values.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def refused_form(request: Request, caller: Caller, place: str) -> Response | None:
    """The answer to a form of another site, or of a visitor who has to sign in first."""
    if not is_same_origin(request):
        return trouble(
            request, caller, 403, "Refused", "This form was submitted from another site, so it was rejected."
        )
    return None if caller.known else RedirectResponse(f"/sign-in?next={place}", status_code=303)


def actor_of(request: Request, caller: Caller) -> Actor:
    """The visitor, for the audit log."""
    kind = "player" if caller.player is not None else "user"
    return Actor(kind=kind, user_id=caller.actor_id, origin=request.client.host if request.client else None)
