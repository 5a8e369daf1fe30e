"""Access to games from a browser, through this server as a proxy.

A game's pages are untrusted code. They come from this server's address, so that one port is enough, but the browser
treats them as an origin of their own (`Content-Security-Policy: sandbox`): they see no cookie of this server, and
cannot act as the visitor. Only the requests and headers named here are passed on, in either direction.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager, nullcontext
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import anyio
import sqlalchemy as sa
from fastapi import APIRouter, Request, Response, WebSocket, WebSocketDisconnect
from fastapi.responses import PlainTextResponse, StreamingResponse
from starlette.requests import HTTPConnection

from coworld_core.rules import MAX_MESSAGE
from coworld_runner.web import is_operator_path, plain_path, quoted_path

from ..api.routing import read_body
from ..errors import Refusal
from ..hosted.sessions import is_live_key, session_here
from ..identity.limits import sender_of
from ..store.models import EpisodeRequest

if TYPE_CHECKING:
    import httpx2
    from starlette.types import Receive, Scope, Send
    from websockets.asyncio.client import ClientConnection

    from ..services import Services

__all__ = ["lifespan", "router", "tunnel"]

_ASK = ("accept", "accept-encoding", "accept-language", "content-type", "if-none-match", "range", "user-agent")
_ANSWER = ("accept-ranges", "content-encoding", "content-range", "content-type", "etag", "last-modified")
_SANDBOX = "sandbox allow-scripts allow-forms allow-pointer-lock; frame-ancestors 'self'"
_SEATS = ("player", "client/player", "clients/player")
"""Paths of players, closed where visitors may only watch."""
_VIEWERS = ("global", "client/global", "clients/global")
"""Paths of spectators."""
_BODY_LIMIT = 1024 * 1024


class _Target:
    def __init__(
        self,
        kind: str,
        address: str,
        path: str,
        prefix: str,
        counted: Callable[[], AbstractContextManager[None]],
        came: Callable[[], None] = lambda: None,
    ) -> None:
        self.kind = kind
        """What kind of game it is: `play`, `replay` or `live`."""
        self.address = address
        self.path = path
        """The path with the query, as sent to the game."""
        self.prefix = prefix
        self.counted = counted
        """Counts a visitor."""
        self.came = came
        """Called once the game has accepted a connection."""


@asynccontextmanager
async def lifespan(services: Services) -> AsyncGenerator[None]:
    """Hold the connections to games while the server runs."""
    import httpx2

    timeout = httpx2.Timeout(30)
    async with httpx2.AsyncClient(timeout=timeout, trust_env=False, follow_redirects=False) as client:
        services.runtime.games = client
        try:
            yield
        finally:
            services.runtime.games = None


async def _forward(request: Request) -> Response:
    services = cast("Services", request.app.state.services)
    try:
        target = await _target(services, request)
    except Refusal as refusal:
        return _refused(refusal)
    if target is None:
        return PlainTextResponse("There is no such game, or it is over.\n", status_code=404)
    client = services.runtime.games
    assert client is not None
    with ExitStack() as visit:
        try:
            visit.enter_context(_counted(services, request, target))
        except Refusal as refusal:
            return _refused(refusal)
        answer = await _ask(client, request, target)
        return answer if isinstance(answer, Response) else _Passed(answer, target, visit.pop_all())


def _refused(refusal: Refusal) -> Response:
    return PlainTextResponse(f"{refusal.message}\n", status_code=refusal.status, headers=refusal.headers)


async def _ask(client: httpx2.AsyncClient, request: Request, target: _Target) -> httpx2.Response | Response:
    """A game's answer to a request, or our own without one."""
    import httpx2

    body = await read_body(request, _BODY_LIMIT) if request.method == "POST" else None
    asked = client.build_request(
        request.method,
        f"http://{target.address}{target.path}",
        headers={name: request.headers[name] for name in _ASK if name in request.headers},
        content=body,
    )
    try:
        return await client.send(asked, stream=True)
    except (httpx2.HTTPError, OSError):
        return PlainTextResponse("The game is not responding.\n", status_code=502)


class _Passed(StreamingResponse):
    """A game's answer, passed on."""

    def __init__(self, answer: httpx2.Response, target: _Target, visit: ExitStack) -> None:
        super().__init__(
            answer.aiter_raw(), status_code=answer.status_code, headers=_headers(answer.headers, target.prefix)
        )
        self._answer = answer
        self._visit = visit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            with self._visit:
                await super().__call__(scope, receive, send)
        finally:
            with anyio.CancelScope(shield=True):
                await self._answer.aclose()


@contextmanager
def _counted(services: Services, connection: HTTPConnection, target: _Target) -> Generator[None]:
    """Count a visitor of a game, and a connection of its address, while the block lasts.

    Raises:
        Refusal: 429 if the address has too many.
    """
    most = services.settings.connections
    with services.connections.held(target.kind, sender_of(connection), most), target.counted():
        yield


