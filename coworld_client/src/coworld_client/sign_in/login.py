"""Sign in with a browser, a pasted code or an existing token, and act as a player.

Nothing here prints or prompts: all interaction goes through callbacks.
"""

from __future__ import annotations

import contextlib
import hmac
import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlsplit

import anyio
import anyio.to_thread
from anyio.abc import SocketAttribute

from coworld_core.errors import UsageError, unwrapped
from coworld_core.hints import Hint
from coworld_core.loopback import is_loopback

from ..errors import ApiShapeError, ApiStatusError, NotAuthenticated, NotLoggedIn
from .credentials import CredentialStore, PlayerSession, Token, normalise_server

if TYPE_CHECKING:
    from anyio.abc import SocketStream
    from httpx2 import AsyncBaseTransport

    from coworld_core.api import Whoami

    from ..client import CoworldClient

__all__ = [
    "SignInTimeout",
    "adopt_token",
    "exchange_code",
    "sign_in",
    "sign_in_url",
    "signed_in",
    "use_player",
    "web_origin",
]

_CODE_HOSTS = ("softmax.com", ".softmax.com", ".softmax-research.net", "localhost", "127.0.0.1", "::1")
"""Hosts that a sign-in code may be sent to; a leading dot matches subdomains."""
_EXCHANGE_SECONDS = 10.0
_DEADLINE = 300.0
_ENOUGH = timedelta(minutes=5)
"""A session with less time left than this is renewed, so that it does not end in the middle of a task."""


class SignInTimeout(NotLoggedIn):
    """Nobody signed in before the deadline."""

    default_code = "sign_in_timeout"


def web_origin(server: str) -> str:
    """The base URL of a server's web pages: its address without a trailing `/api` or `/api/observatory`."""
    return re.sub(r"/api(/observatory)?$", "", normalise_server(server))


def sign_in_url(server: str, callback: str | None = None, *, state: str | None = None) -> str:
    """The URL of the page where a person signs in.

    The page then shows a code, or redirects the browser to `callback` with the code.

    Args:
        server: The server.
        callback: Address on this machine to redirect to; when None, the code is only shown.
        state: The state that the callback must carry.
    """
    url = f"{web_origin(server)}/cli-auth"
    if callback is None:
        return url
    query = f"callback={quote(callback, safe='')}"
    return f"{url}?{query}" + (f"&state={quote(state, safe='')}" if state else "")


async def exchange_code(
    server: str,
    code: str,
    *,
    trusted_hosts: Collection[str] = (),
    timeout: float = _EXCHANGE_SECONDS,
    transport: AsyncBaseTransport | None = None,
) -> Token:
    """Exchange a single-use code for a token.

    Args:
        server: The server that issued the code.
        code: The code.
        trusted_hosts: Hosts that codes may be sent to, besides Softmax's own and this machine.
        timeout: Seconds for the whole exchange.
        transport: Carries the request; the network by default.

    Raises:
        UsageError: The code is malformed, or the server is not trusted with codes (`code_host`).
        ApiError: The server refused, cannot be reached, or gave an invalid answer; the message says what to do.
    """
    from coworld_core.api import SignInCodeBody

    from ..client import CoworldClient

    server = normalise_server(server)
    host = _code_host(server, trusted_hosts)
    code = code.strip()
    if not re.fullmatch(r"[\x21-\x7e]{1,2048}", code):
        raise UsageError("This is not a sign-in code.", code="bad_code", hint="Copy it again, without spaces.")
    body = SignInCodeBody(code=code).to_wire()
    async with CoworldClient(server, timeout=timeout, max_retries=0, transport=transport) as api:
        try:
            reply = await api.connection.call("POST", "/credentials/auth-codes/exchange", json=body)
        except ApiStatusError as error:
            raise _exchange_refused(host, error) from None
    try:
        return Token(reply.json()["token"])
    except (LookupError, TypeError, UsageError, ApiShapeError):
        # Omit the cause: what came in place of a token may still be a secret
        raise ApiShapeError(
            f"{host} answered the code with something that contains no token.",
            code="sign_in_shape",
            hint="Check the server: it is the API's address, not that of its web pages.",
        ) from None


def _code_host(server: str, trusted: Collection[str]) -> str:
    parts = urlsplit(server)
    host = parts.hostname or ""
    here = is_loopback(host)
    known = any(host == entry or (entry.startswith(".") and host.endswith(entry)) for entry in (*_CODE_HOSTS, *trusted))
    if not known:
        raise UsageError(
            f"Sign-in codes are not sent to {host}.",
            code="code_host",
            hint=Hint("ask_for_token", "Get a token from whoever runs it, and keep it with adopt_token."),
            context={"host": host},
        )
    if parts.scheme != "https" and not here:
        raise UsageError(
            f"Sign-in codes are not sent to {host} without encryption.", code="code_host", hint="Use an https address."
        )
    return host


