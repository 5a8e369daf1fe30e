"""The few calls to the local Docker engine that uploads and downloads need, made with the package `docker`.

The package blocks, so each call runs in a thread, with connections of its own. When the call is cancelled or takes too
long, its connections are cut, and the thread ends at once: none is left behind.
"""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

from coworld_core.docker_address import (
    Address,
    EngineGone,
    EngineRefused,
    agreed_version,
    bad_certificates,
    caused_by,
    not_docker,
    resolve_address,
    silent,
    unreachable,
)
from coworld_core.errors import BackendError, BackendUnavailable, ImageError, unwrapped
from coworld_core.images import ImageRef, Platform
from coworld_core.lazy import load_library

__all__ = ["DockerEngine", "EngineImage", "connect_docker"]

_T = TypeVar("_T")

Client = Any
"""A `docker.APIClient`, whose own types leave most answers unknown."""

Heard = Callable[..., None]
"""Called in a thread when the engine has said something, with a function and arguments to call in the event loop."""

_PROBE_SECONDS = 10.0
_CALL_SECONDS = 120.0
_SILENCE = 300.0
"""Longest silence in seconds while the engine pulls an image; registries can be slow."""
_SAVE_SILENCE = 900.0
"""Longest silence in seconds during an export; some versions write the whole image to disk before the first byte."""
_REPORT_SECONDS = 0.1
"""Seconds between two reports of an export: each costs a switch between threads, and pieces are small."""


@dataclass(frozen=True, kw_only=True)
class EngineImage:
    """An image of an engine."""

    reference: str
    """The reference or id that was asked for."""
    id: str
    """`sha256:<hex>`, which identifies the image's content."""
    platform: Platform
    size: int
    """Bytes, as the engine counts them."""
    digests: tuple[str, ...] = ()
    """`name@sha256:...` references under which registries have it."""


@asynccontextmanager
async def connect_docker(host: str | None = None) -> AsyncGenerator[DockerEngine]:
    """Find a Docker engine, and check that it answers.

    Args:
        host: Its address, such as `tcp://builder:2376`; None: the one that the `docker` command would use.

    Raises:
        BackendUnavailable: There is no engine, or it does not answer.
        EnvironmentFault: The package `docker` is not installed (`not_installed`).
    """
    address = resolve_address(host)
    await anyio.to_thread.run_sync(load_library, "docker", "Install it with: pip install 'coworld-client[docker]'.")
    engine = DockerEngine(address)
    try:
        await engine.negotiate()
    except BackendUnavailable as error:
        error.hint = f"{error.hint} Or set DOCKER_HOST to where one runs."
        raise
    yield engine


