"""Requests about what another server has: a game for people, an episode that it plays, an unfinished upload.

They are passed on to it: the database says which one it is, and where it answers the others. A ticket, which only
holders of the installation's key can make, says whose request it is, so that limits hold for that address, and that it
was passed on, so that none goes in a circle.
"""

from __future__ import annotations

import datetime as dt
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response, StreamingResponse
from starlette.websockets import WebSocket

from ..episodes.signed_links import LinkSigner
from ..errors import Refusal
from ..settings import server_id
from ..store.columns import now
from ..store.models import EpisodeRequest, HostedSession, Lobby, ServerRow
from ..supervisor import Supervisor
from .game_proxy import tunnel

if TYPE_CHECKING:
    import httpx2

    from ..services import Services

__all__ = ["Forwarding", "admit", "lifespan"]

_HEADER = "observatory-forwarded"
_PLACE = re.compile(
    r"/(?:sessions|play|observatory/v2/coworlds/play/session)/(?P<session>[^/]+)"
    r"|/(?:observatory/v2/)?lobbies/(?P<lobby>[^/]+)"
    r"|/live/(?P<live>[^/]+)\.[^/.]+/"
    r"|/v2/.+/blobs/uploads/(?P<upload>[0-9a-f]{48})$"
)
_OWN = re.compile(
    rf"connection|date|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|(x-)?forwarded.*|ratelimit.*|{_HEADER}",
    re.IGNORECASE,
)
"""Headers of one connection, and those that the server that is asked adds itself."""
_EVERY = 3600.0
_GONE = dt.timedelta(days=1)
_log = logging.getLogger("observatory")

_Scope = MutableMapping[str, Any]
_App = Callable[..., Awaitable[None]]


@asynccontextmanager
async def lifespan(services: Services) -> AsyncGenerator[None]:
    """Let the other servers know where this one answers them, and connect to them, while it runs."""
    import httpx2

    settings = services.settings
    if settings.internal_address is None:
        yield
        return
    mine = server_id(settings.owner("server"))

    async def announce() -> None:
        async with services.database.writing() as session:
            await session.merge(ServerRow(id=mine, address=settings.internal_address, seen_at=now()))
            await session.execute(sa.delete(ServerRow).where(ServerRow.seen_at < now() - _GONE))

    await announce()
    what = "Other servers may not find this one"
    everybody = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncHTTPTransport(limits=everybody) as transport, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(Supervisor(_log).repeat, announce, what, seconds=_EVERY))
        services.runtime.servers = transport
        try:
            yield
        finally:
            services.runtime.servers = None
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True), suppress(SQLAlchemyError):
                async with services.database.writing() as session:
                    await session.execute(sa.delete(ServerRow).where(ServerRow.id == mine))


def admit(services: Services, scope: _Scope) -> _Scope:
    """The scope of a request, with the client's address if another server has passed it on."""
    client, _, ticket = Headers(scope=scope).get(_HEADER, "").partition(" ")
    if not ticket or not _signer(services).admits(_text(scope, client), ticket):
        return scope
    return {**scope, "client": (client, 0), "state": {**scope.get("state", {}), "passed_on": True}}


class Forwarding:
    """Passes requests on that another server can answer.

    Args:
        app: Answers all others.
        services: The Observatory.
        refuse: Makes the answer to a request that cannot be passed on.
    """

    def __init__(
        self, app: _App, services: Services, refuse: Callable[[Request, Refusal], Awaitable[Response]]
    ) -> None:
        self._app = app
        self._services = services
        self._refuse = refuse

    async def __call__(self, scope: _Scope, receive: Any, send: Any) -> None:
        """Answer a request."""
        address = await self._elsewhere(scope)
        if address is None:
            await self._app(scope, receive, send)
            return
        client = HTTPConnection(scope).client
        host = client.host if client is not None else ""
        ticket = f"{host} {_signer(self._services).ticket(_text(scope, host))}"
        if scope["type"] == "websocket":
            await tunnel(WebSocket(scope, receive, send), address, _target(scope), headers={_HEADER: ticket})
            return
        request = Request(scope, receive)
        answer = await self._ask(request, address, ticket)
        await answer(scope, receive, send)

    async def _elsewhere(self, scope: _Scope) -> str | None:
        """Where the server answers that a request is for; None if it is this one, or nobody knows."""
        servers, sessions = self._services.runtime.servers, self._services.runtime.sessions
        match = _PLACE.match(scope["path"])
        if match is None or servers is None or scope.get("state", {}).get("passed_on"):
            return None
        kind, name = str(match.lastgroup), match[str(match.lastgroup)]
        if kind == "session" and sessions is not None and sessions.get(name) is not None:
            return None
        # Without a database, the application says so
        with suppress(SQLAlchemyError):
            async with self._services.database.reading() as session:
                of = name[:16] if kind == "upload" else await _server_of(session, kind, name)
                if of and of != self._services.blobs.server_id:
                    return await session.scalar(sa.select(ServerRow.address).where(ServerRow.id == of))
        return None

    async def _ask(self, request: Request, address: str, ticket: str) -> Response:
        """The other server's answer, or a refusal if it gives none."""
        import httpx2

        servers = self._services.runtime.servers
        assert servers is not None
        headers = _passed(request.headers.raw)
        has_body = {"content-length", "transfer-encoding"} & set(request.headers)
        asked = httpx2.Request(
            request.method,
            httpx2.URL(f"http://{address}").copy_with(raw_path=_target(request.scope).encode("latin-1")),
            headers=[*headers, (_HEADER.encode(), ticket.encode())],
            content=request.stream() if has_body else None,
            extensions={"timeout": httpx2.Timeout(None, connect=10).as_dict()},
        )
        try:
            answer = await servers.handle_async_request(asked)
        except (httpx2.HTTPError, OSError):
            said = "The server of this platform that has this does not answer. Try again in a moment."
            return await self._refuse(request, Refusal(503, said, code="elsewhere", headers={"Retry-After": "10"}))
        passed = StreamingResponse(_content(answer), status_code=answer.status_code)
        passed.raw_headers = _passed(answer.headers.raw)
        return passed


def _passed(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [pair for pair in headers if not _OWN.fullmatch(pair[0].decode("latin-1"))]


async def _content(answer: httpx2.Response) -> AsyncGenerator[bytes]:
    try:
        async for piece in answer.aiter_raw():
            yield piece
    finally:
        with anyio.CancelScope(shield=True):
            await answer.aclose()


async def _server_of(session: AsyncSession, kind: str, name: str) -> str | None:
    """The id of the server or worker that has something; None if it is over, or is nowhere."""
    if kind == "live":
        owner = await session.scalar(
            sa.select(EpisodeRequest.lease_owner).where(EpisodeRequest.id == name, EpisodeRequest.status == "running")
        )
    else:
        statement = sa.select(HostedSession.state).where(HostedSession.ended_at.is_(None))
        if kind == "lobby":
            statement = statement.join(Lobby, Lobby.session_id == HostedSession.id).where(Lobby.id == name)
        else:
            statement = statement.where(HostedSession.id == name)
        owner = (await session.scalar(statement) or {}).get("server")
    return server_id(owner) if owner else None


def _signer(services: Services) -> LinkSigner:
    return LinkSigner(services.vault.key("servers"), "")


def _text(scope: _Scope, client: str) -> str:
    return f"{scope.get('method', 'socket')} {_target(scope)} {client}"


def _target(scope: _Scope) -> str:
    """Path and query as they were asked."""
    path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path
