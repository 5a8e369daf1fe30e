"""A game's interface to its process environment, the same for every game: config, targets, port and signals."""

from __future__ import annotations

import math
import os
import signal
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, cast, get_args

import anyio

from coworld_core.errors import UsageError

from ...package.locations import read_location
from ...package.transfers import Method, Transfers, read_document
from ...web.page_documents import Document
from .game_server import Load, ReplayFeed, replay_server
from .pages import render
from .sample_stream import SampleStream

__all__ = [
    "Stop",
    "Target",
    "announce",
    "heeding_signals",
    "open_listener",
    "read_config_document",
    "read_countdown",
    "results_and_replay",
    "samples_asked_for",
    "seat_events",
    "show_replays",
]

MAX_CONFIG: Final = 4 * 1024 * 1024
MAX_COUNTDOWN: Final = 60.0


async def read_config_document() -> bytes:
    """Read the game config at the address in the environment.

    Raises:
        UsageError: The address is not set, or the config cannot be read.
        RemoteError: The config cannot be fetched.
    """
    return await read_document(_required("COGAME_CONFIG_URI"), what="game config", limit=MAX_CONFIG)


@dataclass(frozen=True, kw_only=True)
class Target:
    """The destination of one of a game's files.

    Attributes:
        uri: An http(s) or file address, or a path.
        method: How it is sent to an http(s) server.
        what: A name for the file, for messages.
        content_type: Its media type.
    """

    uri: str
    method: Method
    what: str
    content_type: str

    @classmethod
    def named(cls, variable: str, *, what: str, content_type: str, method: str | None = None) -> Target:
        """Read a target from the environment, so that an invalid one is refused now and not at the end of the game.

        Args:
            variable: The variable with the address.
            what: A name for the file, for messages.
            content_type: Its media type.
            method: The variable with the method, which may be unset.

        Raises:
            UsageError: `variable` is unset, or one of the two is invalid.
        """
        uri = _required(variable)
        if read_location(uri, what=variable).kind == "s3":
            raise UsageError(
                f"{variable} names an s3:// address, which a game cannot write to.",
                code="bad_scheme",
                hint="A presigned https address of the object works.",
            )
        word = (os.environ.get(method) if method else None) or "PUT"
        if word.upper() not in get_args(Method):
            raise UsageError(f"{method} must be PUT or POST, not {word!r}.", code="bad_method")
        return cls(uri=uri, method=cast("Method", word.upper()), what=what, content_type=content_type)

    async def write(self, content: bytes, transfers: Transfers) -> None:
        """Write the file, whole or not at all.

        Raises:
            TransferError: It cannot be written.
        """
        await transfers.put(self.uri, content, content_type=self.content_type, what=self.what, method=self.method)


def results_and_replay(*, replay_type: str) -> tuple[Target, Target]:
    """Read the targets of the results and of the replay from the environment.

    Args:
        replay_type: The media type of the replay.

    Raises:
        UsageError: A variable is unset or invalid.
    """
    return (
        Target.named(
            "COGAME_RESULTS_URI", method="COGAME_RESULTS_METHOD", what="results", content_type="application/json"
        ),
        Target.named(
            "COGAME_SAVE_REPLAY_URI", method="COGAME_SAVE_REPLAY_METHOD", what="replay", content_type=replay_type
        ),
    )


def seat_events() -> Target | None:
    """Read the target of the events from the environment; None if the runner, an older one, asks for none.

    Raises:
        UsageError: It is invalid.
    """
    if not os.environ.get("COGAME_EVENTS_URI"):
        return None
    return Target.named("COGAME_EVENTS_URI", what="events", content_type="application/x-ndjson")


def samples_asked_for() -> SampleStream | None:
    """Return what collects samples, if the runner asks for them; its token is in the environment."""
    token = os.environ.get("COWORLD_SAMPLES_TOKEN")
    return SampleStream(token) if token else None


def read_countdown() -> float:
    """Return the seconds to count down before a game in which people play; 0 if the variable is unset.

    Raises:
        UsageError: The variable is not a number of seconds from 0 to `MAX_COUNTDOWN`.
    """
    text = os.environ.get("COWORLD_COUNTDOWN_SECONDS", "0")
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= MAX_COUNTDOWN:
        words = f"COWORLD_COUNTDOWN_SECONDS is {text!r}; it must be a number from 0 to {MAX_COUNTDOWN:g}."
        raise UsageError(words, code="environment_invalid")
    return seconds


class Stop:
    """The first signal received, and the scope that it cancels.

    Attributes:
        playing: The scope.
        number: The signal; None until one is received.
    """

    def __init__(self) -> None:
        self.playing = anyio.CancelScope()
        self.number: signal.Signals | None = None


@asynccontextmanager
async def heeding_signals() -> AsyncGenerator[Stop]:
    """While the context is open, SIGTERM and SIGINT cancel the scope `Stop.playing` and nothing else."""
    stop = Stop()

    async def heed() -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                stop.number = stop.number or number
                stop.playing.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heed)
        yield stop
        tasks.cancel_scope.cancel()


async def show_replays(
    feed: ReplayFeed | None,
    *,
    load: Load,
    say: Callable[[str], None],
    pages: Callable[[str], Document] = render,
) -> int:
    """Show one replay, or the replays that requests name, until a signal arrives; returns the exit code, which is 0.

    Args:
        feed: The one replay; None: each request names its replay.
        load: Loads a replay by its address.
        say: Receives log lines.
        pages: Makes the page `replay`.

    Raises:
        UsageError: The address in the environment cannot be listened on.
    """
    with open_listener() as listener:
        async with (
            replay_server(feed, load=load, listener=listener, pages=pages),
            heeding_signals() as stop,
        ):
            announce(listener, say)
            with stop.playing:
                await anyio.sleep_forever()
    return 0


def open_listener() -> socket.socket:
    """Listen on the address in the environment, by default on port 8080 of all addresses.

    Raises:
        UsageError: The port is invalid or taken.
    """
    host = os.environ.get("COGAME_HOST") or "0.0.0.0"  # noqa: S104 - a container is reached from outside
    word = os.environ.get("COGAME_PORT") or "8080"
    if not (word.isascii() and word.isdigit() and int(word) < 65536):
        raise UsageError(f"COGAME_PORT must be the number of a port, not {word!r}.", code="bad_port")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(word)), family=family, backlog=socket.SOMAXCONN)
    except OSError as error:
        raise UsageError(
            f"Cannot listen on {host}, port {word}: {error.strerror or error}.", code="port_taken"
        ) from None


def announce(listener: socket.socket, say: Callable[[str], None]) -> None:
    """Log the address that the game listens on."""
    host, port = listener.getsockname()[:2]
    say(f"listening on http://{f'[{host}]' if ':' in host else host}:{port}")


def _required(variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        raise UsageError(
            f"{variable} is not set.",
            code="variable_missing",
            hint="A game needs COGAME_CONFIG_URI, COGAME_RESULTS_URI and COGAME_SAVE_REPLAY_URI; a replay needs "
            "COGAME_LOAD_REPLAY_URI. Whatever runs an episode sets them.",
        )
    return value
