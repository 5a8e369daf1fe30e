"""Calls the HTTP API of a Docker engine.

This module does not use the `docker` package, because that package blocks: a call in a thread ends early only if its
connection is cut, and each followed container occupies a thread. Here every call is an ordinary cancellable await, and
following a hundred containers costs a hundred sockets.

It uses httpcore2, the layer below httpx2: an engine needs none of httpx2's additions, and importing them would double
the imports before anything can start. httpcore2 is imported at the first connection.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import quote, urlencode

import anyio

from coworld_core.docker_address import (
    Address,
    EngineGone,
    EngineRefused,
    agreed_version,
    bad_certificates,
    not_docker,
    silent,
    unreachable,
)
from coworld_core.errors import BackendUnavailable

if TYPE_CHECKING:
    import ssl

    from httpcore2 import AsyncConnectionPool, Response

__all__ = ["Answer", "Engine", "PathStat", "is_full", "path_segment"]

_KNOCK_SECONDS = 10.0
_CALL_SECONDS = 120.0
"""Long enough to create the first container of an image on a slow disk; short enough to notice a dead engine."""
_KEPT_CONNECTIONS = 8
_KEPT_SECONDS = 3.0
"""Long enough for consecutive calls. A proxy may close a connection that is idle for longer, and a call that fails for
that reason must not be repeated."""


@dataclass(frozen=True, kw_only=True)
class PathStat:
    """The kind of file at a path in a container."""

    directory: bool
    executable: bool


class Answer:
    """The answer to one call. Iterate over it for the body's bytes as they arrive."""

    def __init__(self, response: Response, pieces: AsyncIterator[bytes]) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers
        }
        """Headers by lower-case name."""
        self._pieces = pieces

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._pieces)

    async def read(self) -> bytes:
        """The whole body."""
        return b"".join([data async for data in self])

    async def objects(self) -> AsyncGenerator[dict[str, Any]]:
        """The JSON objects of a stream with one per line, as the engine reports progress."""
        rest = b""
        async for data in self:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if (said := _object(line)) is not None:
                    yield said
        if (said := _object(rest)) is not None:
            yield said


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value: object = json.loads(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


class Engine:
    """A connection to an engine, for any number of concurrent calls. `connect` opens one and checks that it answers.

    Args:
        address: The engine's address.
        api: The API version to use, e.g. `1.41`.
    """

    def __init__(self, address: Address, *, api: str = "") -> None:
        self.address = address
        self.api = api
        self.info: Mapping[str, Any] = {}
        """The engine's description of itself (`GET /info`)."""
        self._pool: AsyncConnectionPool | None = None

    async def __aenter__(self) -> Self:
        from httpcore2 import AsyncConnectionPool

        self._pool = AsyncConnectionPool(
            uds=self.address.socket,
            ssl_context=_tls(self.address),
            max_connections=None,
            max_keepalive_connections=_KEPT_CONNECTIONS,
            keepalive_expiry=_KEPT_SECONDS,
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        pool, self._pool = self._pool, None
        assert pool is not None
        with anyio.CancelScope(shield=True):
            await pool.aclose()

    @classmethod
    @asynccontextmanager
    async def connect(cls, address: Address, *, otherwise: Callable[[str], str] = str) -> AsyncGenerator[Self, None]:
        """Connect to an engine and ask for its version and capabilities.

        Args:
            address: The engine's address.
            otherwise: Makes a hint with an alternative out of one without.

        Raises:
            BackendUnavailable: The message says why: not installed, not running, not permitted, wrong address,
                silent, or too old.
        """
        async with AsyncExitStack() as stack:
            try:
                engine = await stack.enter_async_context(cls(address))
                await engine._introduce()
            except BackendUnavailable as error:
                error.hint = otherwise(error.hint or "")
                raise
            yield engine

    async def _introduce(self) -> None:
        self.api = await self._negotiated()
        try:
            info = await self.call("GET", "/info", timeout=30)
        except (EngineGone, EngineRefused) as error:
            raise BackendUnavailable(
                f"The Docker engine at {self.address} does not say what it is: {error.words}",
                code="docker_silent",
                hint="See its log, or restart it.",
            ) from error
        if not isinstance(info, dict):
            raise not_docker(self.address)
        self.info = cast("dict[str, Any]", info)

    @property
    def version(self) -> str:
        """The engine's own version."""
        return str(self.info.get("ServerVersion") or "")

    @property
    def platform(self) -> str:
        """The platform as os/architecture, named as in images."""
        machine = str(self.info.get("Architecture") or "")
        names = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
        return f"{self.info.get('OSType') or 'linux'}/{names.get(machine, machine)}"

    def security(self, option: str) -> bool:
        """Whether the engine runs with a security option: `rootless`, `selinux`, `userns`, ..."""
        return any(f"name={option}" in str(entry).split(",") for entry in self.info.get("SecurityOptions") or ())

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        timeout: float | None = _CALL_SECONDS,
    ) -> Any:
        """Make a call and wait for its answer.

        Args:
            method: HTTP method.
            path: Path below the API version, already quoted.
            query: Query parameters; booleans, lists and mappings are sent as JSON.
            body: The JSON body, if any.
            timeout: Seconds to wait for the answer; None: no limit.

        Returns:
            The answer's JSON, or None when it has no body.

        Raises:
            EngineRefused: The answer is an error.
            EngineGone: There is no answer, or it cannot be parsed.
        """
        try:
            with anyio.fail_after(timeout):
                async with self.stream(
                    method,
                    path,
                    query=query,
                    headers={"Content-Type": "application/json"} if body is not None else None,
                    content=json.dumps(body).encode() if body is not None else b"",
                ) as answer:
                    content = await answer.read()
        except TimeoutError as error:
            raise EngineGone(f"{method} {path}", f"no answer within {timeout:g} s") from error
        try:
            return json.loads(content) if content.strip() else None
        except ValueError as error:
            raise EngineGone(f"{method} {path}", "an answer that is not JSON") from error

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | AsyncIterable[bytes] = b"",
        silence: float | None = None,
    ) -> AsyncGenerator[Answer, None]:
        """Make a call and stream its answer, without a time limit.

        Args:
            method: HTTP method.
            path: Path below the API version, already quoted.
            query: As for `call`.
            headers: Headers.
            content: The body; an iterable is sent as it produces data.
            silence: Seconds to wait for the next byte; None: no limit.

        Raises:
            EngineRefused: The answer is an error.
            EngineGone: There is no answer, or it was cut off.
        """
        import httpcore2

        target = f"/v{self.api}{path}" if self.api else path
        if parameters := _flat(query):
            target += "?" + urlencode(parameters)
        try:
            async with self._exchange(method, target, headers, content, silence) as answer:
                if answer.status >= 400:
                    words = _words(await answer.read()) or f"status {answer.status}"
                    raise EngineRefused(f"{method} {path}", answer.status, words)
                yield answer
        except httpcore2.TimeoutException as error:
            raise EngineGone(f"{method} {path}", "it fell silent") from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise EngineGone(f"{method} {path}", str(error).rstrip(".") or "the connection broke off") from error

    @asynccontextmanager
    async def _exchange(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | None = None,
        content: bytes | AsyncIterable[bytes] = b"",
        silence: float | None = None,
    ) -> AsyncGenerator[Answer, None]:
        assert self._pool is not None, "an engine is used within its `async with`"
        base = "http://docker" if self.address.socket is not None else self.address.url
        async with self._pool.stream(
            method,
            base + target,
            headers=[(name.encode(), value.encode()) for name, value in (headers or {}).items()],
            content=content if isinstance(content, bytes) else aiter(content),
            extensions={"timeout": {"connect": _KNOCK_SECONDS, "read": silence}},
        ) as response:
            pieces = response.aiter_stream()
            # Close it when a reader leaves early, instead of when it is garbage-collected
            async with aclosing(pieces):
                yield Answer(response, pieces)

    async def stat(self, container: str, path: str) -> PathStat | None:
        """Look up the file at a path in a container; None if there is none. A link counts as executable.

        Raises:
            EngineRefused: There is no such container.
            EngineGone: There is no answer.
        """
        try:
            async with self.stream("HEAD", f"/containers/{container}/archive", query={"path": path}) as answer:
                encoded = answer.headers.get("x-docker-container-path-stat", "")
        except EngineRefused as error:
            if error.status == 404:
                return None
            raise
        mode = int(json.loads(base64.b64decode(encoded))["mode"]) if encoded else 0
        # Go's file mode: type bits at the top, permissions at the bottom
        return PathStat(directory=bool(mode & 1 << 31), executable=bool(mode & (1 << 27 | 0o111)))

    async def knock(self) -> str:
        """The newest API version the engine offers; empty if it names none."""
        async with self._exchange("GET", "/_ping") as answer:
            return answer.headers.get("api-version", "")

    async def _negotiated(self) -> str:
        import httpcore2

        try:
            with anyio.fail_after(_KNOCK_SECONDS):
                return agreed_version(self.address, await self.knock())
        except (TimeoutError, httpcore2.ReadTimeout) as error:
            raise silent(self.address) from error
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
            raise unreachable(self.address, error) from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise not_docker(self.address, error) from error


