"""What the server does with its environment: one game, one replay, or replays by request."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anyio
import anyio.lowlevel
import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from paintarena.artifacts import (
    Method,
    load_replay,
    local_path,
    parse_method,
    read_bytes,
    redacted,
    write_bytes,
)
from paintarena.config import parse_config
from paintarena.logs import Log
from paintarena.match import Match
from paintarena.web import admin_wanted, game_app, replay_app, replay_service

CLOSING_SECONDS: Final = 0.5
"""How long the end of a game waits for clients to take their last message and close."""

MAX_COUNTDOWN: Final = 60.0

MAX_MESSAGE: Final = 64 * 1024
"""Largest message a client may send, in bytes; a move needs twenty."""


class UsageError(Exception):
    """The environment does not say what to do; the message says what is missing."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where one artifact goes.

    Attributes:
        uri: A `file://` URI, a path, or an `http(s)` address.
        method: How it is sent to an address.
    """

    uri: str
    method: Method

    async def write(self, chunks: Iterable[bytes]) -> None:
        """Write without holding up the connections meanwhile.

        Raises:
            ArtifactError: It cannot be written.
        """
        await anyio.to_thread.run_sync(
            partial(write_bytes, self.uri, chunks, method=self.method), abandon_on_cancel=True
        )


async def serve() -> int:
    """Do what the environment asks for and return the exit code.

    Raises:
        UsageError: A variable is missing or makes no sense.
        ConfigError: The config cannot be played.
        ArtifactError: The config or the replay cannot be read. During a game every failure comes as a group.
    """
    log = Log(_log_uri())
    try:
        if uri := os.environ.get("COGAME_LOAD_REPLAY_URI"):
            return await _host(replay_app(load_replay(uri)), log=log, compress=True)
        if os.environ.get("COGAME_REPLAY_SERVER") == "1":
            return await _host(replay_service(), log=log, compress=True)
        return await _play(log)
    except Exception as error:
        log.note(f"the game failed: {error}")
        raise
    finally:
        await log.flush()


def _countdown() -> float:
    """The seconds to count down for people before the first tick: `COWORLD_COUNTDOWN_SECONDS`, 60 at most."""
    text = os.environ.get("COWORLD_COUNTDOWN_SECONDS", "0")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_COUNTDOWN:
        raise UsageError(f"COWORLD_COUNTDOWN_SECONDS is {text!r}; it must be a number from 0 to {MAX_COUNTDOWN:g}")
    return seconds


async def _play(log: Log) -> int:
    config = parse_config(read_bytes(_required("COGAME_CONFIG_URI")))
    results = _target("COGAME_RESULTS_URI", method="COGAME_RESULTS_METHOD")
    replay = _target("COGAME_SAVE_REPLAY_URI", method="COGAME_SAVE_REPLAY_METHOD")
    match = Match(config, log=log, countdown=_countdown())

    async def game(server: "_Server") -> None:
        await match.play()
        if match.lateness.ticks:
            log.complain(
                f"late ticks: {match.lateness.ticks} of {config.max_ticks}, worst {match.lateness.worst * 1000:.0f} ms"
            )
        await results.write([match.results()])
        log.line(f"results written to {redacted(results.uri)}")
        await replay.write(match.replay())
        log.line(f"replay written to {redacted(replay.uri)}")
        match.finish()
        await server.talked_out()

    return await _host(game_app(match, config, log=log, admin=admin_wanted()), log=log, work=game)


async def _host(
    app: Starlette,
    *,
    log: Log,
    work: "Callable[[_Server], Awaitable[None]] | None" = None,
    compress: bool = False,
) -> int:
    """Serve `app` until `work` is done or a signal comes, and return the exit code.

    Whatever goes wrong in `work` or in the server ends both. To stop a server that has no work is its ordinary
    end, so that is no failure.
    """
    listener = _listener()
    server = web_server(app, log=log, compress=compress)
    stopped = 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [listener])
        try:
            async with anyio.create_task_group() as working:

                async def heed_signals() -> None:
                    nonlocal stopped
                    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                        async for number in signals:
                            if work is not None:
                                stopped = 128 + number
                                log.complain(f"stopped by {number.name} before the end of the game")
                            working.cancel_scope.cancel()
                            return

                working.start_soon(heed_signals)
                working.start_soon(log.ship)
                if work is not None:
                    await work(server)
                    working.cancel_scope.cancel()
        finally:
            # Also after a failure: connections that are cut off in mid-sentence would each leave a traceback and
            # bury the one that matters.
            with anyio.CancelScope(shield=True):
                await server.stop()
    return stopped


def web_server(app: Starlette, *, log: Log, compress: bool = False) -> "_Server":
    """Return the web server of an app, not started yet.

    Args:
        app: What it serves.
        log: Where it says that it listens.
        compress: Whether sockets compress: worth it for a replay, not for the short messages of a game.
    """
    return _Server(
        uvicorn.Config(
            app,
            http="h11",
            ws=_Sockets,
            ws_max_size=MAX_MESSAGE,
            # Pings keep idle proxies open. Nobody is dropped for a late answer: a player may be thinking.
            ws_ping_timeout=None,
            ws_per_message_deflate=compress,
            lifespan="off",
            # The server's own lines show the query of a request, and with it tokens.
            access_log=False,
            log_config=None,
            log_level="warning",
            proxy_headers=False,
            server_header=False,
        ),
        log=log,
    )


class _Sockets(WebSocketsSansIOProtocol):
    """Connections that say nothing more once they are closing.

    The original answers whoever is just coming in when the server ends, and does not remember it: a handler that
    accepts or refuses the same client a moment later would trip over that answer.
    """

    async def send(self, message: Any) -> None:
        """Send, or tell the handler that nobody is there."""
        if self.transport.is_closing():
            raise ClientDisconnected
        await super().send(message)


class _Server(uvicorn.Server):
    """The web server, without its signal handlers, and prompt: the original looks ten times a second."""

    def __init__(self, config: uvicorn.Config, *, log: Log) -> None:
        super().__init__(config)
        self._log = log
        self._stopping = anyio.Event()
        self._ended = anyio.Event()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until stopped."""
        try:
            await self._serve(sockets)
        finally:
            self._ended.set()

    async def stop(self) -> None:
        """Close every connection and stop serving, within `CLOSING_SECONDS`."""
        self._stopping.set()
        await self._ended.wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start and say where."""
        await super().startup(sockets)
        for listener in sockets or []:
            host, port = listener.getsockname()[:2]
            self._log.line(f"listening on http://{f'[{host}]' if ':' in host else host}:{port}")

    async def main_loop(self) -> None:
        """Wait for the end; once a second the date that answers carry is brought up to date."""
        while not self._stopping.is_set():
            await self.on_tick(0)
            with anyio.move_on_after(1):
                await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say goodbye to whoever is still connected, and to who was just coming in; then hang up.

        Nothing is left to the end of the event loop, which would cancel it in the middle of things.
        """
        for listening in self.servers:
            listening.close()
        # What was accepted before becomes a connection two rounds of the event loop later.
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        told: set[object] = set()

        def gone() -> bool:
            state = self.server_state
            for connection in state.connections - told:
                told.add(connection)
                connection.shutdown()
            return not (state.connections or state.tasks)

        if await _until(gone):
            return
        for connection in self.server_state.connections:
            connection.transport.abort()
        if await _until(gone):
            return
        # What is still under way waits for a thread, not for a client.
        logging.getLogger("uvicorn.error").addFilter(_is_no_cancellation)
        for task in tuple(self.server_state.tasks):
            task.cancel()
        await _until(gone)

    async def talked_out(self) -> None:
        """Wait until the clients closed their sockets, at most `CLOSING_SECONDS`.

        Ending the process while a client's message is unread would make the kernel reset the connection, and the
        client could lose its `final`.
        """
        protocol = self.config.ws_protocol_class
        assert protocol is not None
        await _until(lambda: not any(isinstance(open_, protocol) for open_ in self.server_state.connections))


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """Leave out that a handler was cancelled: so it was, by us."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


async def _until(true: Callable[[], bool]) -> bool:
    """Wait for a condition at most `CLOSING_SECONDS`; the web server keeps sets and tells nobody of changes."""
    with anyio.move_on_after(CLOSING_SECONDS):
        while not true():  # noqa: ASYNC110
            await anyio.sleep(0.005)
    return true()


def _listener() -> socket.socket:
    host = os.environ.get("COGAME_HOST") or "0.0.0.0"  # noqa: S104 - a container is reached from outside
    word = os.environ.get("COGAME_PORT") or "8080"
    if not (word.isascii() and word.isdigit() and int(word) < 65536):
        raise UsageError(f"COGAME_PORT must be a port number, got {word!r}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(word)), family=family)
    except OSError as error:
        raise UsageError(f"cannot listen on {host} port {word}: {error.strerror or error}") from None


def _target(variable: str, *, method: str) -> Target:
    """Read where an artifact goes, and refuse now what could only fail at the end of the game."""
    uri = _required(variable)
    local_path(uri)
    return Target(uri=uri, method=parse_method(os.environ.get(method), variable=method))


def _required(variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        raise UsageError(
            f"{variable} is not set. A game needs COGAME_CONFIG_URI, COGAME_RESULTS_URI and COGAME_SAVE_REPLAY_URI; "
            "a replay needs COGAME_LOAD_REPLAY_URI. `coworld run-episode` sets them for you."
        )
    return value


def _log_uri() -> str | None:
    uri = os.environ.get("COGAME_LOG_URI")
    if uri and not uri.startswith(("http://", "https://")):
        raise UsageError("COGAME_LOG_URI must be an http:// or https:// address")
    return uri or None
