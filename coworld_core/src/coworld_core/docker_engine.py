"""Finds a Docker engine and calls its HTTP API.

This module does not use the ``docker`` package, because that package blocks: a call made in a thread cannot be
cancelled, and following a container's log occupies a thread. Here every call is an ordinary cancellable await, and
following a hundred containers costs a hundred sockets.

It uses httpcore2, the layer below httpx2: an engine needs none of httpx2's additions, and importing them would double
the imports before anything can start. httpcore2 is imported at the first connection.

This is the only module of coworld-core that opens connections, and no other module of coworld-core imports it. Its
additional dependencies are in the extra ``docker-engine``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import quote, urlencode, urlsplit

import anyio

from .errors import BackendError, BackendUnavailable

if TYPE_CHECKING:
    import ssl

    from httpcore2 import AsyncConnectionPool, Response

__all__ = [
    "Address",
    "Answer",
    "Engine",
    "EngineGone",
    "EngineRefused",
    "PathStat",
    "docker_config",
    "is_full",
    "path_segment",
    "resolve_address",
]

_OLDEST_API = (1, 41)
"""Docker 20.10."""
_NEWEST_API = (1, 48)
"""The API version this module was written for; also used with newer engines."""

_KNOCK_SECONDS = 10.0
_CALL_SECONDS = 120.0
"""Long enough to create the first container of an image on a slow disk; short enough to notice a dead engine."""
_KEPT_CONNECTIONS = 8
_KEPT_SECONDS = 3.0
"""Long enough for consecutive calls. A proxy may close a connection that is idle for longer, and a call that fails for
that reason must not be repeated."""


class EngineRefused(BackendError):
    """The engine answered a call with an error.

    Attributes:
        status: The HTTP status: 404 no such object, 409 wrong state, 500 anything else.
        words: What the engine said.
    """

    default_code = "engine_refused"

    def __init__(self, call: str, status: int, words: str) -> None:
        super().__init__(f"The Docker engine refused: {words}", context={"call": call, "status": status})
        self.status = status
        self.words = words


class EngineGone(BackendError):
    """The engine did not answer a call, or stopped answering."""

    default_code = "engine_lost"

    def __init__(self, call: str, reason: str) -> None:
        super().__init__(
            f"The Docker engine stopped answering ({call}: {reason}).",
            hint="See whether it still runs: docker info.",
            context={"call": call},
        )
        self.words = reason


# --- where the engine is ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where the engine listens, and the setting that names the address."""

    url: str
    """``unix:///path``, ``http://host:port`` or ``https://host:port``."""
    source: str = ""
    """The setting that named it, for messages: ``DOCKER_HOST``, ``the docker context 'x'``; empty by default."""
    certificates: Path | None = None
    """For https: the directory with ``ca.pem``, ``cert.pem`` and ``key.pem``, each optional."""
    verified: bool = True
    """For https: whether to verify the engine's certificate."""

    @property
    def socket(self) -> str | None:
        """Path of the socket, if the address is one."""
        return self.url.removeprefix("unix://") if self.url.startswith("unix://") else None

    def __str__(self) -> str:
        return f"{self.url} (from {self.source})" if self.source else self.url


def docker_config(environ: Mapping[str, str] | None = None) -> tuple[Path, dict[str, Any]]:
    """The docker command's configuration directory, and the content of its ``config.json`` (empty if there is none)."""
    environ = os.environ if environ is None else environ
    directory = Path(environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    return directory, _document(directory / "config.json")


def _document(path: Path) -> dict[str, Any]:
    try:
        content: object = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}


