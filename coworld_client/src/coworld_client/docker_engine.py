"""The few calls to the local Docker engine that uploads and downloads need, over its own HTTP API."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlsplit

from coworld_core.errors import BackendError, BackendUnavailable, ImageError
from coworld_core.images import ImageRef, Platform

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

__all__ = ["DockerEngine", "EngineImage", "connect_docker", "engine_address"]

_SOCKET = "unix:///var/run/docker.sock"
_TIMEOUT = 60.0
"""Seconds for a connection or the next bytes; an engine on a slow disk takes its time to begin with an image."""
_SAVE_TIMEOUT = 900.0
_CHUNK = 1 << 18


@dataclass(frozen=True, kw_only=True)
class EngineImage:
    """What an engine says of an image it has."""

    reference: str
    """As asked for."""
    id: str
    """``sha256:<hex>``: the image's content."""
    platform: Platform
    size: int
    """Bytes, as the engine counts them."""
    digests: tuple[str, ...] = ()
    """``name@sha256:...`` by which registries know it."""


def engine_address(environ: Mapping[str, str] | None = None) -> str:
    """Where the engine listens, found the way the ``docker`` command does: ``DOCKER_HOST``, else the current context.

    Args:
        environ: The environment; the process's own by default.

    Returns:
        ``unix:///path``, ``http://host:port`` or ``https://host:port``.

    Raises:
        BackendUnavailable: What they name is no address of an engine that can be reached here.
    """
    environ = os.environ if environ is None else environ
    named, source = environ.get("DOCKER_HOST", "").strip(), "DOCKER_HOST"
    if not named:
        named, source = _context(environ)
    scheme, _, rest = named.partition("://")
    if scheme == "unix" and rest.startswith("/"):
        return named
    if scheme in ("tcp", "http", "https"):
        secure = scheme == "https" or bool(environ.get("DOCKER_TLS_VERIFY"))
        try:
            parts = urlsplit(f"//{rest}")
            if parts.hostname and not parts.path.strip("/"):
                port = parts.port or (2376 if secure else 2375)
                host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
                return f"{'https' if secure else 'http'}://{host}:{port}"
        except ValueError:
            pass
    raise BackendUnavailable(
        f"{named[:200]!r} (from {source}) is not the address of a Docker engine that can be used here.",
        code="docker_host_invalid",
        hint="It looks like unix:///var/run/docker.sock or tcp://host:2375. For ssh, forward its socket first.",
        context={"host": named[:200]},
    )


def _context(environ: Mapping[str, str]) -> tuple[str, str]:
    home = environ.get("HOME") or "~"
    directory = Path(environ.get("DOCKER_CONFIG") or Path(home).expanduser() / ".docker")
    name = environ.get("DOCKER_CONTEXT") or str(_json(directory / "config.json").get("currentContext") or "default")
    if name == "default":
        return _SOCKET, "the default"
    meta = _json(directory / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest() / "meta.json")
    try:
        return str(meta["Endpoints"]["docker"]["Host"]), f"the docker context {name!r}"
    except (KeyError, TypeError):
        raise BackendUnavailable(
            f"There is no docker context {name!r}, though it is the current one.",
            code="docker_host_invalid",
            hint="Choose another with: docker context use default.",
            context={"context": name},
        ) from None


def _json(path: Path) -> dict[str, Any]:
    try:
        value: object = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


@asynccontextmanager
async def connect_docker(address: str | None = None) -> AsyncGenerator[DockerEngine]:
    """The Docker engine of this machine, for as long as the context is open.

    Args:
        address: As ``engine_address`` returns it; None: found by it.

    Raises:
        BackendUnavailable: There is none, or it does not answer.
    """
    from httpx2 import AsyncClient, AsyncHTTPTransport, Timeout

    address = engine_address() if address is None else address
    path = address.removeprefix("unix://") if address.startswith("unix://") else None
    transport = AsyncHTTPTransport(uds=path, verify=_tls(address) if path is None else False, trust_env=False)
    base = "http://docker" if path is not None else address
    async with AsyncClient(transport=transport, base_url=base, timeout=Timeout(_TIMEOUT), trust_env=False) as client:
        engine = DockerEngine(client, address)
        await engine.check()
        yield engine


