"""A connection to an API server: signs in, makes calls, streams answers, and records whether the server answers."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio

from coworld_core.errors import BackendError
from coworld_core.hints import Hint
from coworld_core.retries import Backoff, Tries, retry_after, says_later

from ._cluster_login import sign_in

__all__ = ["CALL_SECONDS", "CREDENTIALS", "ApiServer", "ClusterGone", "ClusterRefused"]

CALL_SECONDS = 30.0
CREDENTIALS = ["BearerToken"]
"""The library's name for credentials of any kind."""
_BACKOFF = Backoff(base=0.15, cap=4.0)
_ERROR_BYTES = 64 * 1024


class ClusterRefused(BackendError):
    """The API server answered a call with an error.

    Attributes:
        status: The HTTP status: 403 forbidden or over quota, 404 not found, 409 already exists, ...
        reason: The server's own name for it: `Forbidden`, `AlreadyExists`, ...
        server_message: The server's message.
        retry_after: Seconds to wait, if the server asks for that.
    """

    default_code = "cluster_refused"

    def __init__(
        self, call: str, status: int, reason: str, server_message: str, *, retry_after: float | None = None
    ) -> None:
        super().__init__(f"The cluster refused: {server_message}", context={"call": call, "status": status})
        self.status = status
        self.reason = reason
        self.server_message = server_message
        self.retry_after = retry_after


class ClusterGone(BackendError):
    """The API server did not answer, or stopped answering."""

    default_code = "cluster_lost"

    def __init__(self, call: str, server: str, reason: str) -> None:
        super().__init__(
            f"The cluster's API server {server} does not answer ({call}: {reason}).",
            hint=Hint("other_context", "See whether it can be reached: kubectl version. Or pass another context."),
            context={"call": call, "server": server},
        )
        self.server_message = reason


def _broken() -> tuple[type[Exception], ...]:
    import aiohttp

    return (aiohttp.ClientError, OSError, TimeoutError)


