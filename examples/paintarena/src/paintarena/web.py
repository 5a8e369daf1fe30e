"""Routes: the pages, and the sockets of players, spectators, admins and replay viewers."""

import hmac
import json
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from paintarena.artifacts import ArtifactError, load_replay
from paintarena.config import Config, Json
from paintarena.logs import Log
from paintarena.match import Match
from paintarena.outbox import Outbox
from paintarena.pages import Page, render

STUCK_SECONDS: Final = 10.0
"""A client that takes no byte for this long is dropped."""

VIEWER_PAUSE: Final = 1 / 30
"""Seconds between two states for one spectator; eyes need no more."""

MAX_REFUSALS_LOGGED: Final = 10

Answer = Callable[[str | bytes], str | None]


def game_app(match: Match, config: Config, *, log: Log, admin: bool) -> Starlette:
    """Return the app of a running game.

    Args:
        match: The game.
        config: Its config, for the tokens.
        log: Where refused connections are told.
        admin: Whether the admin page and socket exist; they have no sign-in, so only where they were asked for.
    """
    refusals = 0

    async def player(socket: WebSocket) -> None:
        nonlocal refusals
        slot = authorised_slot(socket, config.tokens)
        if slot is None:
            refusals += 1
            if refusals <= MAX_REFUSALS_LOGGED:
                log.line("refused a player: slot or token missing or wrong")
            await refuse(socket)
            return
        if not await accepted(socket):
            return
        outbox = match.join(slot)
        try:
            await converse(socket, outbox, answer=partial(match.hear_player, slot))
        finally:
            match.leave(slot, outbox)

    async def spectator(socket: WebSocket) -> None:
        if not await accepted(socket):
            return
        outbox = match.watch()
        try:
            await converse(socket, outbox, pause=VIEWER_PAUSE)
        finally:
            match.unwatch(outbox)

    async def admin_socket(socket: WebSocket) -> None:
        if not await accepted(socket):
            return
        outbox = match.watch()
        try:
            await converse(socket, outbox, answer=match.hear_admin, pause=VIEWER_PAUSE)
        finally:
            match.unwatch(outbox)

    routes: list[BaseRoute] = [
        *_pages("player"),
        *_pages("global"),
        WebSocketRoute("/player", player),
        WebSocketRoute("/global", spectator),
    ]
    if admin:
        routes += [*_pages("admin"), WebSocketRoute("/admin", admin_socket)]
    return Starlette(routes=[*routes, *_common(home="client/global")])


def replay_app(message: bytes) -> Starlette:
    """Return the app that shows one replay.

    Args:
        message: What `load_replay` returned.
    """

    async def replay(socket: WebSocket) -> None:
        await _show(socket, message)

    routes = [*_pages("replay", suffix="{rest:path}"), WebSocketRoute("/replay{rest:path}", replay)]
    return Starlette(routes=[*routes, *_common(home="client/replay")])


def replay_service() -> Starlette:
    """Return the app of the older dialect, where each request names its replay by `?uri=`."""

    async def load(uri: str) -> bytes:
        # Nobody waits for a replay that does not come.
        return await anyio.to_thread.run_sync(load_replay, uri, abandon_on_cancel=True)

    async def page(request: Request) -> Response:
        uri = request.query_params.get("uri")
        if not uri:
            return PlainTextResponse("name a replay: ?uri=…\n", status_code=400)
        try:
            await load(uri)
        except ArtifactError as error:
            return PlainTextResponse(f"{error}\n", status_code=404)
        return _html("replay")

    async def replay(socket: WebSocket) -> None:
        try:
            message = await load(socket.query_params.get("uri") or "")
        except ArtifactError:
            await refuse(socket)
            return
        await _show(socket, message)

    routes: list[BaseRoute] = [Route(f"/{prefix}/replay", page) for prefix in ("client", "clients")]
    return Starlette(routes=[*routes, WebSocketRoute("/replay", replay), *_common(home=None)])


def authorised_slot(socket: WebSocket, tokens: tuple[str, ...]) -> int | None:
    """Return the slot whose token the query holds, or None when either is missing or wrong."""
    slot, token = socket.query_params.get("slot", ""), socket.query_params.get("token", "")
    if not (slot.isascii() and slot.isdigit() and len(slot) < 4 and int(slot) < len(tokens)):
        return None
    matches = hmac.compare_digest(token.encode(errors="replace"), tokens[int(slot)].encode(errors="replace"))
    return int(slot) if matches else None


async def accepted(socket: WebSocket) -> bool:
    """Accept a connection; return False when the client has gone already."""
    try:
        await socket.accept()
    except WebSocketDisconnect:
        return False
    return True


async def refuse(socket: WebSocket) -> None:
    """Turn a connection down, unless the client has gone already."""
    with suppress(WebSocketDisconnect):
        await socket.close(code=1008)


async def converse(socket: WebSocket, outbox: Outbox, *, answer: Answer | None = None, pause: float = 0.0) -> None:
    """Serve one accepted connection until it closes, is finished, or is stuck.

    Args:
        socket: The connection.
        outbox: What to send; filled by others while this runs.
        answer: Takes each message and may return a reply. Without it messages are ignored.
        pause: Least seconds between two rounds of sending.
    """
    async with anyio.create_task_group() as tasks:

        async def send() -> None:
            try:
                while True:
                    messages = await outbox.take()
                    with anyio.fail_after(STUCK_SECONDS):
                        for message in messages:
                            await socket.send_text(message)
                        # Nothing can be added to a finished outbox, so all is said.
                        if outbox.close_reason is not None:
                            await socket.close(code=1000, reason=outbox.close_reason)
                            return
                    if pause:
                        await anyio.sleep(pause)
            except (TimeoutError, WebSocketDisconnect):
                tasks.cancel_scope.cancel()

        tasks.start_soon(send)
        while (event := await socket.receive())["type"] == "websocket.receive":
            if answer is not None:
                reply = answer(event.get("text") or event.get("bytes") or "")
                if reply is not None:
                    outbox.notify(reply)
        tasks.cancel_scope.cancel()


async def _show(socket: WebSocket, message: bytes) -> None:
    if await accepted(socket):
        outbox = Outbox()
        outbox.put(message.decode())
        await converse(socket, outbox, answer=_control)


def _control(message: str | bytes) -> str:
    try:
        command: Json = json.loads(message)
    except (ValueError, RecursionError):
        return json.dumps({"type": "error", "message": "not understood: controls are JSON"})
    return json.dumps({"type": "control", "command": command})


def _pages(page: Page, *, suffix: str = "") -> list[BaseRoute]:
    """Return the routes of one page under the present prefix and the older one."""

    async def show(_request: Request) -> Response:
        return _html(page)

    return [Route(f"/{prefix}/{page}{suffix}", show) for prefix in ("client", "clients")]


def _html(page: Page) -> Response:
    document = render(page)
    headers = {
        "Content-Security-Policy": document.policy,
        "Cache-Control": "no-store",
        # The address of the player page holds a token.
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    return HTMLResponse(document.html, headers=headers)


def _common(*, home: str | None) -> list[BaseRoute]:
    async def healthz(_request: Request) -> Response:
        return JSONResponse({"ok": True})

    async def root(_request: Request) -> Response:
        return RedirectResponse(home or "healthz")

    return [Route("/healthz", healthz), Route("/", root)]


def admin_wanted() -> bool:
    """Tell whether the environment asks for the admin page and socket (`COWORLD_ADMIN=1`)."""
    return os.environ.get("COWORLD_ADMIN") == "1"