def resolve_address(
    host: str | None = None, environ: Mapping[str, str] | None = None, *, shares_files: bool = False
) -> Address:
    """Find the engine the way the ``docker`` command does: from ``host``, ``DOCKER_HOST`` or the current context.

    Args:
        host: An explicit address, such as ``unix:///run/user/1000/docker.sock``.
        environ: The environment; the process's own by default.
        shares_files: Whether its containers share directories and ports with this machine, so that the engine must run
            here.

    Raises:
        BackendUnavailable: The address is invalid, or ``shares_files`` is set and the engine is on another machine.
    """
    environ = os.environ if environ is None else environ
    if host:
        return _address(host, "the argument host", environ, shares_files)
    if named := environ.get("DOCKER_HOST", "").strip():
        return _address(named, "DOCKER_HOST", environ, shares_files)
    directory, config = docker_config(environ)
    context = str(environ.get("DOCKER_CONTEXT") or config.get("currentContext") or "default")
    if context == "default":
        return Address(url="unix:///var/run/docker.sock")
    identity = hashlib.sha256(context.encode()).hexdigest()
    try:
        endpoint: Any = _document(directory / "contexts/meta" / identity / "meta.json")["Endpoints"]["docker"]
        url, unverified = str(endpoint["Host"]), bool(endpoint.get("SkipTLSVerify"))
    except (KeyError, TypeError, AttributeError):
        raise BackendUnavailable(
            f"There is no docker context {context!r}, though it is the current one.",
            code="docker_host_invalid",
            hint="Choose another with: docker context use default.",
            context={"context": context},
        ) from None
    certificates = directory / "contexts/tls" / identity / "docker"
    return _address(
        url,
        f"the docker context {context!r}",
        environ,
        shares_files,
        certificates=certificates if certificates.is_dir() else None,
        verified=not unverified,
    )


def _address(
    url: str,
    source: str,
    environ: Mapping[str, str],
    shares_files: bool,
    *,
    certificates: Path | None = None,
    verified: bool = True,
) -> Address:
    scheme, _, rest = url.partition("://")
    if scheme == "unix" and rest.startswith("/"):
        return Address(url=url, source=source)
    remote = scheme == "ssh"
    if scheme in ("tcp", "http", "https"):
        secure = scheme == "https" or certificates is not None or bool(environ.get("DOCKER_TLS_VERIFY"))
        try:
            parts = urlsplit(f"//{rest}")
            if parts.hostname and not parts.path.strip("/"):
                port = parts.port or (2376 if secure else 2375)
                remote = parts.hostname not in ("localhost", "127.0.0.1", "::1")
                if not (remote and shares_files):
                    if secure and certificates is None:
                        certificates = Path(environ.get("DOCKER_CERT_PATH") or Path.home() / ".docker")
                    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
                    return Address(
                        url=f"{'https' if secure else 'http'}://{name}:{port}",
                        source=source,
                        certificates=certificates,
                        verified=verified,
                    )
        except ValueError:
            pass
    if remote and shares_files:
        raise BackendUnavailable(
            f"The Docker engine at {url} (from {source}) runs on another machine, and coworld shares directories with "
            "its containers.",
            code="docker_remote",
            hint=f"Run coworld on that machine, or use this one's engine: unset {source}."
            if source == "DOCKER_HOST"
            else "Run coworld on that machine, or use this one's engine.",
            context={"host": url},
        )
    raise BackendUnavailable(
        f"{url[:200]!r} (from {source}) is not the address of a Docker engine that can be used here.",
        code="docker_host_invalid",
        hint="It looks like unix:///var/run/docker.sock or tcp://127.0.0.1:2375. For ssh, forward its socket first.",
        context={"host": url[:200]},
    )


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
        raise BackendUnavailable(
            f"The certificates for the Docker engine in {directory} cannot be used: {error}.",
            code="docker_tls",
            hint="Correct DOCKER_CERT_PATH or the docker context; there are ca.pem, cert.pem and key.pem.",
            context={"host": address.url},
        ) from error
    if not address.verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


