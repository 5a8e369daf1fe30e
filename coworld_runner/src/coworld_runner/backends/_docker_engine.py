"""The Docker Engine's own HTTP API: where the engine is, and calls to it.

It is spoken directly rather than through the ``docker`` package, because that one blocks: a call made in a thread
cannot be cancelled, and a container's log needs a thread for as long as it runs. Here every call is an ordinary
cancellable await, following a hundred containers costs a hundred sockets, and nothing has to be installed or loaded.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import anyio
from anyio.abc import ByteStream

from coworld_core.errors import BackendError, BackendUnavailable

from .._http import BROKEN, Answer, exchange

__all__ = ["Address", "Engine", "EngineGone", "EngineRefused", "PathStat", "docker_config", "resolve_address"]

_OLDEST_API = (1, 41)
"""Docker 20.10."""
_NEWEST_API = (1, 48)
"""What this module was written against; a newer engine is spoken to as this one."""

_KNOCK_SECONDS = 10.0
_CALL_SECONDS = 120.0
"""An engine on a slow disk takes its time to create the first container of an image; a dead one must end a call."""

_PROCESS = "Or use --backend process, which needs no engine."


class EngineRefused(BackendError):
    """The engine answered a call with an error.

    Attributes:
        status: The HTTP status: 404 no such thing, 409 not in that state, 500 anything else.
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
    """Where the engine listens, and who says so."""

    url: str
    """``unix:///path`` or ``tcp://host:port``."""
    source: str = ""
    """What named it, for messages: ``DOCKER_HOST``, ``the docker context 'x'``; empty for the default socket."""

    @property
    def socket(self) -> str | None:
        """Path of the socket, if it is one."""
        return self.url.removeprefix("unix://") if self.url.startswith("unix://") else None

    def __str__(self) -> str:
        return f"{self.url} (from {self.source})" if self.source else self.url


