"""The web application: all routes, and the handling common to all requests."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from importlib import import_module, metadata
from types import ModuleType
from typing import Any, Protocol, cast

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.routing import BaseRoute, Match
from starlette.staticfiles import StaticFiles

from coworld_core.api import Problem
from coworld_runner.telemetry import health_of

from .api.routing import PREFIX
from .errors import Refusal, explained
from .identity.auth import ANONYMOUS
from .identity.limits import REQUEST_WINDOW, Taker, taker_of
from .names import NameRefused
from .operations.metrics import platform_trouble, serving_trouble
from .services import Services
from .store.columns import JsonObject
from .store.database import counting_rows, is_lost
from .web.forwarding import Forwarding, admit
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
    "api.teams",
    "api.standings",
    "api.rounds",
    "api.events",
    "api.webhooks",
    "api.episodes",
    "api.experience",
    "api.artifacts",
    "api.annotations",
    "api.role_runs",
    "api.reporters",
    "api.feed",
    "api.replays",
    "web.game_proxy",
    "web.forwarding",
    "api.hosted",
    "api.lobbies",
    "api.labels",
    "api.not_offered",
    "registry.protocol",
    "web.cli_sign_in",
    "work.housekeeping",
    "operations.retention",
    "operations.unused_images",
    "operations.webhooks",
    "work.rounds",
    "work.commissioner_service",
    "web",
)
"""Modules of this package that take part in the application.

`router`: its routes; `lifespan(services)`: an async context manager that is open while the server runs. Each module
has at least one of these.
"""

_DOCS_FILES = "/docs-files"
"""The path of the script and style of the documentation page."""
_LOST_AGAIN = 60.0
"""Seconds after which the log says again that the database does not answer."""
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
    """Enter the lifespans of all modules."""
    async with AsyncExitStack() as stack:
        for part in _parts():
            if hasattr(part, "lifespan"):
                await stack.enter_async_context(part.lifespan(services))
        yield


def create_app(services: Services) -> _Application:
    """Create the application for open services, within `lifespans`."""
    app = _application(services.settings.url)
    app.state.services = services
    return _Envelope(Forwarding(app, services, _turned_away), services, app)


def document(url: str) -> JsonObject:
    """The OpenAPI document of a server at an address."""
    return _application(url).openapi()


class _Api(FastAPI):
    def openapi(self) -> JsonObject:
        """The OpenAPI document, including the form of refusals."""
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
        # Requests and responses have different models anyway.
        separate_input_output_schemas=False,
        openapi_url=None,
        exception_handlers={
            Refusal: _refused,
            NameRefused: _name_refused,
            RequestValidationError: _invalid,
            HTTPException: _http_refused,
            SQLAlchemyError: _database_failed,
            Exception: _failed,
        },
    )
    for prefix in ("", PREFIX):
        app.add_api_route(f"{prefix}/openapi.json", _document, methods=["GET", "HEAD"], include_in_schema=False)
        app.add_api_route(f"{prefix}/docs", _docs, methods=["GET", "HEAD"], include_in_schema=False)
    for path, answer in (("/livez", _alive), ("/readyz", _ready), ("/healthz", _health)):
        app.add_api_route(path, answer, methods=["GET", "HEAD"], include_in_schema=False)
    app.mount(_DOCS_FILES, StaticFiles(packages=[("fastapi_offline", "static")]))
    return app


async def _document(request: Request) -> Response:
    return JSONResponse(request.app.openapi())


async def _alive(request: Request) -> Response:
    """This process answers. It asks nobody, since restarting it brings no lost database back."""
    status, said = health_of("")
    return JSONResponse(said, status)


async def _ready(request: Request) -> Response:
    status, said = health_of(await serving_trouble(request.app.state.services))
    return JSONResponse(said, status)


async def _health(request: Request) -> Response:
    status, said = health_of(await platform_trouble(request.app.state.services))
    return JSONResponse(said, status)


async def _docs(request: Request) -> Response:
    """The documentation page, which loads nothing from other sites."""
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
    """Sort fixed words before parameters: in `/v2/leagues/game-of-week` the last part is not a league's id."""
    path = str(getattr(route, "path", ""))
    if not path.startswith(PREFIX):
        return ((True, "~"),)
    return tuple((part.startswith("{"), part) for part in path.split("/"))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return JSONResponse({"detail": error.detail, "type": error.code}, status_code=error.status, headers=error.headers)


async def _invalid(request: Request, error: Exception) -> Response:
    """Report errors in a request, without repeating its values."""
    assert isinstance(error, RequestValidationError)
    issues: list[dict[str, object]] = [
        {"type": issue["type"], "loc": list(issue["loc"]), "msg": issue["msg"]} for issue in error.errors()[:100]
    ]
    return await _refused(request, Refusal(422, issues, code="validation_error"))


async def _name_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, NameRefused)
    status = 409 if error.code == "name_taken" else 422
    return await _refused(request, Refusal(status, explained(error), code=error.code))


async def _http_refused(request: Request, error: Exception) -> Response:
    """Report refusals of the framework in this API's form."""
    assert isinstance(error, HTTPException)
    kinds = {
        404: ("not_found", "There is no such path."),
        405: ("method_not_allowed", "This path does not support this method."),
    }
    kind, detail = kinds.get(error.status_code, ("refused", error.detail))
    if error.status_code == 404 and _wants_page(request):
        async with open_visit(request) as visit:
            return trouble(request, visit.caller, 404, "Page not found", "There is no page at this address.")
    headers = dict(error.headers or {})
    if error.status_code == 405:
        # The route that raised this knows only its own method.
        headers["Allow"] = ", ".join(method for method in _METHODS if _is_routed(request, method))
    return JSONResponse({"detail": detail, "type": kind}, status_code=error.status_code, headers=headers)


