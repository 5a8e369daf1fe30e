"""Where the Docker engine is, and why it cannot be used.

Nothing here connects: the runner and the client each have their own way of calling an engine, and both find it here.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from .errors import BackendError, BackendUnavailable
from .loopback import is_loopback
from .text.urls import authority

__all__ = [
    "Address",
    "EngineGone",
    "EngineRefused",
    "agreed_version",
    "bad_certificates",
    "caused_by",
    "docker_config",
    "not_docker",
    "resolve_address",
    "silent",
    "unreachable",
]

_OLDEST_API = (1, 41)
"""Docker 20.10."""
_NEWEST_API = (1, 48)
"""The newest API version that is known here; also used with newer engines."""


class EngineRefused(BackendError):
    """The engine answered a call with an error.

    Attributes:
        status: The HTTP status: 404 no such object, 409 wrong state, 500 anything else.
        server_message: What the engine said.
    """

    default_code = "engine_refused"

    def __init__(self, call: str, status: int, server_message: str) -> None:
        super().__init__(f"The Docker engine refused: {server_message}", context={"call": call, "status": status})
        self.status = status
        self.server_message = server_message


class EngineGone(BackendError):
    """The engine did not answer a call, or stopped answering."""

    default_code = "engine_lost"

    def __init__(self, call: str, reason: str) -> None:
        super().__init__(
            f"The Docker engine stopped answering ({call}: {reason}).",
            hint="See whether it still runs: docker info.",
            context={"call": call},
        )
        self.server_message = reason


# --- where the engine is ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where the engine listens, and the setting that names the address."""

    url: str
    """`unix:///path`, `http://host:port` or `https://host:port`."""
    source: str = ""
    """The setting that named it, for messages: `DOCKER_HOST`, `the docker context 'x'`; empty by default."""
    certificates: Path | None = None
    """For https: the directory with `ca.pem`, `cert.pem` and `key.pem`, each optional."""
    verified: bool = True
    """For https: whether to verify the engine's certificate."""

    @property
    def socket(self) -> str | None:
        """Path of the socket, if the address is one."""
        return self.url.removeprefix("unix://") if self.url.startswith("unix://") else None

    def __str__(self) -> str:
        return f"{self.url} (from {self.source})" if self.source else self.url


def docker_config(environ: Mapping[str, str] | None = None) -> tuple[Path, dict[str, Any]]:
    """The docker command's configuration directory, and the content of its `config.json` (empty if there is none)."""
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
    """Find the engine the way the `docker` command does: from `host`, `DOCKER_HOST` or the current context.

    Args:
        host: An explicit address, such as `unix:///run/user/1000/docker.sock`.
        environ: The environment; the process's own by default.
        shares_files: Whether its containers share directories and ports with this machine, so that the engine must run
            here.

    Raises:
        BackendUnavailable: The address is invalid, or `shares_files` is set and the engine is on another machine.
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
                remote = not is_loopback(parts.hostname)
                if not (remote and shares_files):
                    if secure and certificates is None:
                        certificates = Path(environ.get("DOCKER_CERT_PATH") or Path.home() / ".docker")
                    return Address(
                        url=f"{'https' if secure else 'http'}://{authority(parts.hostname, port)}",
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


# --- why it cannot be used --------------------------------------------------------------------------------------


def agreed_version(address: Address, offered: str) -> str:
    """Choose the version of the engine's API: the newest that both sides know.

    Args:
        address: The engine's address.
        offered: The newest version that the engine offers; anything else if the server is no Docker engine.

    Raises:
        BackendUnavailable: The engine is too old, or the server is no Docker engine.
    """
    try:
        major, minor = (int(part) for part in offered.split("."))
    except ValueError:
        raise not_docker(address) from None
    if (major, minor) < _OLDEST_API:
        raise BackendUnavailable(
            f"The Docker engine at {address} is too old: it speaks version {offered} of its API.",
            code="docker_too_old",
            hint="Docker Engine 20.10 or later is needed.",
        )
    major, minor = min((major, minor), _NEWEST_API)
    return f"{major}.{minor}"


def bad_certificates(address: Address, error: Exception) -> BackendUnavailable:
    """The error for files of `certificates` that cannot be read."""
    return BackendUnavailable(
        f"The certificates for the Docker engine in {address.certificates} cannot be used: {error}.",
        code="docker_tls",
        hint="Correct DOCKER_CERT_PATH or the docker context; there are ca.pem, cert.pem and key.pem.",
        context={"host": address.url},
    )


def _untrusted(address: Address, error: Exception) -> BackendUnavailable | None:
    cause = caused_by(error, _is_tls)
    if cause is None:
        return None
    return BackendUnavailable(
        f"The Docker engine at {address} and this machine do not trust each other: {cause}.",
        code="docker_tls",
        hint=f"Correct the certificates in {address.certificates}.",
        context={"host": address.url},
    )


def unreachable(address: Address, error: Exception) -> BackendUnavailable:
    """The error for an engine to which no connection can be opened.

    Args:
        address: The engine's address.
        error: What the HTTP library raised; the operating system's error is among its causes.
    """
    if (distrust := _untrusted(address, error)) is not None:
        return distrust
    context = {"host": address.url}
    if caused_by(error, lambda cause: isinstance(cause, PermissionError)) is not None:
        return BackendUnavailable(
            f"You have no permission to use the Docker engine at {address}.",
            code="docker_not_permitted",
            hint="Join the group that owns the socket (sudo usermod -aG docker $USER, then log in again), or use "
            "rootless Docker.",
            context=context,
        )
    missing = caused_by(error, lambda cause: isinstance(cause, FileNotFoundError)) is not None
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


def silent(address: Address) -> BackendUnavailable:
    """The error for an engine that accepts a connection and does not answer."""
    return BackendUnavailable(
        f"The Docker engine at {address} accepts connections but does not answer.",
        code="docker_silent",
        hint="It may still be starting, or hang: see its log, or restart it.",
        context={"host": address.url},
    )


def not_docker(address: Address, error: Exception | None = None) -> BackendUnavailable:
    """The error for a server that does not answer as a Docker engine does.

    Args:
        address: The server's address.
        error: What the HTTP library raised, if it did.
    """
    # A server reports that it does not trust us only when a request is made
    if error is not None and (distrust := _untrusted(address, error)) is not None:
        return distrust
    return BackendUnavailable(
        f"The server at {address} is not a Docker engine.",
        code="docker_host_invalid",
        hint=f"Correct {address.source}." if address.source else "See who listens on that socket.",
        context={"host": address.url},
    )


def _is_tls(error: BaseException) -> bool:
    # By its module's name, since importing it would load the library for TLS
    return type(error).__module__ == "ssl"


def caused_by(error: BaseException | None, matches: Callable[[BaseException], bool]) -> BaseException | None:
    """The first error that matches in a chain of causes; some are raised `from None`, so contexts count too."""
    while error is not None and not matches(error):
        error = error.__cause__ or error.__context__
    return error
