"""The web application: all routes in one table, and what every request gets."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from .blobs import BlobStore
from .database import open_database
from .errors import Refusal
from .routing import Endpoint, Router, serve
from .services import Services
from .settings import Settings, prepare_directory
from .storage import artifact_store
from .vault import Vault

__all__ = ["PREFIX", "Part", "api_endpoints", "create_app", "lifespans", "open_services", "parts"]

PREFIX = "/observatory"
"""What all paths of the API begin with."""

PARTS = (
    "identity",
    "catalogue",
    "images",
    "policies",
    "coworld_secrets",
    "leagues",
    "participation",
    "memberships",
    "standings",
    "rounds",
    "happenings",
    "registry",
    "episodes",
    "experience",
    "artifacts",
    "annotations",
    "feed",
    "replays",
    "hosted",
    "signin",
    "not_offered",
    "openapi",
    "housekeeping",
    "web",
)
"""Modules of this package that bring routes, in the order of the table.

``router``: routes of the API; ``routes``: routes of Starlette beside the API; ``lifespan(services)``: an async context
manager that is open while the server runs. A module has one of these at least.
"""

_LOG = logging.getLogger("observatory.access")
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{1,100}", re.ASCII)

_Scope = MutableMapping[str, Any]
_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]


class _Application(Protocol):
    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None: ...


@dataclass(frozen=True)
class Part:
    """A module's share of the application."""

    name: str
    endpoints: tuple[Endpoint, ...] = ()
    routes: tuple[BaseRoute, ...] = ()
    lifespan: Callable[[Services], AbstractAsyncContextManager[object]] | None = None


def parts(names: Iterable[str] = PARTS) -> tuple[Part, ...]:
    """The application's parts, imported."""
    found: list[Part] = []
    for name in names:
        module = import_module(f".{name}", __package__)
        router = cast("Router | None", getattr(module, "router", None))
        found.append(
            Part(
                name=name,
                endpoints=tuple(router.endpoints) if router is not None else (),
                routes=tuple(getattr(module, "routes", ())),
                lifespan=getattr(module, "lifespan", None),
            )
        )
    return tuple(found)


def api_endpoints() -> tuple[Endpoint, ...]:
    """All routes of the API, in the order of the table."""
    return tuple(endpoint for part in parts() for endpoint in part.endpoints)


@asynccontextmanager
async def open_services(settings: Settings, *, upgrade: bool = True) -> AsyncGenerator[Services]:
    """Open what an Observatory works with: database, stores, secrets.

    Args:
        settings: How it is set up.
        upgrade: Whether to bring the database's tables up to date.

    Raises:
        EnvironmentFault: When the database, the artifact store or the key of the secrets cannot be used.
        UsageError: When the data directory cannot be used.
    """
    prepare_directory(settings.data)
    async with open_database(settings.database_url) as database:
        if upgrade:
            await database.upgrade()
        artifacts = artifact_store(settings.artifacts_url)
        await artifacts.check()
        yield Services(
            settings=settings,
            database=database,
            artifacts=artifacts,
            blobs=BlobStore(settings.blobs),
            vault=await Vault.open(settings.vault, settings.key_file),
        )


@asynccontextmanager
async def lifespans(services: Services) -> AsyncGenerator[None]:
    """What the parts keep running while the server does."""
    async with AsyncExitStack() as stack:
        for part in parts():
            if part.lifespan is not None:
                await stack.enter_async_context(part.lifespan(services))
        yield


def create_app(services: Services) -> _Application:
    """The application over services that are open (and over ``lifespans``)."""
    assembled = parts()

    api = [endpoint for part in assembled for endpoint in part.endpoints]
    app = Starlette(
        routes=[*_table(api, services), *(route for part in assembled for route in part.routes)],
        exception_handlers={Refusal: _refused, HTTPException: _http_refused, Exception: _failed},
    )
    app.state.services = services
    return _Envelope(app)


def _table(endpoints: Iterable[Endpoint], services: Services) -> list[BaseRoute]:
    """One route per path, so that a wrong method is told the right ones."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        methods = by_path.setdefault(endpoint.path, {})
        if endpoint.method in methods:
            raise ValueError(f"{endpoint.method} {endpoint.path} is in the table twice")
        methods[endpoint.method] = endpoint
    return [
        Route(PREFIX + path, _dispatch(methods, services), methods=list(methods))
        for path, methods in sorted(by_path.items(), key=lambda item: _specificity(item[0]))
    ]


def _specificity(path: str) -> tuple[tuple[bool, str], ...]:
    """Words go before parameters: ``/v2/leagues/game-of-week`` is no league's id."""
    return tuple((part.startswith("{"), part) for part in path.split("/"))


def _dispatch(methods: dict[str, Endpoint], services: Services) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await serve(methods[method], request, services)

    return answer


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return JSONResponse({"detail": error.detail, "type": error.code}, status_code=error.status, headers=error.headers)


async def _http_refused(request: Request, error: Exception) -> Response:
    """What Starlette refuses by itself, in our words."""
    assert isinstance(error, HTTPException)
    kinds = {404: ("not_found", "There is nothing at this path."), 405: ("method_not_allowed", "Not by this method.")}
    kind, detail = kinds.get(error.status_code, ("refused", error.detail))
    headers = dict(error.headers or {})
    return JSONResponse({"detail": detail, "type": kind}, status_code=error.status_code, headers=headers)


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
