"""Checks of the runtime contract from outside, over the game's published port (contract of games, routes).

Each check is a function of an address; it returns its result as a value and assigns no blame.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import anyio

from ..web import http_requests

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = [
    "CURRENT",
    "OLDER",
    "Dialect",
    "ProbeResult",
    "detect_dialect",
    "first_message",
    "get_page",
    "get_status",
    "page_result",
    "probe_contract",
    "probe_page",
    "probe_refusal",
    "probe_seat",
    "replay_page_path",
    "replay_socket_path",
    "seat_query",
    "watch_global",
]

_HTTP_TIMEOUT = 5.0
_REFUSAL_WAIT = 2.0
_STATE_SECONDS = 0.25
"""Minimum time between two states of the public viewer stream that are parsed."""
_POLICY_VIOLATION = 1008
"""The close code that refuses a caller."""
_STATE_BYTES = 256 * 1024
"""Maximum size of a state that is parsed, which takes some milliseconds; the parser cannot be interrupted."""
_STREAM_BYTES, _STREAM_MESSAGES = 64 * 1024 * 1024, 10_000
"""What is read of the public viewer stream in a second, at most."""


@dataclass(frozen=True)
class Dialect:
    """Which generation of routes a game speaks: `/client/…` (since 0.1.26) or `/clients/…` (before)."""

    prefix: str

    def page(self, name: str, query: str = "") -> str:
        """Path of a page: player, global, admin or replay."""
        return f"/{self.prefix}/{name}" + (f"?{query}" if query else "")


CURRENT = Dialect("client")
OLDER = Dialect("clients")


@dataclass(frozen=True)
class ProbeResult:
    """The result of one check."""

    probe: str
    ok: bool
    detail: str = ""
    reached: bool = True
    """Whether there was an answer to judge; if not, the connection may have failed rather than the game."""
    thrown_out: bool = False
    """Whether the game let the caller in, and closed the connection without a message."""


def seat_query(slot: int, token: str) -> str:
    """Return the query string that identifies a slot's owner."""
    return urlencode({"slot": slot, "token": token})


def load_libraries() -> None:
    """Import the libraries of the checks and the record early: this takes as long as a small game takes to start."""
    import importlib.metadata
    import platform

    from ..web import connect_to_game

    _ = importlib.metadata, connect_to_game
    # It reads the interpreter's file and starts a program, and remembers what it has found
    platform.platform()


async def get_page(address: str, path: str, *, timeout: float = _HTTP_TIMEOUT) -> http_requests.PageAnswer:
    """Return what a plain `GET` answers, not following redirects.

    Raises:
        OSError: Nothing answers, or the answer is not HTTP.
        TimeoutError: No answer in time.
    """
    try:
        with anyio.fail_after(timeout):
            return await http_requests.get_page(address, path)
    except TimeoutError as error:
        raise TimeoutError(f"no answer within {timeout:g} s") from error
    except http_requests.NotHttpError as error:
        raise OSError(str(error)) from error


async def get_status(address: str, path: str, *, timeout: float = _HTTP_TIMEOUT) -> int:
    """Return the status of a plain `GET`; raises as `get_page` does."""
    return (await get_page(address, path, timeout=timeout)).status


async def detect_dialect(address: str, page: str, query: str = "") -> tuple[Dialect, http_requests.PageAnswer | str]:
    """Return the route prefix that a game answers on, and what its page answers (or the error in words)."""
    seen: http_requests.PageAnswer | str = ""
    for dialect in (CURRENT, OLDER):
        try:
            answer = await get_page(address, dialect.page(page, query))
        except (OSError, TimeoutError) as error:
            return dialect, str(error)
        if answer.status != 404:
            return dialect, answer
        seen = seen or answer
    return CURRENT, seen


async def probe_page(
    address: str, page: str, query: str = "", *, redirects: bool = False, content: bool = False
) -> tuple[Dialect, ProbeResult]:
    """Check that a browser page is served.

    Args:
        address: `host:port`.
        page: player, global or replay.
        query: Query string, if the page needs one.
        redirects: Whether to accept a 3xx status, as for replays.
        content: Whether the page must not be empty. An episode can be played without its pages, but not be shown.
    """
    dialect, seen = await detect_dialect(address, page, query)
    return dialect, page_result(page, f"GET {dialect.page(page)}", seen, redirects=redirects, content=content)