def _tls(address: Address) -> ssl.SSLContext | None:
    directory = address.certificates
    if directory is None:
        return None
    import ssl

    authority = directory / "ca.pem"
    try:
        context = ssl.create_default_context(cafile=authority if authority.is_file() else None)
        if (directory / "cert.pem").is_file():
            context.load_cert_chain(directory / "cert.pem", directory / "key.pem")
    except (OSError, ssl.SSLError) as error:
        raise bad_certificates(address, error) from error
    if not address.verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _flat(query: Mapping[str, Any] | None) -> dict[str, str]:
    """Query parameters as the engine expects them: booleans, lists and mappings as JSON."""
    return {
        key: json.dumps(value) if isinstance(value, bool | list | dict) else str(value)
        for key, value in (query or {}).items()
        if value is not None
    }


def _words(content: bytes) -> str:
    """The engine's message in the body of an error."""
    try:
        return str(json.loads(content)["message"]).strip()
    except (ValueError, KeyError, TypeError):
        return content.decode("utf-8", "replace").strip()[:500]


def is_full(words: str) -> bool:
    """Whether the message reports a full disk."""
    words = words.lower()
    return "no space left on device" in words or "disk quota exceeded" in words


def path_segment(text: str) -> str:
    """Text as one segment of a path."""
    return quote(text, safe="")