def _exchange_refused(host: str, error: ApiStatusError) -> ApiStatusError:
    status, detail = error.status, error.detail
    if 300 <= status < 400:
        said = f"{host} sends elsewhere ({status}): this is the address of web pages, not of the API."
        hint = "Add /api to the server's address."
    elif status == 410:
        said, hint = f"{host} says that this code has been used or has expired.", "Get a new one and sign in with it."
    elif status == 400:
        said, hint = f"{host} says that this is not a sign-in code.", "Copy the whole code, and nothing else."
    else:
        words = f": {detail}" if isinstance(detail, str) else ""
        said, hint = f"{host} answered {status} to the sign-in code{words[:300]}.", None
    return type(error)(said, status=status, detail=detail, request_id=error.request_id, hint=hint)


# --- with a browser -----------------------------------------------------------------------------------------------


async def sign_in(
    server: str,
    *,
    show: Callable[[str], Awaitable[object]],
    paste: Callable[[], Awaitable[str | None]] | None = None,
    timeout: float = _DEADLINE,
    trusted_hosts: Collection[str] = (),
    transport: AsyncBaseTransport | None = None,
) -> Token:
    """Have a person sign in with a browser, and exchange the code for a token. Nothing is saved.

    The browser is redirected to a temporary port on this machine, which serves one path, requires the state of this
    sign-in, and accepts one code.

    Args:
        server: The server to sign in to.
        show: Called with the URL of the sign-in page; opens it, or shows it to the person.
        paste: Waits for a code that the person pastes instead, and returns None if there will be none. The first code
            wins, whether pasted or from the browser.
        timeout: Seconds that the person has.
        trusted_hosts: As for `exchange_code`.
        transport: As for `exchange_code`.

    Raises:
        SignInTimeout: No code arrived in time.
        UsageError, ApiError: As for `exchange_code`.
    """
    _code_host(normalise_server(server), trusted_hosts)
    code: str | None = None

    async def pasted(scope: anyio.CancelScope) -> None:
        nonlocal code
        given = await paste() if paste is not None else None
        if given and given.strip() and code is None:
            code = given.strip()
            scope.cancel()

    with unwrapped():
        with anyio.move_on_after(timeout):
            async with callback_server() as callback, anyio.create_task_group() as group:

                async def returned() -> None:
                    nonlocal code
                    given = await callback.code()
                    if code is None:
                        code = given
                    group.cancel_scope.cancel()

                group.start_soon(returned)
                await show(sign_in_url(server, callback.url, state=callback.state))
                group.start_soon(pasted, group.cancel_scope)
    if code is None:
        raise SignInTimeout(
            f"Nobody signed in to {normalise_server(server)} within {timeout:g} s.",
            hint="Try again, or paste the code that the page shows.",
        )
    return await exchange_code(server, code, trusted_hosts=trusted_hosts, transport=transport)


class Callback:
    """The address that the browser is redirected to."""

    def __init__(self, port: int) -> None:
        self.state = secrets.token_urlsafe(24)
        """The state that each request must carry."""
        self.host = f"127.0.0.1:{port}"
        self.url = f"http://{self.host}/callback?state={self.state}"
        """The callback URL to give to `sign_in_url`."""
        self._given: str | None = None
        self._arrived = anyio.Event()

    async def code(self) -> str:
        """Wait until a browser brings the code, and return it."""
        await self._arrived.wait()
        assert self._given is not None
        return self._given

    def visit(self, method: str, target: str, headers: Collection[tuple[bytes, bytes]]) -> tuple[int, str]:
        """Handle one request; return the status and the text of the answer."""
        hosts = [value.decode("latin-1") for name, value in headers if name.lower() == b"host"]
        # DNS rebinding: another site could reach this port under a host name of its own and read the answer
        if hosts != [self.host]:
            return 403, "This request is not allowed."
        path, _, query = target.partition("?")
        if path != "/callback":
            return 404, "Not found."
        if method != "GET":
            return 405, "This is not a browser returning from signing in."
        # Some servers add their parameters after a second question mark
        fields = parse_qsl(query.replace("?", "&"), max_num_fields=20)
        states = {value for name, value in fields if name == "state"}
        codes = {value for name, value in fields if name == "code"}
        if len(states) != 1 or not hmac.compare_digest(states.pop().encode(), self.state.encode()):
            return 403, "This is not the sign-in that was started here. Start again from your terminal."
        if len(codes) != 1:
            return 400, "There is no sign-in code in this address. Start again from your terminal."
        if self._arrived.is_set():
            return 409, "A sign-in code was already received."
        self._given = codes.pop()
        self._arrived.set()
        return 200, "The code has arrived. Go back to your terminal; you may close this page."