def page_result(
    page: str, request: str, seen: http_requests.PageAnswer | str, *, redirects: bool = False, content: bool = False
) -> ProbeResult:
    """Judge what the address of a page answered, for the same arguments as `probe_page`; `seen` may be an error."""
    name = f"{page}_page"
    if isinstance(seen, str):
        return ProbeResult(name, False, f"{request} did not answer: {seen}", reached=False)
    served, elsewhere = 200 <= seen.status < 300, redirects and 300 <= seen.status < 400
    empty = served and content and seen.empty
    said = f"{request} answered HTTP {seen.status}" + (" and an empty page" if empty else "")
    return ProbeResult(name, elsewhere or (served and not empty), said)


async def probe_refusal(address: str, slot: int | str, token: str, *, why: str) -> ProbeResult:
    """Check that `/player` refuses a caller it must refuse.

    The game may refuse the handshake with 401 or 403, fail it without a status, or close within two seconds without a
    message. Another status, a message, or an open connection is a violation.
    """
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

    from ..web.game_socket import connect_to_game, receive

    target = f"/player?{urlencode({'slot': slot, 'token': token})}"
    name = f"refuses_{why}"
    try:
        async with connect_to_game(address, target, open_timeout=_HTTP_TIMEOUT, close_timeout=0.5) as socket:
            try:
                with anyio.fail_after(_REFUSAL_WAIT):
                    await receive(socket)
            except TimeoutError:
                return ProbeResult(
                    name, False, f"/player stayed open for {_REFUSAL_WAIT:g} s with {why.replace('_', ' ')}"
                )
            except ConnectionClosed:
                return ProbeResult(name, True, "closed without a message")
            return ProbeResult(name, False, f"/player sent a message to {why.replace('_', ' ')}")
    except InvalidStatus as error:
        status = error.response.status_code
        right = status in (401, 403)
        return ProbeResult(
            name,
            right,
            f"/player refused the handshake with HTTP {status}" + ("" if right else "; it must be 401 or 403"),
        )
    except ConnectionRefusedError:
        return ProbeResult(name, False, "nothing listens where /player was", reached=False)
    except (InvalidHandshake, OSError, EOFError, TimeoutError) as error:
        return ProbeResult(name, True, f"handshake refused ({type(error).__name__})", reached=False)


async def probe_seat(address: str, slot: int, token: str, *, wait: float = _REFUSAL_WAIT) -> ProbeResult:
    """Check that `/player` lets a slot's owner in, as it must at any time while the episode runs.

    Only for a vacant seat, because this takes it for a moment. Anything after the handshake is up to the game, except
    close code 1008, which refuses the caller. What a game does that closes the connection without a message depends on
    what else happened: then the result has `thrown_out`.

    Args:
        address: `host:port`.
        slot: The seat.
        token: The token of its owner.
        wait: Seconds after which a connection without a message counts as let in.
    """
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

    from ..web.game_socket import connect_to_game, failure_text, receive

    name = "lets_owner_in"
    try:
        target = f"/player?{seat_query(slot, token)}"
        async with connect_to_game(address, target, open_timeout=_HTTP_TIMEOUT, close_timeout=0.5) as socket:
            with anyio.move_on_after(wait):
                await receive(socket)
            return ProbeResult(name, True, "let in")
    except ConnectionClosed as error:
        refused = error.rcvd is not None and error.rcvd.code == _POLICY_VIOLATION
        if refused:
            return ProbeResult(name, False, f"/player refuses player {slot}, whose token is right, with code 1008")
        how = f"with code {error.rcvd.code}" if error.rcvd is not None else "without a close frame"
        said = f"/player closes the connection of player {slot}, whose token is right, {how}, without a message"
        return ProbeResult(name, True, said, thrown_out=True)
    except InvalidStatus as error:
        said = f"HTTP {error.response.status_code}"
        return ProbeResult(name, False, f"/player refuses player {slot}, whose token is right, with {said}")
    except TimeoutError:
        return ProbeResult(name, False, f"/player leaves player {slot}, whose token is right, without an answer")
    except (InvalidHandshake, OSError, EOFError) as error:
        return ProbeResult(name, False, f"/player could not be reached: {failure_text(error)}", reached=False)