def _headers(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    headers = {name: given[name] for name in _ANSWER if name in given}
    location = given.get("location")
    if location is not None and location.startswith("/") and not location.startswith("//"):
        headers["Location"] = prefix + location
    return headers | {
        "Content-Security-Policy": _SANDBOX,
        # The pages are an origin of their own; this lets them reach only the game's own files.
        "Access-Control-Allow-Origin": "*",
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
    }


async def _tunnel(socket: WebSocket) -> None:
    services = cast("Services", socket.app.state.services)
    try:
        target = await _target(services, socket)
    except Refusal as refusal:
        await socket.send_denial_response(_refused(refusal))
        return
    if target is None:
        await socket.close(1008)
        return
    try:
        with _counted(services, socket, target):
            await tunnel(socket, target.address, target.path, came=target.came)
    except Refusal:
        await socket.close(1008)


async def tunnel(
    socket: WebSocket,
    address: str,
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    came: Callable[[], None] = lambda: None,
) -> None:
    """Connect a browser to a game, or to another server that does the same, until one of them leaves.

    Args:
        socket: The browser's, not accepted yet.
        address: `host:port`.
        path: Path and query.
        headers: Headers of the connection.
        came: Called once the connection is accepted there; one that is not is closed with 1008.
    """
    from websockets.exceptions import InvalidHandshake

    from coworld_runner.web import connect_to_game

    try:
        async with connect_to_game(
            address,
            path,
            max_size=MAX_MESSAGE,
            additional_headers=headers,
            ping_interval=None,
            compression=None,
            open_timeout=30,
            close_timeout=2,
        ) as game:
            await socket.accept()
            came()
            async with anyio.create_task_group() as group:
                group.start_soon(_from_game, game, socket, group.cancel_scope)
                group.start_soon(_to_game, socket, game, group.cancel_scope)
    except (InvalidHandshake, OSError, TimeoutError):
        await socket.close(1008)


async def _from_game(game: ClientConnection, socket: WebSocket, scope: anyio.CancelScope) -> None:
    from websockets.exceptions import ConnectionClosed

    try:
        async for message in game:
            if isinstance(message, str):
                await socket.send_text(message)
            else:
                await socket.send_bytes(message)
        await socket.close(1000)
    except ConnectionClosed:
        await socket.close(1011)
    except (WebSocketDisconnect, RuntimeError):
        # The browser disconnected during a message.
        pass
    scope.cancel()


async def _to_game(socket: WebSocket, game: ClientConnection, scope: anyio.CancelScope) -> None:
    from websockets.exceptions import ConnectionClosed

    try:
        while (message := await socket.receive())["type"] == "websocket.receive":
            text = message.get("text")
            await game.send(text if text is not None else message.get("bytes") or b"")
    except (ConnectionClosed, RuntimeError):
        # The other direction reports the end of the game.
        return
    scope.cancel()


async def _target(services: Services, request: HTTPConnection) -> _Target | None:
    """Find the game of a path.

    Raises:
        Refusal: 421: it runs on another server.
    """
    path = plain_path(str(request.path_params["path"]))
    if path is None or is_operator_path(path):
        return None
    asked = _asked(request, path)
    key = str(request.path_params["session"])
    if request.scope["path"].split("/")[1] == "live":
        episode_id, dot, mark = key.rpartition(".")
        if not dot or path.casefold() in _SEATS or not is_live_key(services, episode_id, mark):
            return None
        async with services.database.reading() as session:
            url = await session.scalar(
                sa.select(EpisodeRequest.live_url).where(
                    EpisodeRequest.id == episode_id, EpisodeRequest.status == "running"
                )
            )
        address = urlsplit(url or "").netloc
        if not address.startswith("127.0.0.1:"):
            return None
        return _Target("live", address, asked, f"/live/{key}", nullcontext)
    session, sessions = await session_here(services, key), services.runtime.sessions
    if sessions is None or session is None or session.over or not session.address:
        return None
    if path.casefold() in _VIEWERS and not session.spectators:
        return None

    def came() -> None:
        session.started = session.started or path == "player"

    return _Target(session.kind, session.address, asked, f"/sessions/{key}", lambda: sessions.used(session), came)


def _asked(request: HTTPConnection, path: str) -> str:
    """The path and query to send to the game."""
    path = quoted_path(path, asked=str(request.path_params["path"]))
    return f"{path}?{request.url.query}" if request.url.query else path


router = APIRouter(include_in_schema=False)
for _place in ("/sessions/{session}/{path:path}", "/live/{session}/{path:path}"):
    router.add_api_route(_place, _forward, methods=["GET", "HEAD", "POST"])
    router.add_api_websocket_route(_place, _tunnel)
