"""A server that runs: its port, its application, its worker, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import resource
import signal
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import anyio
import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from coworld_core.errors import EnvironmentFault, UsageError

from .app import create_app, lifespans
from .services import Services, open_services
from .settings import Settings, prepare_directory

__all__ = ["STOPPING_SECONDS", "bind", "only_one", "require_place", "serve", "stop_signals"]

STOPPING_SECONDS = 5
"""How long requests on their way may take once the server is told to stop."""


REQUEST_SECONDS = 30.0
"""How long the line and the headers of a request may take; then the connection is closed."""


class _Connection(H11Protocol):
    """uvicorn's end of a connection, with a deadline for what it leaves open: the way to a whole request."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to listen to somebody."""
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """Read on."""
        super().data_received(data)
        self._await_request()

    def on_response_complete(self) -> None:
        """Go on to the next request, of which a part may be there."""
        super().on_response_complete()
        self._await_request()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection over."""
        self._settle()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave."""
        self._settle()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        # cycle: the request that is being answered, or the last one that was; it is set as soon as headers are whole
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if self.transport.get_protocol() is not self or (cycle is not None and not cycle.response_complete):
            self._settle()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self._hang_up)

    def _hang_up(self) -> None:
        self._deadline = None
        self.transport.close()

    def _settle(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Server(uvicorn.Server):
    """uvicorn without signal handlers (they are ours), which says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = anyio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def require_place(settings: Settings, host: str, *, allow_remote: bool) -> None:
    """Hold that local processes are reached from this machine alone.

    Args:
        settings: What runs.
        host: The address to listen on.
        allow_remote: Whether the operator has said that others may come; never to where uploads are trusted.

    Raises:
        UsageError: The address is another, or a name that may come to mean another (code ``not_loopback``), or uploads
            are to be trusted where they need not be (code ``trust_without_processes``).
    """
    if settings.trust_uploads and not settings.local_processes:
        raise UsageError(
            "--trust-uploads is for local processes, and nothing was said that runs such.",
            code="trust_without_processes",
            hint="Leave it out: containers take what is uploaded. Or name your package with --package DIRECTORY.",
        )
    if not settings.local_processes or _is_loopback(host) or (allow_remote and not settings.trust_uploads):
        return
    if settings.trust_uploads:
        raise UsageError(
            f"What is uploaded would run as local processes, and {host} can be reached from other machines.",
            code="not_loopback",
            hint="Let containers play (--backend docker), or leave out --trust-uploads.",
        )
    raise UsageError(
        f"Episodes would run as local processes, and {host} can be reached from other machines.",
        code="not_loopback",
        hint="Let containers play them (--backend docker), or say --allow-remote if you trust whoever gets here.",
    )


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    Raises:
        EnvironmentFault: When the address cannot be had (code ``address_in_use``).
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # connections take it over; without it the second part of an answer waits 40 ms for the first to be confirmed
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((host, port))
        listener.listen(512)
        listener.set_inheritable(False)
    except OSError as error:
        listener.close()
        raise EnvironmentFault(
            f"{host}:{port} cannot be listened on: {error.strerror or error}.",
            code="address_in_use",
            hint="Choose another with --port; 0 takes a free one.",
        ) from error
    return listener


def address_of(listener: socket.socket) -> str:
    """The URL of a listening socket; a wildcard address is given as loopback."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 (compared, not bound)
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def only_one(data: Path) -> Generator[None]:
    """Hold the directory's lock: one server at a time looks after a registry.

    Raises:
        EnvironmentFault: When another server holds it (code ``already_running``).
    """
    import fcntl

    with (data / "server.lock").open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EnvironmentFault(
                f"Another Observatory serves {data} already.",
                code="already_running",
                hint="Stop it first, or give this one another --data directory.",
            ) from None
        yield


@asynccontextmanager
async def serve(settings: Settings, listener: socket.socket) -> AsyncGenerator[Services]:
    """A server that answers as long as the context is open.

    Args:
        settings: How it is set up; its ``url`` is how clients reach the listener.
        listener: Where it listens; closed at the end.

    Raises:
        EnvironmentFault: When the database, the artifact store or the directory cannot be used.
    """
    async with AsyncExitStack() as stack:
        stack.callback(listener.close)
        _raise_descriptors()
        stack.enter_context(only_one(prepare_directory(settings.data)))
        services = await stack.enter_async_context(open_services(settings))
        await stack.enter_async_context(lifespans(services))
        config = uvicorn.Config(
            create_app(services),
            http=_Connection,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            timeout_graceful_shutdown=STOPPING_SECONDS,
            timeout_keep_alive=30,
            ws_max_size=16 * 1024 * 1024,
        )
        server = _Server(config)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            await server.listening.wait()
            try:
                yield services
            finally:
                # who waits for a change need not wait any more
                services.runtime.bell.close()
                server.should_exit = True


def _raise_descriptors() -> None:
    """Have as many connections as the system allows: the usual 1,024 are taken by a few hundred that say nothing."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextmanager
def stop_signals(note: Callable[[str], None]) -> Generator[Callable[[], Awaitable[None]]]:
    """Take SIGINT, SIGTERM and SIGHUP as a wish to stop in good order, also one that comes before anybody waits.

    Gives a function that waits for the wish, and says which it was.
    """
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:

        async def stopped() -> None:
            async for number in signals:
                note(f"{number.name}: stopping.")
                return

        yield stopped


def with_url(settings: Settings, listener: socket.socket, url: str | None) -> Settings:
    """The settings of a server on a listener, reached by ``url`` or by the listener's own address."""
    return replace(settings, url=(url or address_of(listener)).rstrip("/"))


logging.getLogger("observatory").addHandler(logging.NullHandler())