def docker_config(environ: Mapping[str, str]) -> tuple[Path, dict[str, Any]]:
    """The docker command's configuration directory and what its ``config.json`` holds (empty when there is none)."""
    directory = Path(environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    try:
        content = json.loads((directory / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        content = {}
    return directory, content if isinstance(content, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def resolve_address(host: str | None, environ: Mapping[str, str] | None = None) -> Address:
    """Find the engine the way the ``docker`` command does: the caller's word, ``DOCKER_HOST``, the current context.

    Args:
        host: The caller's word, such as ``unix:///run/user/1000/docker.sock``.
        environ: The environment; the process's own by default.

    Raises:
        BackendUnavailable: It is no address, or one of an engine that shares no files with this machine.
    """
    environ = os.environ if environ is None else environ
    if host:
        return _checked(host, "the host option")
    if named := environ.get("DOCKER_HOST"):
        return _checked(named, "DOCKER_HOST")
    directory, config = docker_config(environ)
    context = environ.get("DOCKER_CONTEXT") or config.get("currentContext") or "default"
    if context == "default":
        return Address(url="unix:///var/run/docker.sock")
    source = f"the docker context {context!r}"
    meta = directory / "contexts" / "meta" / hashlib.sha256(str(context).encode()).hexdigest() / "meta.json"
    try:
        url = str(json.loads(meta.read_text("utf-8"))["Endpoints"]["docker"]["Host"])
    except (OSError, ValueError, KeyError, TypeError):
        raise BackendUnavailable(
            f"There is no docker context {context!r}, though it is the current one.",
            code="docker_host_invalid",
            hint="Choose another with: docker context use default.",
            context={"context": context},
        ) from None
    return _checked(url, source)


def _checked(url: str, source: str) -> Address:
    scheme, _, rest = url.partition("://")
    if scheme == "unix" and rest.startswith("/"):
        return Address(url=url, source=source)
    remote = scheme == "ssh"
    if scheme in ("tcp", "http"):
        try:
            parts = urlsplit(f"tcp://{rest}")
            if parts.hostname and parts.port and parts.path in ("", "/"):
                if parts.hostname in ("localhost", "127.0.0.1", "::1"):
                    return Address(url=f"tcp://{parts.netloc}", source=source)
                remote = True
        except ValueError:
            pass
    if remote:
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
        f"{url!r} (from {source}) is not the address of a Docker engine that can be used here.",
        code="docker_host_invalid",
        hint="It looks like unix:///var/run/docker.sock, or tcp://127.0.0.1:2375 without TLS.",
        context={"host": url},
    )


# --- calls ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PathStat:
    """What is at a path in a container."""

    directory: bool
    executable: bool


class Engine:
    """An engine that answered. Made by ``Engine.connect``; any number of calls may be made at once."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.info: Mapping[str, Any] = {}
        """What the engine says about itself (``GET /info``)."""
        self.api = ""
        """The version of the API that is spoken, e.g. ``1.41``."""

    @classmethod
    async def connect(cls, address: Address) -> Engine:
        """See whether an engine answers there, and ask it what it is.

        Raises:
            BackendUnavailable: The message says why: not installed, not running, not permitted, wrong address,
                silent, or too old.
        """
        engine = cls(address)
        engine.api = await _negotiate(engine)
        try:
            info = await engine.call("GET", "/info", timeout=30)
        except (EngineGone, EngineRefused) as error:
            raise BackendUnavailable(
                f"The Docker engine at {address} does not say what it is: {error.words}",
                code="docker_silent",
                hint="See its log, or restart it. " + _PROCESS,
            ) from error
        if not isinstance(info, dict):
            raise _not_docker(address)
        engine.info = info
        return engine

    async def open(self) -> ByteStream:
        """A new connection.

        Raises:
            OSError: Nobody listens there, or it is not permitted.
        """
        if self.address.socket is not None:
            return await anyio.connect_unix(self.address.socket)
        parts = urlsplit(self.address.url)
        return await anyio.connect_tcp(parts.hostname or "", parts.port or 2375)

    @property
    def version(self) -> str:
        """The engine's own version."""
        return str(self.info.get("ServerVersion") or "")

    @property
    def platform(self) -> str:
        """os/architecture, in the words images use."""
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
            query: Query parameters; a mapping or list as a value is sent as JSON.
            body: The JSON body, if any.
            timeout: Seconds to wait for the answer; None: for ever.

        Returns:
            The answer's JSON, or None when it has no body.

        Raises:
            EngineRefused: The answer is an error.
            EngineGone: There is no answer.
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
        return json.loads(content) if content.strip() else None

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | AsyncIterable[bytes] = b"",
    ) -> AsyncGenerator[Answer, None]:
        """Make a call and read its answer as it comes, however long that takes.

        Raises:
            EngineRefused: The answer is an error.
            EngineGone: There is no answer, or it broke off.
        """
        target = f"/v{self.api}{path}"
        if parameters := _flat(query):
            target += "?" + urlencode(parameters)
        try:
            async with exchange(self.open, method, target, headers=headers, content=content) as answer:
                if answer.status >= 400:
                    raise EngineRefused(f"{method} {path}", answer.status, _words(await answer.read()))
                yield answer
        except BROKEN as error:
            raise EngineGone(f"{method} {path}", str(error) or "the connection broke off") from error

    async def stat(self, container: str, path: str) -> PathStat | None:
        """What is at a path in a container's files; None when there is nothing. A link counts as an executable.

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


async def _negotiate(engine: Engine) -> str:
    """Agree on a version of the API: the engine's, as far as this module knows it."""
    address = engine.address
    try:
        with anyio.fail_after(_KNOCK_SECONDS):
            async with exchange(engine.open, "GET", "/_ping") as answer:
                offered = answer.headers.get("api-version", "")
    except TimeoutError as error:
        raise _silent(address) from error
    except OSError as error:
        raise _unreachable(address, error) from error
    except BROKEN as error:
        raise _not_docker(address) from error
    try:
        major, minor = (int(part) for part in offered.split("."))
    except ValueError:
        raise _not_docker(address) from None
    if (major, minor) < _OLDEST_API:
        raise BackendUnavailable(
            f"The Docker engine at {address} is too old: it speaks version {offered} of its API.",
            code="docker_too_old",
            hint="Docker Engine 20.10 or later is needed. " + _PROCESS,
        )
    major, minor = min((major, minor), _NEWEST_API)
    return f"{major}.{minor}"


def _unreachable(address: Address, error: OSError) -> BackendUnavailable:
    context = {"host": address.url}
    if isinstance(error, PermissionError):
        return BackendUnavailable(
            f"You have no permission to use the Docker engine at {address}.",
            code="docker_not_permitted",
            hint="Join the group that owns the socket (sudo usermod -aG docker $USER, then log in again), or use "
            "rootless Docker. " + _PROCESS,
            context=context,
        )
    missing = isinstance(error, FileNotFoundError)
    if missing and not address.source and shutil.which("docker") is None and shutil.which("dockerd") is None:
        return BackendUnavailable(
            "Docker is not installed on this machine.",
            code="docker_not_installed",
            hint="Install Docker Engine 20.10 or later. " + _PROCESS,
            context=context,
        )
    why = "there is no such socket" if missing else "nobody listens there"
    correct = f", or correct {address.source}" if address.source else ""
    return BackendUnavailable(
        f"The Docker engine is not running at {address}: {why}.",
        code="docker_not_running",
        hint=f"Start it (sudo systemctl start docker, or Docker Desktop){correct}. {_PROCESS}",
        context=context,
    )


def _silent(address: Address) -> BackendUnavailable:
    return BackendUnavailable(
        f"The Docker engine at {address} accepts connections but does not answer.",
        code="docker_silent",
        hint="It may still be starting, or hang: see its log, or restart it. " + _PROCESS,
        context={"host": address.url},
    )


def _not_docker(address: Address) -> BackendUnavailable:
    return BackendUnavailable(
        f"What answers at {address} is not a Docker engine.",
        code="docker_host_invalid",
        hint=f"Correct {address.source}." if address.source else "See who listens on that socket.",
        context={"host": address.url},
    )


def _flat(query: Mapping[str, Any] | None) -> dict[str, str]:
    """Query parameters as the engine wants them: JSON for what is no plain value."""
    return {
        key: json.dumps(value) if isinstance(value, bool | list | dict) else str(value)
        for key, value in (query or {}).items()
        if value is not None
    }


def _words(content: bytes) -> str:
    """The engine's own words out of an error's body."""
    try:
        return str(json.loads(content)["message"]).strip()
    except (ValueError, KeyError, TypeError):
        return content.decode("utf-8", "replace").strip()[:500]


def path_segment(text: str) -> str:
    """Text as one segment of a path."""
    return quote(text, safe="")