# --- calls ------------------------------------------------------------------------------------------------------


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
    """A connection to an engine, for any number of concurrent calls. ``connect`` opens one and checks that it answers.

    Args:
        address: The engine's address.
        api: The API version to use, e.g. ``1.41``.
    """

    def __init__(self, address: Address, *, api: str = "") -> None:
        self.address = address
        self.api = api
        self.info: Mapping[str, Any] = {}
        """The engine's description of itself (``GET /info``)."""
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
        self.api = await _negotiated(self)
        try:
            info = await self.call("GET", "/info", timeout=30)
        except (EngineGone, EngineRefused) as error:
            raise BackendUnavailable(
                f"The Docker engine at {self.address} does not say what it is: {error.words}",
                code="docker_silent",
                hint="See its log, or restart it.",
            ) from error
        if not isinstance(info, dict):
            raise _not_docker(self.address)
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
        """Whether the engine runs with a security option: ``rootless``, ``selinux``, ``userns``, ..."""
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
            query: As for ``call``.
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
            # close it when a reader leaves early, instead of when it is garbage-collected
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


async def _negotiated(engine: Engine) -> str:
    """Choose the API version: the engine's newest, up to the newest this module knows."""
    import httpcore2

    address = engine.address
    try:
        with anyio.fail_after(_KNOCK_SECONDS):
            offered = await engine.knock()
    except (TimeoutError, httpcore2.ReadTimeout) as error:
        raise _silent(address) from error
    except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
        raise _untrusted(address, error) or _unreachable(address, error) from error
    except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
        # a server reports that it does not trust us only when a request is made
        raise _untrusted(address, error) or _not_docker(address) from error
    try:
        major, minor = (int(part) for part in offered.split("."))
    except ValueError:
        raise _not_docker(address) from None
    if (major, minor) < _OLDEST_API:
        raise BackendUnavailable(
            f"The Docker engine at {address} is too old: it speaks version {offered} of its API.",
            code="docker_too_old",
            hint="Docker Engine 20.10 or later is needed.",
        )
    major, minor = min((major, minor), _NEWEST_API)
    return f"{major}.{minor}"


def _caused_by(error: BaseException | None, kind: type[BaseException]) -> BaseException | None:
    """The first error of a kind in a chain of causes; the library raises some ``from None``, so contexts count too."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error


def _untrusted(address: Address, error: Exception) -> BackendUnavailable | None:
    if address.certificates is None:
        return None
    import ssl

    cause = _caused_by(error, ssl.SSLError)
    if cause is None:
        return None
    return BackendUnavailable(
        f"The Docker engine at {address} and this machine do not trust each other: {cause}.",
        code="docker_tls",
        hint=f"Correct the certificates in {address.certificates}.",
        context={"host": address.url},
    )


def _unreachable(address: Address, error: Exception) -> BackendUnavailable:
    context = {"host": address.url}
    if _caused_by(error, PermissionError) is not None:
        return BackendUnavailable(
            f"You have no permission to use the Docker engine at {address}.",
            code="docker_not_permitted",
            hint="Join the group that owns the socket (sudo usermod -aG docker $USER, then log in again), or use "
            "rootless Docker.",
            context=context,
        )
    missing = _caused_by(error, FileNotFoundError) is not None
    if missing and not address.source and shutil.which("docker") is None and shutil.which("dockerd") is None:
        return BackendUnavailable(
            "Docker is not installed on this machine.",
            code="docker_not_installed",
            hint="Install Docker Engine 20.10 or later.",
            context=context,
        )
    why = "there is no such socket" if missing else "nobody listens there"
    correct = f", or correct {address.source}" if address.source else ""
    return BackendUnavailable(
        f"The Docker engine is not running at {address}: {why}.",
        code="docker_not_running",
        hint=f"Start it (sudo systemctl start docker, or Docker Desktop){correct}.",
        context=context,
    )


def _silent(address: Address) -> BackendUnavailable:
    return BackendUnavailable(
        f"The Docker engine at {address} accepts connections but does not answer.",
        code="docker_silent",
        hint="It may still be starting, or hang: see its log, or restart it.",
        context={"host": address.url},
    )


def _not_docker(address: Address) -> BackendUnavailable:
    return BackendUnavailable(
        f"The server at {address} is not a Docker engine.",
        code="docker_host_invalid",
        hint=f"Correct {address.source}." if address.source else "See who listens on that socket.",
        context={"host": address.url},
    )


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