class DockerEngine:
    """An engine, found by `connect_docker`.

    Args:
        address: The engine's address.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        # Until it is negotiated, only a call without a version is made
        self._api = "1.41"

    async def negotiate(self) -> None:
        """Ask the engine for the versions of its API, and choose one.

        Raises:
            BackendUnavailable: The message says why: not installed, not running, not permitted, wrong address,
                silent, or too old.
        """
        try:
            offered = await self._call(
                "GET /version", lambda client: client.version(api_version=False)["ApiVersion"], seconds=_PROBE_SECONDS
            )
        except EngineRefused as error:
            raise not_docker(self._address) from error
        except EngineGone as error:
            raise _unavailable(self._address, error) from error
        self._api = agreed_version(self._address, str(offered))

    async def inspect(self, reference: str) -> EngineImage:
        """Look up an image by a reference or an id.

        Raises:
            ImageError: The engine has no such image (`image_missing`), or the reference is invalid.
            BackendError: The engine refused or stopped answering.
        """
        _checked(reference)
        with _missing(reference):
            content = await self._call("GET /images/json", lambda client: client.inspect_image(reference))
        try:
            return EngineImage(
                reference=reference,
                id=str(content["Id"]),
                platform=Platform.parse(f"{content['Os']}/{content['Architecture']}"),
                size=int(content.get("Size") or 0),
                digests=tuple(str(item) for item in content.get("RepoDigests") or ()),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BackendError(
                f"The Docker engine at {self._address} gave an answer about the image {reference} that cannot "
                "be understood.",
                code="engine_nonsense",
                hint="Docker Engine 20.10 or later is needed.",
            ) from error

    async def save(
        self,
        reference: str,
        read: Callable[[Iterator[bytes]], _T],
        *,
        on_progress: Callable[[int], object] | None = None,
    ) -> _T:
        """Read an image as a tar (see `docker_images`).

        Args:
            reference: A reference or an id of the image.
            read: Reads the pieces of the tar, in a thread.
            on_progress: Called with the bytes that the engine has sent so far.

        Returns:
            What `read` returns.

        Raises:
            ImageError: The engine has no such image.
            BackendError: The engine refused or stopped answering.
        """
        _checked(reference)

        def pieces(client: Client, heard: Heard) -> Iterator[bytes]:
            done, told = 0, time.monotonic()
            for piece in _each("GET /images/get", lambda: client.get_image(reference)):
                done += len(piece)
                if (now := time.monotonic()) - told >= _REPORT_SECONDS:
                    told = now
                    heard(on_progress, done)
                yield piece
            heard(on_progress, done)

        with _missing(reference):
            return await self._run(
                "GET /images/get", lambda client, heard: read(pieces(client, heard)), silence=_SAVE_SILENCE
            )

    async def pull(
        self,
        reference: str,
        *,
        login: tuple[str, str] | None = None,
        on_progress: Callable[[int, int], object] | None = None,
    ) -> None:
        """Pull an image from its registry.

        Args:
            reference: The image.
            login: User and password for the registry; None: anonymous, even if this machine has stored a login.
            on_progress: Called with the bytes fetched, and the total known so far.

        Raises:
            ImageError: The registry has no such image or refused (`image_unreachable`).
            BackendError: The engine refused or stopped answering.
        """
        parsed = _checked(reference)
        # An empty account, and not None, which stands for the stored login
        account = dict(zip(("username", "password"), login, strict=True)) if login else {}
        layers: dict[str, tuple[int, int]] = {}

        def begin(client: Client) -> Any:
            tag = parsed.digest or parsed.tag or "latest"
            return client.pull(parsed.name, tag, stream=True, decode=True, auth_config=account)

        def pull(client: Client, heard: Heard) -> None:
            for said in _each("POST /images/create", lambda: begin(client)):
                heard()
                if error := said.get("error"):
                    raise _unreachable(reference, str(error))
                detail: Any = said.get("progressDetail") or {}
                if said.get("status") == "Downloading" and detail.get("total"):
                    layers[str(said.get("id"))] = (int(detail.get("current") or 0), int(detail["total"]))
                    if on_progress is not None:
                        done, sizes = zip(*layers.values(), strict=True)
                        heard(on_progress, sum(done), sum(sizes))

        try:
            await self._run("POST /images/create", pull, silence=_SILENCE)
        except EngineRefused as error:
            raise _unreachable(reference, error.server_message) from error

    async def tag(self, image: str, target: str) -> None:
        """Add a name to an image of the engine.

        Raises:
            ImageError: The engine has no such image.
            BackendError: The engine refused or stopped answering.
        """
        parsed = _checked(target)
        with _missing(image):
            await self._call("POST /images/tag", lambda client: client.tag(image, parsed.name, parsed.tag or "latest"))

    async def _call(self, call: str, make: Callable[[Client], _T], *, seconds: float = _CALL_SECONDS) -> _T:
        """Make one call and wait for its answer; raises as `_run` does."""

        def work(client: Client, _: Heard) -> _T:
            with _translated(call):
                return make(client)

        return await self._run(call, work, silence=seconds)

    async def _run(self, call: str, work: Callable[[Client, Heard], _T], *, silence: float) -> _T:
        """Run blocking calls in a thread, with a client of their own.

        Args:
            call: The call, for messages.
            work: What to run.
            silence: Seconds that the engine may say nothing.

        Raises:
            EngineRefused: The answer is an error.
            EngineGone: There is no answer, or it was cut off.
            BackendUnavailable: The settings for the engine cannot be used.
        """
        connections = _Connections(self._address.socket)

        def heard(report: Callable[..., object] | None = None, *figures: int) -> None:
            scope.deadline = anyio.current_time() + silence
            if report is not None:
                report(*figures)

        def in_thread() -> _T:
            with closing(connections), closing(self._client(silence)) as client:
                connections.follow(client)
                return work(client, partial(anyio.from_thread.run_sync, heard))

        with anyio.move_on_after(silence) as scope, unwrapped():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(connections.cut_at_end)
                try:
                    return await anyio.to_thread.run_sync(in_thread)
                except Exception:
                    # An error because of the cut is none
                    await anyio.lowlevel.checkpoint_if_cancelled()
                    raise
                finally:
                    tasks.cancel_scope.cancel()
        raise EngineGone(call, f"nothing came for {silence:g} s")

    def _client(self, timeout: float) -> Client:
        from docker import APIClient
        from docker.errors import DockerException
        from docker.tls import TLSConfig

        directory = self._address.certificates
        tls: Any = False
        try:
            if directory is not None:
                authority, certificate = directory / "ca.pem", directory / "cert.pem"
                tls = TLSConfig(
                    client_cert=(str(certificate), str(directory / "key.pem")) if certificate.is_file() else None,
                    ca_cert=str(authority) if authority.is_file() else None,
                    verify=self._address.verified,
                )
        except DockerException as error:
            raise bad_certificates(self._address, error) from error
        try:
            client: Client = APIClient(self._address.url, version=self._api, timeout=math.ceil(timeout), tls=tls)
        except (DockerException, AttributeError, KeyError, TypeError, ValueError) as error:
            raise BackendUnavailable(
                f"The docker command's configuration cannot be used: {error}.",
                code="docker_config_invalid",
                hint="Correct config.json in ~/.docker, or where DOCKER_CONFIG says.",
            ) from error
        # The engine is reached directly, whatever proxies this machine uses
        client.trust_env = False
        return client


class _Connections:
    """The connections of one client, which another thread can cut.

    Args:
        path: The engine's socket; None if it listens on a port.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._over = False

    def follow(self, client: Client) -> None:
        """Note each connection that the client opens from now on."""
        adapter: Any = client.get_adapter(client.base_url)
        choose = adapter.get_connection_with_tls_context

        def chosen(*arguments: Any, **options: Any) -> Any:
            pool = choose(*arguments, **options)
            make = pool._new_conn

            def made() -> Any:
                connection = make()
                connect = connection.connect

                def connected() -> None:
                    if self._path is None:
                        connect()
                        self._note(connection.sock)
                    else:
                        # The package's own leaks a socket that it cannot connect
                        connection.sock = self._connected(self._path, connection.timeout)

                connection.connect = connected
                return connection

            pool._new_conn = made
            return pool

        adapter.get_connection_with_tls_context = chosen

    def _connected(self, path: str, timeout: float) -> socket.socket:
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._note(opened)
        opened.settimeout(timeout)
        opened.connect(path)
        return opened

    def _note(self, opened: socket.socket) -> None:
        with self._lock:
            self._sockets.append(opened)
            if self._over:
                _shut(opened)

    def close(self) -> None:
        """Close all connections."""
        for opened in self._sockets:
            opened.close()

    async def cut_at_end(self) -> None:
        """Wait until cancelled, then cut all connections."""
        try:
            await anyio.sleep_forever()
        finally:
            with self._lock:
                self._over = True
                for opened in self._sockets:
                    _shut(opened)