async def first_message(address: str, path: str, *, timeout: float, limited: bool = True) -> ProbeResult:
    """Check that a viewer socket sends a non-empty message within `timeout` seconds.

    Args:
        address: `host:port`.
        path: Path of the socket, with its query.
        timeout: Seconds.
        limited: Whether the message may have at most `MESSAGE_LIMIT` bytes, as that of a running game.
    """
    from websockets.exceptions import WebSocketException

    from ..web.game_socket import MESSAGE_LIMIT, connect_to_game, failure_text, receive

    route = path.split("?")[0]
    name = route.strip("/") + "_message"
    try:
        with anyio.fail_after(timeout):
            async with connect_to_game(address, path, open_timeout=timeout, close_timeout=0.5) as socket:
                size = await receive(socket)
    except TimeoutError:
        return ProbeResult(name, False, f"{route} sent no message within {timeout:g} s")
    except (WebSocketException, OSError, EOFError) as error:
        return ProbeResult(name, False, f"{route} could not be read: {failure_text(error)}", reached=False)
    if size is None:
        long = f"a message of more than {MESSAGE_LIMIT} bytes"
        return ProbeResult(name, not limited, f"{route} sent {long}" if limited else long)
    return ProbeResult(name, size > 0, f"{size} bytes" if size else f"{route} sent an empty message")


async def watch_global(
    address: str, on_state: Callable[[dict[str, Any]], None], on_excess: Callable[[str], None]
) -> None:
    """Read the public viewer stream until it ends, and pass on its JSON objects, four a second at most.

    Messages in between are dropped unparsed, so that a fast game costs little, and so are long ones. Any failure just
    ends the stream, and so does a game that sends too much: it is a convenience for viewers, not a check.

    Args:
        address: `host:port`.
        on_state: Receives the states.
        on_excess: Receives in words what the game sends too much of, once for each kind.
    """
    from websockets.exceptions import ConnectionClosed, WebSocketException

    from ..web.game_socket import MESSAGE_LIMIT, connect_to_game, is_too_long
    from ..web.paced_websockets import PacedClient

    long = False
    begun = latest = 0.0
    size = count = 0
    socket: ClientConnection | None = None
    try:
        async with connect_to_game(address, "/global", open_timeout=10, close_timeout=0.5) as socket:
            while True:
                message = await socket.recv(decode=False)
                now = anyio.current_time()
                if now - begun >= 1.0:
                    begun, size, count = now, 0, 0
                size, count = size + len(message), count + 1
                if size > _STREAM_BYTES or count > _STREAM_MESSAGES:
                    sent = f"{_STREAM_MESSAGES} messages" if count > _STREAM_MESSAGES else f"{_STREAM_BYTES} bytes"
                    on_excess(f"more than {sent} a second")
                    return
                if now - latest < _STATE_SECONDS:
                    continue
                latest = now
                if len(message) > _STATE_BYTES:
                    if not long:
                        long = True
                        on_excess(f"a state of {len(message)} bytes, and at most {_STATE_BYTES} are read")
                    continue
                try:
                    state = json.loads(message)
                except (ValueError, RecursionError):
                    continue
                if isinstance(state, dict):
                    on_state(state)  # pyright: ignore[reportUnknownArgumentType]
    except ConnectionClosed as error:
        if is_too_long(error):
            on_excess(f"a message of more than {MESSAGE_LIMIT} bytes")
        elif isinstance(socket, PacedClient) and socket.flooded:
            on_excess("pings without a pause")
    except (WebSocketException, OSError, EOFError, TimeoutError):
        return


def replay_page_path(dialect: Dialect, uri: str) -> str:
    """Path of the replay page; the older dialect needs the replay's address in it."""
    return dialect.page("replay", f"uri={quote(uri, safe='')}" if dialect is OLDER else "")


def replay_socket_path(dialect: Dialect, uri: str) -> str:
    """Path of the replay's websocket; the older dialect needs the replay's address in it."""
    return "/replay" + (f"?uri={quote(uri, safe='')}" if dialect is OLDER else "")


async def probe_contract(address: str, tokens: Sequence[str]) -> list[ProbeResult]:
    """Make the checks of every episode concurrently: the first slot's page, the viewer's page, one wrong token."""
    results: list[ProbeResult] = []

    async def player() -> None:
        results.append((await probe_page(address, "player", seat_query(0, tokens[0])))[1])

    async def viewer() -> None:
        results.append((await probe_page(address, "global"))[1])

    async def wrong_token() -> None:
        results.append(await probe_refusal(address, 0, "bad", why="a_wrong_token"))

    async with anyio.create_task_group() as group:
        if tokens:
            group.start_soon(player)
            group.start_soon(wrong_token)
        group.start_soon(viewer)
    return results
