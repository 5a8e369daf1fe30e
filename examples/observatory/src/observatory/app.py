"""The web application: all routes in one table, and what every request gets."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module, metadata
from types import ModuleType
from typing import Any, Protocol, cast

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import JSONResponse
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match
from starlette.staticfiles import StaticFiles

from coworld_core.api import Problem

from .api.calls import PREFIX
from .errors import Refusal
from .services import Services
from .store.columns import JsonObject
from .web.visit import open_visit, trouble

__all__ = ["create_app", "document", "lifespans"]

PARTS = (
    "api.identity",
    "api.catalogue",
    "api.images",
    "api.policies",
    "api.coworld_secrets",
    "api.leagues",
    "api.participation",
    "api.memberships",
    "api.standings",
    "api.rounds",
    "api.happenings",
    "api.episodes",
    "api.experience",
    "api.artifacts",
    "api.annotations",
    "api.feed",
    "api.replays",
    "web.games",
    "api.hosted",
    "api.not_offered",
    "registry.protocol",
    "web.cli_sign_in",
    "work.housekeeping",
    "operating.retention",
    "work.rounds",
    "work.commissioned",
    "web",
)
"""Modules of this package that take part in the application.

``router``: its routes; ``lifespan(services)``: an async context manager that is open while the server runs. A
module has one of these at least.
"""

_DOCS_FILES = "/docs-files"
"""Where the page for people has its program and style from."""
_LOG = logging.getLogger("observatory.access")
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{1,100}", re.ASCII)

_Scope = MutableMapping[str, Any]
_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]


class _Application(Protocol):
    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None: ...


def _parts() -> list[ModuleType]:
    return [import_module(f".{name}", __package__) for name in PARTS]


@asynccontextmanager
async def lifespans(services: Services) -> AsyncGenerator[None]:
    """What the parts keep running while the server does."""
    async with AsyncExitStack() as stack:
        for part in _parts():
            if hasattr(part, "lifespan"):
                await stack.enter_async_context(part.lifespan(services))
        yield


def create_app(services: Services) -> _Application:
    """The application over services that are open (and over ``lifespans``)."""
    app = _application(services.settings.url)
    app.state.services = services
    return _Envelope(app)


def document(url: str) -> JsonObject:
    """The OpenAPI document of a server at an address."""
    return _application(url).openapi()


class _Api(FastAPI):
    def openapi(self) -> JsonObject:
        """The document, with what every refusal looks like."""
        described = super().openapi()
        described["components"]["schemas"].setdefault("Problem", Problem.model_json_schema())
        return described


def _application(url: str) -> FastAPI:
    routers = [cast("APIRouter", part.router) for part in _parts() if hasattr(part, "router")]
    app = _Api(
        title="Observatory",
        version=metadata.version("observatory"),
        description="A platform for Coworlds: uploads, leagues, experience requests, episodes, replays.",
        servers=[{"url": url}],
        openapi_tags=[{"name": tag} for tag in dict.fromkeys(tag for router in routers for tag in router.tags)],
        routes=sorted((route for router in routers for route in router.routes), key=_specificity),
        # what is sent and what is given are different models here
        separate_input_output_schemas=False,
        openapi_url=None,
        exception_handlers={
            Refusal: _refused,
            RequestValidationError: _invalid,
            HTTPException: _http_refused,
            Exception: _failed,
        },
    )
    for prefix in ("", PREFIX):
        app.add_api_route(f"{prefix}/openapi.json", _document, methods=["GET", "HEAD"], include_in_schema=False)
        app.add_api_route(f"{prefix}/docs", _docs, methods=["GET", "HEAD"], include_in_schema=False)
    app.mount(_DOCS_FILES, StaticFiles(packages=[("fastapi_offline", "static")]))
    return app


async def _document(request: Request) -> Response:
    return JSONResponse(request.app.openapi())


async def _docs(request: Request) -> Response:
    """The document for people; the page loads nothing from elsewhere."""
    page = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title="Observatory API",
        swagger_js_url=f"{_DOCS_FILES}/swagger-ui-bundle.js",
        swagger_css_url=f"{_DOCS_FILES}/swagger-ui.css",
        swagger_favicon_url="/favicon.ico",
    )
    page.headers["Content-Security-Policy"] = (
        "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page


def _specificity(route: BaseRoute) -> tuple[tuple[bool, str], ...]:
    """Words of the API go before parameters: ``/v2/leagues/game-of-week`` is no league's id."""
    path = str(getattr(route, "path", ""))
    if not path.startswith(PREFIX):
        return ((True, "~"),)
    return tuple((part.startswith("{"), part) for part in path.split("/"))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return JSONResponse({"detail": error.detail, "type": error.code}, status_code=error.status, headers=error.headers)


async def _invalid(request: Request, error: Exception) -> Response:
    """What is wrong with a request, without repeating what it said."""
    assert isinstance(error, RequestValidationError)
    issues: list[dict[str, object]] = [
        {"type": issue["type"], "loc": list(issue["loc"]), "msg": issue["msg"]} for issue in error.errors()[:100]
    ]
    return await _refused(request, Refusal(422, issues, code="validation_error"))


async def _http_refused(request: Request, error: Exception) -> Response:
    """What the framework refuses by itself, in our words."""
    assert isinstance(error, HTTPException)
    kinds = {404: ("not_found", "There is nothing at this path."), 405: ("method_not_allowed", "Not by this method.")}
    kind, detail = kinds.get(error.status_code, ("refused", error.detail))
    if error.status_code == 404 and _wants_page(request):
        async with open_visit(request) as visit:
            return trouble(request, visit.caller, 404, "Nothing here", "There is no page at this address.")
    headers = dict(error.headers or {})
    if error.status_code == 405:
        # the route that said so knows its own method alone
        headers["Allow"] = ", ".join(method for method in _METHODS if _is_routed(request, method))
    return JSONResponse({"detail": detail, "type": kind}, status_code=error.status_code, headers=headers)


def _wants_page(request: Request) -> bool:
    """Whether it is a browser that asks, and not for something of the API."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith((f"{PREFIX}/", "/v2/"))


_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")


def _is_routed(request: Request, method: str) -> bool:
    scope = {**request.scope, "method": method}
    return any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)


async def _failed(request: Request, error: Exception) -> Response:
    """Our own mistake: the log has it, the answer says where to look."""
    request.state.failed = True
    detail = f"The server failed. Its log says more under {request.state.request_id}."
    return JSONResponse({"detail": detail, "type": "internal"}, status_code=500)


class _Envelope:
    """Around every request: its id, headers of safety, a line in the log, and an answer when we fail.

    Args:
        app: The application.
    """

    def __init__(self, app: _Application) -> None:
        self._app = app

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        began, status = time.perf_counter(), 0

        async def sending(message: _Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                for name, value in scope["state"].get("limits", {}).items():
                    # a refusal for another quota has its own: both are lists
                    headers[name] = f"{value}, {headers[name]}" if name in headers else value
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("Referrer-Policy", "no-referrer")
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except ClientDisconnect:
            # nobody is left to answer; what came of an upload stays for when they come back
            status = status or 499
        except Exception:
            logging.getLogger("observatory").exception("request %s failed", request_id)
            if not scope["state"].get("failed"):
                # the answer was on its way: cutting it short is the only way left to say that it is not whole
                raise
        finally:
            milliseconds = (time.perf_counter() - began) * 1000
            _LOG.info("%s %s %s %.1fms %s", scope["method"], scope["path"], status, milliseconds, request_id)