def _shut(opened: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # Unlike closing, it wakes a thread that reads
        opened.shutdown(socket.SHUT_RDWR)


@contextmanager
def _translated(call: str) -> Generator[None]:
    """Raise errors of the package, and of the libraries that it uses, as those of an engine."""
    from docker.errors import APIError, DockerException, StreamParseError
    from urllib3.exceptions import HTTPError

    try:
        yield
    except APIError as error:
        raise EngineRefused(call, error.status_code or 0, str(error.explanation or "").strip() or str(error)) from error
    except (DockerException, StreamParseError, HTTPError, OSError, KeyError, TypeError, ValueError) as error:
        # Requests raises OSErrors; the package raises KeyErrors and such about answers that no engine gives
        cause: BaseException = error
        while (before := cause.__cause__ or cause.__context__) is not None:
            cause = before
        raise EngineGone(call, str(cause).rstrip(".") or "the connection broke off") from error


def _each(call: str, begin: Callable[[], Iterable[_T]]) -> Iterator[_T]:
    """Read a stream of the engine; only its own errors are translated, and not those of its readers."""
    with _translated(call):
        stream = iter(begin())
    while True:
        with _translated(call):
            try:
                item = next(stream)
            except StopIteration:
                return
        yield item


@contextmanager
def _missing(reference: str) -> Generator[None]:
    """Raise a 404 as an image that the engine does not have."""
    try:
        yield
    except EngineRefused as error:
        if error.status != 404:
            raise
        raise ImageError(
            f"The Docker engine has no image {reference}.",
            code="image_missing",
            hint="Build it, or fetch it with: docker pull.",
            context={"image": reference},
        ) from error


def _unavailable(address: Address, error: EngineGone) -> BackendUnavailable:
    """Why an engine did not answer the first call."""
    from http.client import HTTPException

    from requests.exceptions import ReadTimeout

    cause = error.__cause__
    if not isinstance(cause, Exception) or isinstance(cause, ReadTimeout):
        return silent(address)
    broken = (HTTPException, ConnectionResetError, BrokenPipeError, KeyError, TypeError, ValueError)
    if caused_by(cause, lambda each: isinstance(each, broken)) is not None:
        return not_docker(address, cause)
    return unreachable(address, cause)


def _checked(reference: str) -> ImageRef:
    if reference.startswith("sha256:"):
        return ImageRef(reference, "digest", name=reference)
    return ImageRef.parse(reference).require_runnable(f"The image {reference!r}")


def _unreachable(reference: str, reason: str) -> ImageError:
    return ImageError(
        f"The image {reference} could not be fetched: {reason.rstrip('.')}.",
        code="image_unreachable",
        hint="Check the reference, and that its registry can be reached.",
        context={"image": reference},
    )