def _wants_page(request: Request) -> bool:
    """Whether a browser asks for a page, not for a route of the API."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith((f"{PREFIX}/", "/v2/"))


_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")


def _is_routed(request: Request, method: str) -> bool:
    scope = {**request.scope, "method": method}
    return any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)


async def _database_failed(request: Request, error: Exception) -> Response:
    """Say that the database is lost, in the log once a minute however many ask."""
    if not is_lost(error):
        raise error
    if time.monotonic() >= getattr(request.app.state, "lost_until", 0.0):
        request.app.state.lost_until = time.monotonic() + _LOST_AGAIN
        cause = getattr(error, "orig", None) or error
        logging.getLogger("observatory").error("The database does not answer: %s", " ".join(str(cause).split()))
    said, again = "The database does not answer. Try again in a moment.", {"Retry-After": "5"}
    return await _turned_away(request, Refusal(503, said, code="database_lost", headers=again))


async def _turned_away(request: Request, refusal: Refusal) -> Response:
    """A refusal of whatever route, in the form that its sender reads."""
    busy = refusal.status == 429
    if f"{request.url.path}/".startswith("/v2/"):
        code = "TOOMANYREQUESTS" if busy else "UNAVAILABLE"
        errors = [{"code": code, "message": refusal.message}]
        return JSONResponse({"errors": errors}, refusal.status, refusal.headers)
    if _wants_page(request):
        title = "Too many requests" if busy else "Not available"
        return trouble(request, ANONYMOUS, refusal.status, title, refusal.message, refusal.headers)
    return await _refused(request, refusal)


async def _failed(request: Request, error: Exception) -> Response:
    """Log an internal error, and refer to the log in the response."""
    request.state.failed = True
    detail = f"Internal server error. The details are in the server's log under {request.state.request_id}."
    return JSONResponse({"detail": detail, "type": "internal"}, status_code=500)


class _Envelope:
    """Wraps every request: its id, security headers, a line in the log, and a response to internal errors.

    Args:
        app: The application.
        services: Counts requests, if there are metrics.
        application: What the pages of refusals are of, which may not have been asked.
    """

    def __init__(self, app: _Application, services: Services, application: FastAPI) -> None:
        self._app = app
        self._services = services
        self._application = application

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        scope = admit(self._services, scope)
        scope["app"] = self._application
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
                    # A refusal for another quota has such a header too; both are lists.
                    headers[name] = f"{value}, {headers[name]}" if name in headers else value
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("Referrer-Policy", "no-referrer")
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        app = self._app
        taker, refusal = await self._take(scope)
        if refusal is not None:
            app = await self._refusing(scope, taker, refusal)
        if {b"content-length", b"transfer-encoding"} <= dict(scope["headers"]).keys():
            # A proxy before this server may have read the other one, and taken a part of the body for a request
            detail = "A request has Content-Length or Transfer-Encoding, and not both."
            app = JSONResponse({"detail": detail, "type": "two_lengths"}, 400, {"Connection": "close"})
        traces = self._services.runtime.traces
        try:
            with traces.request(scope) if traces is not None else nullcontext() as span, counting_rows() as added:
                await app(scope, receive, sending)
                self._services.rows.add(taker.key, taker.quotas.rows, added.many)
                if traces is not None and span is not None:
                    traces.ended(span, scope, status)
        except ClientDisconnect:
            # The client has gone; the received part of an upload is kept for its return.
            status = status or 499
        except Exception:
            logging.getLogger("observatory").exception("request %s failed", request_id)
            if not scope["state"].get("failed"):
                # The response has begun; only closing the connection can show that it is incomplete.
                raise
        finally:
            milliseconds = (time.perf_counter() - began) * 1000
            if (metrics := self._services.runtime.metrics) is not None:
                metrics.note_request(scope, status, milliseconds / 1000)
            _LOG.info("%s %s %s %.1fms %s", scope["method"], scope["path"], status, milliseconds, request_id)

    async def _take(self, scope: _Scope) -> tuple[Taker, Refusal | None]:
        """Whom a request counts for, and why it is refused."""
        connection, services = HTTPConnection(scope), self._services
        user = services.tokens.remembered(connection)
        taker = taker_of(user, connection, services.settings.quotas)
        try:
            self._admit(scope, taker)
        except Refusal as refusal:
            if user is None:
                # Whose first request here comes from a busy address is no part of what is going on there.
                with suppress(SQLAlchemyError):
                    async with services.database.reading() as session:
                        user = await services.tokens.recall(session, connection)
                if user is not None:
                    return await self._take(scope)
            return taker, refusal
        return taker, None

    def _admit(self, scope: _Scope, taker: Taker) -> None:
        """Count a request, for whoever has used its token before, or for its address.

        Raises:
            Refusal: 429.
        """
        most, window = taker.quotas.requests, round(REQUEST_WINDOW)
        scope["state"]["limits"] = self._services.requests.take(taker.key, None if most is None else most * window)
        if scope["method"] in ("PATCH", "POST", "PUT"):
            # How many rows a request adds is known afterwards
            self._services.rows.take(taker.key, taker.quotas.rows, many=0)

    async def _refusing(self, scope: _Scope, taker: Taker, refusal: Refusal) -> Response:
        """The answer to a request too many, which is noted."""
        if taker.known:
            with suppress(SQLAlchemyError):
                await self._services.refused.write(self._services.database, taker.key, refusal.code, refusal.message)
        return await _turned_away(Request(scope), refusal)
