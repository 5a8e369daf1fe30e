"""Calls the HTTP API of a Docker engine, with httpx2.

This module does not use the `docker` package, because that package blocks: a call in a thread ends early only if its
connection is cut, and each followed container occupies a thread. Here every call is an ordinary cancellable await, and
following a hundred containers costs a hundred sockets. httpx2 is imported at the first connection.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import quote

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
from coworld_core.images import Platform
from coworld_core.operating_system import require_posix

if TYPE_CHECKING:
    import ssl

    from httpx2 import Response

__all__ = ["Engine", "PathStat", "is_full", "json_objects", "path_segment"]

_PROBE_SECONDS = 10.0
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
    target: str
    """Where it leads, in the container, if it is a link; otherwise empty."""


async def json_objects(pieces: AsyncIterable[bytes]) -> AsyncGenerator[dict[str, Any]]:
    """The JSON objects of a stream with one per line, as the engine reports progress."""
    rest = b""
    async for data in pieces:
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
        from httpx2 import AsyncHTTPTransport, Limits

        self.address = address
        self.api = api
        self.info: Mapping[str, Any] = {}
        """The engine's description of itself (`GET /info`)."""
        self._http = AsyncHTTPTransport(
            uds=address.socket,
            verify=_tls(address),
            limits=Limits(max_keepalive_connections=_KEPT_CONNECTIONS, keepalive_expiry=_KEPT_SECONDS),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        with anyio.CancelScope(shield=True):
            await self._http.aclose()

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
            EnvironmentFault: It is at a socket of a kind that this system lacks.
        """
        if address.socket is not None:
            require_posix()
        async with AsyncExitStack() as stack:
            try:
                engine = await stack.enter_async_context(cls(address))
                await engine._introduce()
            except BackendUnavailable as error:
                error.hint = otherwise(error.hint or "")
                raise
            yield engine

    async def _introduce(self) -> None:
        import httpx2

        try:
            with anyio.fail_after(_PROBE_SECONDS):
                async with self._request("GET", "/_ping") as answer:
                    offered = answer.headers.get("Api-Version", "")
        except TimeoutError as error:
            raise silent(self.address) from error
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise unreachable(self.address, error) from error
        except httpx2.TransportError as error:
            raise not_docker(self.address, error) from error
        self.api = agreed_version(self.address, offered)
        try:
            info = await self.call("GET", "/info", timeout=30)
        except (EngineGone, EngineRefused) as error:
            raise BackendUnavailable(
                f"The Docker engine at {self.address} does not say what it is: {error.server_message}",
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
        return str(Platform.parse(f"{self.info.get('OSType') or 'linux'}/{self.info.get('Architecture') or 'unknown'}"))

    def security(self, option: str) -> bool:
        """Whether the engine runs with a security option: `rootless`, `selinux`, `userns`, ..."""
        return any(f"name={option}" in str(entry).split(",") for entry in self.info.get("SecurityOptions") or ())

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        timeout: float | None = _CALL_SECONDS,
    ) -> Any:
        """Make a call and wait for its answer.

        Args:
            method: HTTP method.
            path: Path below the API version, already quoted.
            query: Query parameters; lists and mappings are sent as JSON.
            headers: Headers.
            body: The JSON body, if any.
            timeout: Seconds to wait for the answer; None: no limit.

        Returns:
            The answer's JSON, or None when it has no body.

        Raises:
            EngineRefused: The answer is an error.
            EngineGone: There is no answer, or it cannot be parsed.
        """
        # Not by httpx2, which refuses paths that are not Unicode
        sent = json.dumps(body).encode() if body is not None else b""
        typed = {"Content-Type": "application/json", **(headers or {})} if sent else headers
        try:
            with anyio.fail_after(timeout):
                async with self._answer(method, path, query=query, headers=typed, content=sent) as answer:
                    content = await answer.aread()
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
        content: bytes | AsyncIterable[bytes] | None = None,
    ) -> AsyncGenerator[AsyncGenerator[bytes]]:
        """Make a call and stream the body of its answer, without a time limit.

        Args:
            method: HTTP method.
            path: Path below the API version, already quoted.
            query: As for `call`.
            headers: Headers.
            content: The body; an iterable is sent as it produces data.

        Raises:
            EngineRefused: The answer is an error.
            EngineGone: There is no answer, or it was cut off.
        """
        async with (
            self._answer(method, path, query=query, headers=headers, content=content) as answer,
            # Close it when a reader leaves early, instead of when it is garbage-collected
            aclosing(answer.aiter_raw()) as pieces,
        ):
            yield pieces

    @asynccontextmanager
    async def _answer(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, **more: Any
    ) -> AsyncGenerator[Response]:
        """Send a request below the API version; errors are raised as those of an engine."""
        import httpx2

        call = f"{method} {path}"
        parameters = {
            key: json.dumps(value) if isinstance(value, list | dict) else value
            for key, value in (query or {}).items()
            if value is not None
        }
        try:
            async with self._request(method, f"/v{self.api}{path}", params=parameters, **more) as answer:
                if answer.is_error:
                    words = _error_message(await answer.aread()) or f"status {answer.status_code}"
                    raise EngineRefused(call, answer.status_code, words)
                yield answer
        except httpx2.InvalidURL as error:
            raise EngineRefused(call, 414, str(error)) from error
        except httpx2.TransportError as error:
            raise EngineGone(call, str(error).rstrip(".") or "the connection broke off") from error

    @asynccontextmanager
    async def _request(self, method: str, target: str, **more: Any) -> AsyncGenerator[Response]:
        # By the transport alone: a client would log each URL, and that of a build has its arguments
        from httpx2 import Request

        base = "http://docker" if self.address.socket is not None else self.address.url
        request = Request(method, base + target, extensions={"timeout": {"connect": _PROBE_SECONDS}}, **more)
        async with aclosing(await self._http.handle_async_request(request)) as answer:
            yield answer

    async def stat(self, container: str, path: str) -> PathStat | None:
        """Look up the file at a path in a container; None if there is none. A link counts as executable.

        Raises:
            EngineRefused: There is no such container.
            EngineGone: There is no answer.
        """
        try:
            async with self._answer("HEAD", f"/containers/{container}/archive", query={"path": path}) as answer:
                encoded = answer.headers.get("X-Docker-Container-Path-Stat", "")
        except EngineRefused as error:
            if error.status == 404:
                return None
            raise
        said = cast("dict[str, Any]", json.loads(base64.b64decode(encoded)) if encoded else {})
        mode = int(said.get("mode") or 0)
        # Go's file mode: type bits at the top, permissions at the bottom
        return PathStat(
            directory=bool(mode & 1 << 31),
            executable=bool(mode & (1 << 27 | 0o111)),
            target=str(said.get("linkTarget") or ""),
        )


def _tls(address: Address) -> ssl.SSLContext | bool:
    directory = address.certificates
    if directory is None:
        return False
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


def _error_message(content: bytes) -> str:
    """The engine's message in the body of an error."""
    try:
        return str(json.loads(content)["message"]).strip()
    except (ValueError, KeyError, TypeError):
        return content.decode("utf-8", "replace").strip()[:500]


def is_full(message: str) -> bool:
    """Whether the message reports a full disk."""
    message = message.lower()
    return "no space left on device" in message or "disk quota exceeded" in message


def path_segment(text: str) -> str:
    """Text as one segment of a path."""
    return quote(text, safe="")