class ApiServer:
    """A connection to an API server; any number of calls may run at once.

    Args:
        context: A context of the kubeconfig; None: the current one.
        namespace: The namespace of all objects; None: the context's own, else `default`.
        kubeconfig: The file; None: `KUBECONFIG`, `~/.kube/config`, or the pod's own service account.
    """

    def __init__(self, *, context: str | None, namespace: str | None, kubeconfig: Path | None) -> None:
        self._wanted = (context, namespace, kubeconfig)
        self._client: Any = None
        self.context = context or ""
        self.namespace = namespace or "default"
        self.server = ""
        self.version = ""
        """The server's version, e.g. `v1.31.2`."""
        self.calls = 0
        """Requests made so far."""
        self._silent_since: float | None = None

    async def sign_in(self) -> None:
        """Sign in, or renew the credentials.

        Raises:
            BackendUnavailable: There are no credentials to sign in with.
        """
        login = await sign_in(*self._wanted)
        previous, self._client = self._client, login.client
        self.server, self.context, self.namespace = login.server, login.context, login.namespace
        if previous is not None:
            await previous.close()

    async def close(self) -> None:
        """Close all connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def is_at_least(self, major: int, minor: int) -> bool:
        """Whether the server has at least this version; True if it does not say."""
        match = re.match(r"v?(\d+)\.(\d+)", self.version)
        return match is None or (int(match[1]), int(match[2])) >= (major, minor)

    # --- availability

    @property
    def silent_since(self) -> float | None:
        """Since when the server has not answered, on the event loop's clock; None while it does."""
        return self._silent_since

    @contextmanager
    def reaching(self, call: str, seconds: float | None, *, counts: bool = True) -> Generator[None]:
        """Wait for the server, and record whether it answers.

        Args:
            call: The call in words.
            seconds: The most seconds to wait; None: forever.
            counts: Whether silence counts as the API server's, rather than that of a server behind it.

        Raises:
            ClusterGone: It does not answer.
        """
        try:
            with anyio.fail_after(seconds):
                yield
        except ClusterRefused:
            self._silent_since = None
            raise
        except _broken() as error:
            if counts and self._silent_since is None:
                self._silent_since = anyio.current_time()
            late = isinstance(error, TimeoutError) and seconds is not None
            why = f"no answer within {seconds:g} s" if late else str(error) or type(error).__name__
            raise ClusterGone(call, self.server, why) from error
        self._silent_since = None

    # --- calls

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        retry_timeout: float = 60.0,
        timeout: float = CALL_SECONDS,
    ) -> Any:
        """Make a call and return its answer, retrying while the server is busy, restarting or unreachable.

        Args:
            method: The HTTP method.
            path: Path on the server.
            query: Parameters; None values are omitted.
            body: Sent as JSON.
            content_type: The media type of the body.
            retry_timeout: Seconds in which a call that failed for the server's own reasons is retried.
            timeout: Seconds for one attempt.

        Returns:
            The answer's JSON; text if it is not JSON.

        Raises:
            ClusterRefused: The server answered with an error.
            ClusterGone: It did not answer.
        """
        tries = Tries(_BACKOFF, retry_timeout=retry_timeout, clock=anyio.current_time)
        renewed = False
        while True:
            try:
                return await self._once(method, path, query, body, content_type, timeout)
            except ClusterRefused as error:
                if error.status == 401 and not renewed:
                    # The token of a sign-in program has expired
                    renewed = True
                    await self.sign_in()
                    continue
                pause = tries.again(error.retry_after) if says_later(error.status) else None
                if pause is None:
                    raise
            except ClusterGone:
                pause = tries.again()
                if pause is None:
                    raise
            await anyio.sleep(pause)

    async def _once(
        self, method: str, path: str, query: Mapping[str, Any] | None, body: Any, content_type: str, timeout: float
    ) -> Any:
        with self.reaching(f"{method} {path}", timeout):
            response = await self._send(method, path, query, body, content_type)
            data: bytes = await response.read()
        try:
            return json.loads(data)
        except ValueError:
            return data.decode("utf-8", "replace")

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Any:
        """Send a request; returns the successful response, which the caller must read or close."""
        call = f"{method} {path}"
        client = self.connected(call)
        response = await client.call_api(
            path,
            method,
            query_params=[(key, value) for key, value in (query or {}).items() if value is not None],
            header_params={"Accept": "application/json", "Content-Type": content_type},
            body=body,
            auth_settings=CREDENTIALS,
            _preload_content=False,
        )
        if response.status >= 400:
            async with response:
                raw: bytes = await response.content.read(_ERROR_BYTES)
            raise _refusal(call, response.status, raw, retry_after(response.headers))
        return response

    def connected(self, call: str) -> Any:
        """The library's client, for one more request.

        Raises:
            ClusterGone: The connection was closed.
        """
        if self._client is None:
            raise ClusterGone(call, self.server, "the connection was closed")
        self.calls += 1
        return self._client

    # --- streams

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, Any] | None = None, *, silence: float | None = None
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Stream the bytes of an answer as they arrive.

        Args:
            path: Path on the server.
            query: Parameters.
            silence: Seconds without a byte after which the stream counts as broken; None: no limit.

        Raises:
            ClusterRefused: The server answered with an error.
            ClusterGone: It did not answer, or the stream broke; a stream that ends properly just ends.
        """
        call = f"GET {path}"
        with self.reaching(call, CALL_SECONDS):
            response = await self._send("GET", path, query)

        async def chunks() -> AsyncGenerator[bytes]:
            while True:
                with self.reaching(call, silence, counts=False):
                    data: bytes = await response.content.readany()
                if not data:
                    return
                yield data

        try:
            async with contextlib.aclosing(chunks()) as pieces:
                yield pieces
        finally:
            # Close without reading on: a followed log may have no end, and closing TLS properly would wait for an
            # answer
            connection = response.connection
            if connection is not None and connection.transport is not None:
                connection.transport.abort()
            response.close()


def _refusal(call: str, status: int, data: bytes, after: float | None) -> ClusterRefused:
    try:
        answer = json.loads(data)
        reason, words = str(answer.get("reason") or ""), str(answer.get("message") or status)
    except (ValueError, AttributeError):
        reason, words = "", data.decode("utf-8", "replace").strip()[:1000] or f"HTTP {status}"
    return ClusterRefused(call, status, reason, words, retry_after=after)