@asynccontextmanager
async def callback_server() -> AsyncGenerator[Callback]:
    """Serve the callback on a free port of 127.0.0.1 while the context is open."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port: int = listener.extra(SocketAttribute.local_port)  # noqa: S610
    callback = Callback(port)

    async def handle(stream: SocketStream) -> None:
        # Drop clients that send nothing, or that do not speak HTTP
        async with stream:
            with contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.EndOfStream), anyio.move_on_after(10):
                await _answer(stream, callback)

    async with listener:
        with unwrapped():
            async with anyio.create_task_group() as group:
                group.start_soon(listener.serve, handle)
                yield callback
                group.cancel_scope.cancel()


async def _answer(stream: SocketStream, callback: Callback) -> None:
    import h11

    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=16_384)
    try:
        event = connection.next_event()
        while event is h11.NEED_DATA:
            connection.receive_data(await stream.receive(16_384))
            event = connection.next_event()
        if not isinstance(event, h11.Request):
            return
        method, target = event.method.decode("latin-1"), event.target.decode("latin-1")
        status, words = callback.visit(method, target, [(bytes(name), bytes(value)) for name, value in event.headers])
    except h11.RemoteProtocolError:
        return
    page = f"<!doctype html><meta charset=utf-8><title>Coworld</title><p>{words}</p>\n".encode()
    headers = [
        ("Content-Type", "text/html; charset=utf-8"),
        ("Content-Length", str(len(page))),
        ("Connection", "close"),
        ("Cache-Control", "no-store"),
        # The URL holds the code, so do not send it on as a referrer
        ("Referrer-Policy", "no-referrer"),
        ("Content-Security-Policy", "default-src 'none'"),
        ("X-Content-Type-Options", "nosniff"),
    ]
    await stream.send(
        (connection.send(h11.Response(status_code=status, headers=headers)) or b"")
        + (connection.send(h11.Data(data=page)) or b"")
        + (connection.send(h11.EndOfMessage()) or b"")
    )


# --- with a token -------------------------------------------------------------------------------------------------


async def signed_in(server: str) -> Whoami | None:
    """The account of the token stored on this machine; None without a token, or if the server does not know it.

    Args:
        server: The platform.

    Raises:
        ApiError: The platform refused for another reason, or cannot be reached.
    """
    from ..client import CoworldClient

    token = (await anyio.to_thread.run_sync(CredentialStore.from_environment().read, server)).token
    if token is None:
        return None
    async with CoworldClient(server, token=token) as api:
        try:
            known = await api.whoami()
        except NotAuthenticated:
            return None
    return None if known.subject_type.is_anonymous else known


async def adopt_token(api: CoworldClient, store: CredentialStore) -> Whoami:
    """Ask the server which account the client's token belongs to, and store the token if it is a user's.

    Args:
        api: A client with the token.
        store: The token store.

    Returns:
        The account.

    Raises:
        NotLoggedIn: The client has no token, or the server does not know it (`token_unknown`).
        UsageError: The token is a player's session.
        ApiError: The server refused or cannot be reached; nothing is stored.
    """
    token = api.connection.identity.token
    if token is None:
        raise NotLoggedIn("There is no token to store.", hint="Give one.")
    known = await api.whoami()
    if known.subject_type.is_anonymous:
        raise NotLoggedIn(
            f"{api.server} does not know this token.",
            code="token_unknown",
            hint="Check that it is complete, and for this server.",
            context={"server": api.server},
        )
    await anyio.to_thread.run_sync(store.save_token, api.server, token)
    return known


# --- as a player --------------------------------------------------------------------------------------------------


async def use_player(
    api: CoworldClient, player_id: str, store: CredentialStore, *, now: datetime | None = None
) -> PlayerSession:
    """Act as one of your players from now on.

    A stored session with more than five minutes left is reused. The server is asked in any case whether you still own
    the player.

    Args:
        api: A client with the user's own token.
        player_id: `ply_<uuid>`, or the player's name.
        store: The store for sessions.
        now: The current time; read from the clock by default.

    Raises:
        UsageError: It is not one of your players (`player_unknown`), or it is disabled (`player_disabled`).
        NotFound: You have no player of that name.
        ApiError: The server refused or cannot be reached.
        EnvironmentFault: The session cannot be stored.
    """
    player_id = await api.players.id_of(player_id)
    owned = await api.players.list()
    player = next((player for player in owned if player.id == player_id), None)
    if player is None:
        names = ", ".join(f"{entry.id} ({entry.name})" for entry in owned[:8])
        raise UsageError(
            f"{player_id} is not one of your players at {api.server}.",
            code="player_unknown",
            hint=f"Yours are: {names}." if names else Hint("create_player", "Create one with api.players.create."),
            context={"player_id": player_id},
        )
    if player.disabled_at is not None:
        raise UsageError(f"The player {player_id} is disabled.", code="player_disabled", hint="Use another one.")
    known = await anyio.to_thread.run_sync(store.read, api.server)
    session = known.sessions.get(player_id)
    if session is None or session.good_for(now) <= _ENOUGH:
        minted = await api.players.login(player_id)
        if not minted.token or minted.expires_at is None:
            raise ApiShapeError(f"{api.server} started a session for {player_id} without a token or an expiry time.")
        session = PlayerSession(player_id=player_id, token=Token(minted.token), expires_at=_aware(minted.expires_at))
    await anyio.to_thread.run_sync(store.save_session, api.server, session)
    return session


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
