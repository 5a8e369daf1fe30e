"""Running a server: its port, its application, its worker, and its shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import anyio
import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from coworld_core.errors import EnvironmentFault, UsageError
from coworld_core.loopback import is_loopback
from coworld_core.text import authority

from .app import create_app, lifespans
from .data_directory import locked_directory, prepare_directory
from .services import Services, open_services
from .settings import Settings

if TYPE_CHECKING:
    from .operations.traces import PlatformTraces

__all__ = [
    "STOPPING_SECONDS",
    "address_of",
    "bind",
    "locked_directory",
    "require_safe_address",
    "serve",
    "serve_metrics",
    "stop_signals",
]

STOPPING_SECONDS = 5
"""How long open requests may take once the server is told to stop."""


REQUEST_SECONDS = 30.0
"""How long the request line and headers may take to arrive before the connection is closed."""
READER_SECONDS = 60.0
"""How long a client may take for the next part of a response before the connection is closed."""
_PART_BYTES = 16 * 1024


class _Connection(H11Protocol):
    """uvicorn's connection, with deadlines that it lacks: for the arrival of a request, and for reading a response."""

    _deadline: asyncio.TimerHandle | None = None
    _reader_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline for the first request."""
        super().connection_made(transport)
        # Writing pauses as soon as the system takes no more, so that all that is unread has a deadline.
        transport.set_write_buffer_limits(0)
        self._await_request()

    def pause_writing(self) -> None:
        """Start the deadline for reading what could not be written."""
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        """Cancel that deadline."""
        self._settle_reader()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Receive data."""
        super().data_received(data)
        self._await_request()

    def on_response_complete(self) -> None:
        """Continue with the next request, part of which may have arrived."""
        super().on_response_complete()
        self._await_request()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection over to the websocket protocol."""
        self._settle()
        self._settle_reader()
        self.transport.set_write_buffer_limits()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadlines."""
        self._settle()
        self._settle_reader()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        # Cycle: the current or last request; it is set as soon as the headers are complete.
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

    def _await_reader(self) -> None:
        unread = self.transport.get_write_buffer_size()
        self._reader_deadline = self.loop.call_later(READER_SECONDS, self._look_at_reader, unread)

    def _look_at_reader(self, unread: int) -> None:
        if unread - self.transport.get_write_buffer_size() < _PART_BYTES:
            # Closing would wait for the reader.
            self.transport.abort()
        else:
            self._await_reader()

    def _settle_reader(self) -> None:
        if self._reader_deadline is not None:
            self._reader_deadline.cancel()
            self._reader_deadline = None


class _Server(uvicorn.Server):
    """uvicorn without signal handlers, which reports when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = anyio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening."""
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def require_safe_address(settings: Settings, host: str, *, allow_remote: bool) -> None:
    """Require that a server with local processes is reachable only from this machine.

    Args:
        settings: The settings.
        host: The address to listen on.
        allow_remote: Whether the operator allows other addresses; never with trusted uploads.

    Raises:
        UsageError: The address is not loopback, or a name that may change its meaning (code `not_loopback`), or
        uploads
            are trusted without local processes (code `trust_without_processes`).
    """
    if settings.trust_uploads and not settings.local_processes:
        raise UsageError(
            "--trust-uploads is for local processes, and nothing was said that runs such.",
            code="trust_without_processes",
            hint="Leave it out: containers take what is uploaded. Or name your package with --package DIRECTORY.",
        )
    if not settings.local_processes or is_loopback(host) or (allow_remote and not settings.trust_uploads):
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


def bind(host: str, port: int, *, option: str = "--port") -> socket.socket:
    """A listening socket; port 0 takes a free one.

    Raises:
        EnvironmentFault: The address is not available (code `address_in_use`).
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it; without it the second part of a response waits 40 ms for the first to be acknowledged.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((host, port))
        listener.listen(512)
        listener.set_inheritable(False)
    except OSError as error:
        listener.close()
        raise EnvironmentFault(
            f"Cannot listen on {host}:{port}: {error.strerror or error}.",
            code="address_in_use",
            hint=f"Choose another with {option}; 0 takes a free one.",
        ) from error
    return listener


def address_of(listener: socket.socket) -> str:
    """The URL of a listening socket; a wildcard address is given as loopback."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 (compared, not bound)
        host = "127.0.0.1"
    return f"http://{authority(host, port)}"


@asynccontextmanager
async def serve(
    settings: Settings,
    listener: socket.socket,
    *,
    metrics: socket.socket | None = None,
    traces: PlatformTraces | None = None,
) -> AsyncGenerator[Services]:
    """Run a server while the context is open.

    Args:
        settings: Its settings; clients reach the listener at their `url`.
        listener: The listening socket, closed at the end.
        metrics: Where it shows its metrics, closed at the end; None: nowhere.
        traces: Traces its requests, and the episodes that it plays; None: nothing is traced.

    Raises:
        EnvironmentFault: The database, the artifact store or the directory cannot be used.
    """
    async with AsyncExitStack() as stack:
        stack.callback(listener.close)
        _raise_descriptors()
        stack.enter_context(locked_directory(prepare_directory(settings.data)))
        services = await stack.enter_async_context(open_services(settings))
        services.runtime.traces = traces
        if metrics is not None:
            await stack.enter_async_context(serve_metrics(services, metrics))
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
            forwarded_allow_ips=list(settings.trusted_proxies),
        )
        async with _answering(config, listener):
            try:
                yield services
            finally:
                # Requests that wait for a change end now.
                services.runtime.changes.close()


@asynccontextmanager
async def serve_metrics(services: Services, listener: socket.socket) -> AsyncGenerator[None]:
    """Count what happens, and show it at a listener while the context is open; it is closed at the end.

    Raises:
        UsageError: `prometheus-client` is not installed.
    """
    from coworld_runner.telemetry import open_metrics

    from .operations.metrics import PlatformMetrics, platform_trouble

    services.runtime.metrics = PlatformMetrics(services)
    read = services.runtime.metrics.read
    async with open_metrics(listener, read=read, trouble=lambda: platform_trouble(services)):
        yield


@asynccontextmanager
async def _answering(config: uvicorn.Config, listener: socket.socket) -> AsyncGenerator[None]:
    """Answer requests at a listener while the context is open."""
    server = _Server(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [listener])
        await server.listening.wait()
        try:
            yield
        finally:
            server.should_exit = True


def _raise_descriptors() -> None:
    """Allow as many connections as the system permits: the usual 1,024 are used up by a few hundred silent clients."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextmanager
def stop_signals(note: Callable[[str], None]) -> Generator[Callable[[], Awaitable[None]]]:
    """Treat SIGINT, SIGTERM and SIGHUP as requests for an orderly stop, even before anything waits for them.

    Yields a function that waits for such a signal and reports it.
    """
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:

        async def stopped() -> None:
            async for number in signals:
                note(f"{number.name}: stopping.")
                return

        yield stopped


def with_url(settings: Settings, listener: socket.socket, url: str | None) -> Settings:
    """The settings with the addresses of a server: `url`, or the listener's own, and that for other servers."""
    internal = settings.internal_address or _own_address(listener)
    return replace(settings, url=(url or address_of(listener)).rstrip("/"), internal_address=internal)


def _own_address(listener: socket.socket) -> str:
    """`host:port` of a listening socket; a wildcard address is given as this machine's."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 (compared, not bound)
        try:
            host = socket.gethostbyname(socket.gethostname())
        except OSError:
            host = "127.0.0.1"
    return authority(host, port)


logging.getLogger("observatory").addHandler(logging.NullHandler())
