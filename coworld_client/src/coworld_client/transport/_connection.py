"""One connection to a platform: addresses, identity, retries, redirects and errors. Resources are built on it."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ssl import SSLContext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

import anyio
import httpx2

from coworld_core.errors import UsageError
from coworld_core.retries import Tries
from coworld_core.rules.seat_wire import CA_ENV, CLIENT_CERT_ENV
from coworld_core.text.urls import shown_url

from .._version import __version__
from ..errors import ApiConnectionError, ApiError, ApiShapeError
from ..sign_in.credentials import Token, normalise_server
from ..tls import tls_context
from ._auth import Identity, check_elsewhere, checked_headers, mint_key, origin_of
from ._redact import watch_loggers
from ._replies import Reply, close, late, read_body, refusal, unreachable
from ._retry import Backoff, worth_retrying
from ._tracing import Tracing

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["MAX_BODY", "PREFIX", "TIMEOUT", "Connection", "Content", "Params", "http_client", "path"]

_T = TypeVar("_T")

PREFIX = "/observatory"
"""Prefix of every API path."""

MAX_BODY = 64 * 1024 * 1024
"""Largest answer held in memory, in bytes; larger ones must be streamed."""

_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
TIMEOUT = 30.0
"""Default seconds for one attempt of an ordinary call."""
_CLOSE_SECONDS = 5.0

Params = Mapping[str, str | int | float | bool | Iterable[str] | None]
"""Query parameters: None is omitted, a list repeats the parameter, booleans become `true` and `false`."""

Content = bytes | Callable[[], AsyncIterator[bytes]]
"""A request's body: bytes, or a function that returns a new stream for each attempt."""

logger = logging.getLogger("coworld_client")


def path(template: str, *parts: str) -> str:
    """Fill ids into a path of the API: each `{}` takes one part, percent-encoded.

    Raises:
        UsageError: A part is empty, or would change the path: `.` or `..` (`bad_id`).
    """
    for part in parts:
        if not part or part in (".", ".."):
            raise UsageError(f"{part!r} is not an id.", code="bad_id")
    return template.format(*(quote(part, safe="") for part in parts))


def http_client(ssl: SSLContext | None = None, **options: Any) -> httpx2.AsyncClient:
    """Create an HTTP client that follows no redirects, with the proxies and certificate authorities of the environment.

    Args:
        ssl: Whom to trust, and as whom; None: as the environment says.
        options: Passed to `httpx2.AsyncClient`.

    Raises:
        UsageError: A file that the environment names for TLS cannot be used (`bad_certificate`).
        ApiConnectionError: The authorities cannot be read (`tls_failed`), or the proxy needs a library that is not
            installed (`proxy_unusable`).
    """
    if ssl is None and (os.environ.get(CA_ENV) or os.environ.get(CLIENT_CERT_ENV)):
        ssl = tls_context()
    try:
        return httpx2.AsyncClient(follow_redirects=False, verify=True if ssl is None else ssl, **options)
    except OSError as error:
        raise ApiConnectionError(
            f"The certificates of the authorities to trust cannot be read: {error.strerror or error}.",
            code="tls_failed",
            hint="Check the file that SSL_CERT_FILE names, and the directory that SSL_CERT_DIR names.",
            sent=False,
        ) from error
    except ImportError as error:
        raise ApiConnectionError(
            f"The proxy of the environment cannot be used: {error}",
            code="proxy_unusable",
            hint="Check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY.",
            sent=False,
        ) from error