def _tls(address: str) -> ssl.SSLContext | bool:
    if not address.startswith("https://"):
        return False
    directory = Path(os.environ.get("DOCKER_CERT_PATH") or Path.home() / ".docker")
    authority = directory / "ca.pem"
    try:
        context = ssl.create_default_context(cafile=authority if authority.is_file() else None)
        if (directory / "cert.pem").is_file():
            context.load_cert_chain(directory / "cert.pem", directory / "key.pem")
    except (OSError, ssl.SSLError) as error:
        raise BackendUnavailable(
            f"The certificates for the Docker engine in {directory} cannot be used: {error}.",
            code="docker_tls",
            hint="Correct DOCKER_CERT_PATH, which holds ca.pem, cert.pem and key.pem.",
        ) from error
    return context


class DockerEngine:
    """An engine that answered. Made by ``connect_docker``."""

    def __init__(self, client: AsyncClient, address: str) -> None:
        self._client = client
        self.address = address

    async def check(self) -> None:
        """See whether an engine answers.

        Raises:
            BackendUnavailable: The message says why not.
        """
        import httpx2

        try:
            response = await self._client.get("/_ping", timeout=10)
        except httpx2.ConnectError as error:
            permission = _caused_by(error, PermissionError)
            raise BackendUnavailable(
                f"You have no permission to use the Docker engine at {self.address}."
                if permission
                else f"The Docker engine is not running at {self.address}.",
                code="docker_not_permitted" if permission else "docker_not_running",
                hint="Join the group that owns the socket: sudo usermod -aG docker $USER, then log in again."
                if permission
                else "Start it, or set DOCKER_HOST to where it runs.",
                context={"host": self.address},
            ) from error
        except httpx2.RequestError as error:
            raise BackendUnavailable(
                f"The Docker engine at {self.address} does not answer: {error or type(error).__name__}.",
                code="docker_silent",
                hint="See its log, or restart it.",
                context={"host": self.address},
            ) from error
        if "api-version" not in response.headers:
            raise BackendUnavailable(
                f"What answers at {self.address} is not a Docker engine.",
                code="docker_host_invalid",
                context={"host": self.address},
            )

    async def inspect(self, reference: str) -> EngineImage:
        """What the engine has under a reference or an id.

        Raises:
            ImageError: It has none (``image_missing``), or the reference is none.
            BackendError: It refused or stopped answering.
        """
        _checked(reference)
        async with self._answer("GET", f"/images/{_segment(reference)}/json") as response:
            if response.status_code == 404:
                raise ImageError(
                    f"The Docker engine has no image {reference}.",
                    code="image_missing",
                    hint="Build it, or fetch it with: docker pull.",
                    context={"image": reference},
                )
            content: Any = await self._json(response)
        try:
            platform = Platform.parse(f"{content['Os']}/{content['Architecture']}")
            digests = tuple(str(item) for item in content.get("RepoDigests") or ())
            return EngineImage(
                reference=reference,
                id=str(content["Id"]),
                platform=platform,
                size=int(content.get("Size") or 0),
                digests=digests,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._nonsense(f"about the image {reference}") from error

    @asynccontextmanager
    async def save(self, reference: str) -> AsyncGenerator[AsyncIterator[bytes]]:
        """An image as a tar, as it comes (see ``docker_images``).

        Raises:
            ImageError: The engine has no such image.
            BackendError: It refused or stopped answering; raised by the stream, too.
        """
        _checked(reference)
        from httpx2 import Timeout

        # some versions gather the whole image on disk before they send its first byte
        patience = Timeout(_TIMEOUT, read=_SAVE_TIMEOUT)
        async with self._answer("GET", f"/images/{_segment(reference)}/get", timeout=patience) as response:
            if response.status_code == 404:
                raise ImageError(f"The Docker engine has no image {reference}.", code="image_missing")
            if not response.is_success:
                await self._json(response)
            yield response.aiter_raw(_CHUNK)

    async def pull(
        self,
        reference: str,
        *,
        login: tuple[str, str] | None = None,
        on_progress: Callable[[int, int], object] | None = None,
    ) -> None:
        """Have the engine fetch an image from its registry.

        Args:
            reference: Which.
            login: User and password for the registry; None: as nobody, whatever this machine has stored.
            on_progress: Told how many bytes were fetched, of how many known so far.

        Raises:
            ImageError: The registry has no such image or refused (``image_unreachable``).
            BackendError: The engine refused or stopped answering.
        """
        parsed = _checked(reference)
        account = dict(zip(("username", "password"), login, strict=True)) if login else {}
        headers = {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(account).encode()).decode()}
        query = {"fromImage": parsed.name, "tag": parsed.digest or parsed.tag or "latest"}
        layers: dict[str, tuple[int, int]] = {}
        async with self._answer("POST", "/images/create", params=query, headers=headers, timeout=300) as response:
            if not response.is_success:
                words = await _words(response)
                raise _unreachable(reference, words)
            async for line in response.aiter_lines():
                said = _event(line)
                if error := said.get("error"):
                    raise _unreachable(reference, str(error))
                detail: Any = said.get("progressDetail") or {}
                if said.get("status") == "Downloading" and detail.get("total"):
                    layers[str(said.get("id"))] = (int(detail.get("current") or 0), int(detail["total"]))
                    if on_progress is not None:
                        on_progress(sum(done for done, _ in layers.values()), sum(size for _, size in layers.values()))

    async def tag(self, image: str, target: str) -> None:
        """Give an image that the engine has another name.

        Raises:
            ImageError: The engine has no such image.
            BackendError: It refused or stopped answering.
        """
        parsed = _checked(target)
        query = {"repo": parsed.name, "tag": parsed.tag or "latest"}
        async with self._answer("POST", f"/images/{_segment(image)}/tag", params=query) as response:
            if response.status_code == 404:
                raise ImageError(f"The Docker engine has no image {image}.", code="image_missing")
            if not response.is_success:
                await self._json(response)

    @asynccontextmanager
    async def _answer(self, method: str, path: str, **more: Any) -> AsyncGenerator[Response]:
        import httpx2

        try:
            async with self._client.stream(method, path, **more) as response:
                yield response
        except httpx2.RequestError as error:
            raise BackendError(
                f"The Docker engine at {self.address} stopped answering ({method} {path}: "
                f"{error or type(error).__name__}).",
                code="engine_lost",
                hint="See whether it still runs: docker info.",
                context={"host": self.address},
            ) from error

    async def _json(self, response: Response) -> object:
        if not response.is_success:
            words = await _words(response)
            raise BackendError(
                f"The Docker engine refused: {words}",
                code="engine_refused",
                context={"status": response.status_code, "host": self.address},
            )
        try:
            return json.loads(await response.aread())
        except ValueError as error:
            raise self._nonsense("to a plain question") from error

    def _nonsense(self, about: str) -> BackendError:
        return BackendError(
            f"The Docker engine at {self.address} answered {about} what cannot be understood.",
            code="engine_nonsense",
            hint="Docker Engine 20.10 or later is needed.",
        )


def _checked(reference: str) -> ImageRef:
    if reference.startswith("sha256:"):
        return ImageRef(reference, "digest", name=reference)
    return ImageRef.parse(reference).require_runnable(f"The image {reference!r}")


def _segment(text: str) -> str:
    # the engine's router wants the slashes of a reference as they are
    return quote(text, safe="/:@")


async def _words(response: Response) -> str:
    content = await response.aread()
    try:
        return str(json.loads(content)["message"]).strip()[:1000]
    except (ValueError, KeyError, TypeError):
        return content.decode("utf-8", "replace").strip()[:500] or f"status {response.status_code}"


def _event(line: str) -> dict[str, Any]:
    try:
        value: object = json.loads(line)
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _unreachable(reference: str, words: str) -> ImageError:
    return ImageError(
        f"The image {reference} could not be fetched: {words.rstrip('.')}.",
        code="image_unreachable",
        hint="Check the reference, and that its registry can be reached.",
        context={"image": reference},
    )


def _caused_by(error: BaseException, kind: type[BaseException]) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, kind):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