class Connection:
    """A connection to one platform.

    Args:
        server: Address of the server, with or without a trailing `/observatory`.
        token: The token to send; anonymous when None.
        timeout: Seconds for one attempt of an ordinary call; for a stream, the longest silence.
        max_retries: How often to retry a call that may be repeated.
        transport: Carries the requests; the network by default.
        user_agent: Prepended to the client's own.
        elevated: Request team rights with every call.
        team: Act for this team of the user.
        backoff: Pauses between attempts.
        ssl: Whom to trust, and as whom; as the environment says by default.
        headers: More headers for this server.
        tracer_provider: Where spans of requests go.

    Raises:
        UsageError: The server is not an address, a player's session asks for team rights, or a header is none
            (`bad_header`).
    """

    def __init__(
        self,
        server: str,
        *,
        token: Token | None = None,
        timeout: float = TIMEOUT,
        max_retries: int = 2,
        transport: httpx2.AsyncBaseTransport | None = None,
        user_agent: str | None = None,
        elevated: bool = False,
        team: str | None = None,
        backoff: Backoff | None = None,
        ssl: SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        self.server = normalise_server(server)
        self.base = httpx2.URL(self.server.removesuffix(PREFIX) + PREFIX)
        self.origin = origin_of(self.base)
        self.identity = Identity(
            origin=self.origin, token=token, elevated=elevated, team=team, headers=checked_headers(headers or {})
        )
        self.ssl = ssl
        self._tracing = Tracing(tracer_provider)
        self.timeout = timeout
        self.max_retries = max_retries
        self.backoff = backoff or Backoff()
        ours = f"coworld-client/{__version__}"
        self.user_agent = f"{user_agent} {ours}" if user_agent else ours
        self._transport = transport
        self._http: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        if self._http is not None:
            raise UsageError("The client is open already.", code="client_open")
        watch_loggers()
        client = http_client(
            ssl=self.ssl,
            transport=self._transport,
            # Close idle connections before a server does: some do after five seconds, and a request would be lost
            limits=httpx2.Limits(max_connections=64, max_keepalive_connections=32, keepalive_expiry=3),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )
        self._http = await client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        client, self._http = self._http, None
        if client is not None:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await client.aclose()

    @property
    def http(self) -> httpx2.AsyncClient:
        """The underlying HTTP client, without identity or retries.

        Raises:
            UsageError: The connection is not open (`client_closed`).
        """
        if self._http is None:
            raise UsageError(
                "The client is not open.", code="client_closed", hint="Use it inside `async with CoworldClient(...)`."
            )
        return self._http

    def url(self, target: str | httpx2.URL) -> httpx2.URL:
        """The absolute URL of an API path; an absolute URL is returned unchanged."""
        url = httpx2.URL(target)
        return url if url.is_absolute_url else self.base.copy_with(raw_path=self.base.raw_path + url.raw_path)

    async def call(
        self,
        method: str,
        target: str | httpx2.URL,
        *,
        params: Params | None = None,
        json: Any = None,
        content: Content | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        key: bool | str = False,
        limit: int = MAX_BODY,
        elsewhere: bool = False,
        max_retries: int | None = None,
    ) -> Reply:
        """Make a call and read the whole answer.

        Args:
            method: The HTTP method.
            target: A path of the API, or an absolute URL.
            params: Query parameters.
            json: Body as JSON.
            content: Body as bytes, or a function that returns a stream of them.
            headers: More headers.
            timeout: Seconds for each attempt; None means the client's timeout.
            key: Whether to send an idempotency key, which makes writes safe to retry; or the key itself.
            limit: Largest answer in bytes.
            elsewhere: Whether a redirect may lead to another host, which does not receive the token.
            max_retries: How often to retry; None means the client's setting.

        Raises:
            ApiStatusError: The server refused.
            ApiConnectionError: The server cannot be reached; `ApiTimeoutError` when it takes too long.
            ApiShapeError: The answer is too large.
        """
        seconds = self.timeout if timeout is None else timeout
        more = _headers(self.user_agent, json, headers, key)
        what = self._what(method, target)

        async def once() -> Reply:
            # A slow upload is not the server's delay, so it has no deadline here; reading the answer has one again
            with anyio.move_on_after(math.inf if callable(content) else seconds) as scope:
                response = await self._send(method, target, params, json, content, more, seconds, elsewhere=elsewhere)
                try:
                    with anyio.move_on_after(seconds) as reading:
                        body = await read_body(response, limit, what, self.origin)
                        return Reply(status=response.status_code, headers=response.headers, content=body, what=what)
                    if reading.cancelled_caught:
                        raise late(what, seconds, self.origin)
                finally:
                    await close(response)
            if scope.cancelled_caught:
                raise late(what, seconds, self.origin)
            raise AssertionError("unreachable")

        return await self._repeatedly(once, method, what, keyed="Idempotency-Key" in more, max_retries=max_retries)

    @asynccontextmanager
    async def open(
        self,
        method: str,
        target: str | httpx2.URL,
        *,
        params: Params | None = None,
        json: Any = None,
        content: Content | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        key: bool | str = False,
        elsewhere: bool = False,
        max_retries: int | None = None,
    ) -> AsyncGenerator[httpx2.Response]:
        """Make a call and yield its answer for streaming. Only opening it is retried.

        Arguments are those of `call`; `timeout` is the longest silence. An answer with status 304 is yielded too.

        Raises:
            ApiStatusError: The server refused.
            ApiConnectionError: The server cannot be reached, or the connection breaks off while the block reads.
        """
        seconds = self.timeout if timeout is None else timeout
        more = _headers(self.user_agent, json, headers, key)
        what = self._what(method, target)

        async def once() -> httpx2.Response:
            with anyio.move_on_after(math.inf if callable(content) else seconds) as scope:
                return await self._send(method, target, params, json, content, more, seconds, elsewhere=elsewhere)
            if scope.cancelled_caught:
                raise late(what, seconds, self.origin)
            raise AssertionError("unreachable")

        keyed = "Idempotency-Key" in more
        response = await self._repeatedly(once, method, what, keyed=keyed, max_retries=max_retries)
        try:
            yield response
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise unreachable(error, what, self.origin) from error
        finally:
            await close(response)

    def _what(self, method: str, target: str | httpx2.URL) -> str:
        url = self.url(target)
        own = origin_of(url) == self.origin
        return f"{method} {url.path.removeprefix(self.base.path) if own else shown_url(url, query=True)}"

    async def _send(
        self,
        method: str,
        target: str | httpx2.URL,
        params: Params | None,
        json: Any,
        content: Content | None,
        headers: Mapping[str, str],
        seconds: float,
        *,
        elsewhere: bool,
    ) -> httpx2.Response:
        """Make one attempt, following redirects; return the answer with its body unread if it is a success or 304."""
        url = self.url(target)
        if params:
            url = url.copy_merge_params(httpx2.QueryParams(_query(params)))
        if origin_of(url) != self.origin:
            check_elsewhere(url, own=self.origin, from_scheme=self.origin[0])
        what = self._what(method, target)
        for _ in range(_MAX_REDIRECTS + 1):
            response = await self._send_once(method, url, json, content, headers, seconds, what)
            if response.status_code in _REDIRECTS and "location" in response.headers and method in _SAFE:
                await close(response)
                url = self._redirected(url, response, what, elsewhere=elsewhere)
                continue
            if response.is_success or response.status_code == 304:
                return response
            try:
                raise await refusal(response, what, self.server, self.identity.secrets)
            finally:
                await close(response)
        raise ApiError(
            f"The server redirected {what} more than {_MAX_REDIRECTS} times.",
            code="redirect_refused",
            hint="Is the server's address right?",
        )

    async def _send_once(
        self,
        method: str,
        url: httpx2.URL,
        json: Any,
        content: Content | None,
        headers: Mapping[str, str],
        seconds: float,
        what: str,
    ) -> httpx2.Response:
        own = origin_of(url) == self.origin
        if not own:
            return await self._exchange(method, url, json, content, headers, seconds, what, own=False)
        with self._tracing.request(method, self.origin[1], self.origin[2]) as attempt:
            headers = {**headers, **attempt.headers}
            response = await self._exchange(method, url, json, content, headers, seconds, what, own=True)
            attempt.status = response.status_code
            return response

    async def _exchange(
        self,
        method: str,
        url: httpx2.URL,
        json: Any,
        content: Content | None,
        headers: Mapping[str, str],
        seconds: float,
        what: str,
        *,
        own: bool,
    ) -> httpx2.Response:
        sent = {name: value for name, value in headers.items() if own or name != "Idempotency-Key"}
        request = self.http.build_request(
            method,
            url,
            json=json,
            content=content() if callable(content) else content,
            headers={**sent, **self.identity.headers_for(url)},
            timeout=seconds,
        )
        try:
            response = await self.http.send(request, stream=True, auth=None)
        except (httpx2.TransportError, httpx2.InvalidURL, OSError) as error:
            raise unreachable(error, what, self.origin) from error
        logger.debug("%s %s: %d", method, shown_url(url, query=True), response.status_code)
        return response

    def _redirected(self, url: httpx2.URL, response: httpx2.Response, what: str, *, elsewhere: bool) -> httpx2.URL:
        try:
            target = url.join(response.headers["location"])
        except httpx2.InvalidURL:
            raise ApiShapeError(f"The server redirected {what} to no address.", code="redirect_refused") from None
        if origin_of(target) == origin_of(url):
            return target
        if not elsewhere:
            scheme, host, port = origin_of(target)
            raise ApiError(
                f"The server redirected {what} to {scheme}://{host}:{port}, which is another server.",
                code="redirect_refused",
                hint="If that is where the API is, name it as the server.",
                context={"status": response.status_code},
            )
        check_elsewhere(target, own=self.origin, from_scheme=url.scheme)
        return target

    async def _repeatedly(
        self,
        once: Callable[[], Awaitable[_T]],
        method: str,
        what: str,
        *,
        keyed: bool,
        max_retries: int | None,
    ) -> _T:
        allowed = self.max_retries if max_retries is None else max_retries
        tries = Tries(self.backoff, most=allowed + 1)
        while True:
            try:
                return await once()
            except ApiError as error:
                before = tries.failures
                pause = tries.again(error.retry_after) if worth_retrying(error, method, keyed=keyed) else None
                if pause is None:
                    if before:
                        error.add_note(f"Tried {before + 1} times.")
                    raise
                logger.info("%s: %s; trying again in %.1f s", what, error.code, pause)
            await anyio.sleep(pause)


def _headers(user_agent: str, json: Any, headers: Mapping[str, str] | None, key: bool | str) -> dict[str, str]:
    made = {"Accept": "application/json, */*;q=0.5", "User-Agent": user_agent}
    if json is not None:
        made["Content-Type"] = "application/json"
    if key:
        made["Idempotency-Key"] = mint_key() if key is True else key
    return {**made, **(headers or {})}


def _query(params: Params) -> list[tuple[str, str | int | float | bool | None]]:
    pairs: list[tuple[str, str | int | float | bool | None]] = []
    for name, value in params.items():
        match value:
            case None:
                continue
            case bool():
                pairs.append((name, "true" if value else "false"))
            case str() | int() | float():
                pairs.append((name, str(value)))
            case _:
                pairs.extend((name, item) for item in value)
    return pairs
