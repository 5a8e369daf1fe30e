"""Runs a commissioner's program while it is needed, and holds conversations with it, each with timeouts."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import anyio
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage
from websockets.frames import CloseCode
from websockets.protocol import State

from coworld_core.commissioner.messages import (
    CommissionerMessage,
    EpisodeCancel,
    HostMessage,
    RoundComplete,
    ScheduleEpisodes,
    misplaced,
    read_commissioner_message,
)
from coworld_core.documents.json_text import has_too_many_values
from coworld_core.errors import BackendError, CommissionerError, NotReadyError, StartError

from ...backend import Backend, HttpProbe, Limits, Placement, Port, Publish, Unit, enforceable
from ...episode.episode_options import GAME_LIMITS
from ...episode.program import Program, open_program
from ...episode.unit_specs import game_place
from ...errors import OWN_DOING, PLATFORM_ENDS
from ...web.game_socket import connect_to_game, failure_text, is_too_long
from .commissioner_lookup import FoundCommissioner

__all__ = ["Commissioner", "CommissionerOptions", "CommissionerSocket", "open_commissioner"]

_Answer = TypeVar("_Answer", bound=CommissionerMessage)
_MOST_VALUES = 200_000
"""Maximum number of values of one message: parsing cannot be interrupted."""
_MOST_LATER = 100
"""Maximum number of other messages before an answer."""


@dataclass(frozen=True, kw_only=True)
class CommissionerOptions:
    """How to run a commissioner. Times are in seconds."""

    start_timeout: float = 30.0
    """Time for its program to answer `/healthz`."""
    reply_timeout: float = 120.0
    """Time for each of its messages; time spent playing episodes does not count."""
    ping_timeout: float = 30.0
    """Time to answer a ping."""
    message_bytes: int = 64 * 1024 * 1024
    """Maximum size of one of its messages, and of all messages that it sends before an answer."""
    stop_grace: float = 5.0
    """Time between TERM and KILL."""
    limits: Limits = GAME_LIMITS
    """Resource limits; defaults that a backend cannot enforce are dropped."""


class CommissionerSocket:
    """One conversation with a commissioner.

    Every method raises `CommissionerError` with one of these codes, or `BackendError` (`commissioner_lost`) if
    the platform stopped the program:

    * `commissioner_silent`: it did not reply in time or did not answer a ping.
    * `commissioner_gone`: it closed the connection or exited.
    * `commissioner_oversized`: a message is too long, or there are too many before an answer.
    * `commissioner_nonsense`: a message is unknown or not allowed at this point.
    """

    def __init__(self, connection: ClientConnection, unit: Unit, options: CommissionerOptions) -> None:
        self._connection = connection
        self._unit = unit
        self._options = options
        self._later: deque[tuple[CommissionerMessage, int]] = deque()
        """Messages that arrived before the answer to a hook, with their sizes."""

    @property
    def closed(self) -> bool:
        """Whether the conversation is over: the commissioner disconnected, exited, or answered no ping."""
        return self._connection.state is State.CLOSED

    async def require_open(self) -> None:
        """Raise the error for the end of the conversation if it is over."""
        if self.closed:
            raise await self._gone(self._connection.protocol.close_exc)

    async def tell(self, message: HostMessage) -> None:
        """Send a message."""
        try:
            with anyio.fail_after(self._options.reply_timeout):
                await self._connection.send(message.model_dump_json())
        except TimeoutError:
            raise self._silent("has accepted no message") from None
        except ConnectionClosed as error:
            raise await self._gone(error) from error

    async def receive(self) -> CommissionerMessage:
        """Wait for its next message; one that arrived before the answer to a hook comes first."""
        if self._later:
            return self._later.popleft()[0]
        return _read(await self._receive())

    async def _receive(self) -> str | bytes:
        """Wait for a message from the connection."""
        try:
            with anyio.fail_after(self._options.reply_timeout):
                return await self._connection.recv()
        except TimeoutError:
            raise self._silent("has sent nothing") from None
        except ConnectionClosed as error:
            raise await self._gone(error) from error

    async def ask(self, request: HostMessage, answer: type[_Answer], *, in_round: bool) -> _Answer:
        """Send a request and wait for its answer.

        In a round, `receive` returns messages of the round that arrive before the answer. Their number and their total
        size are limited (`CommissionerOptions.message_bytes`). Outside, there are no episodes, so cancelling one has
        no effect.
        """
        await self.tell(request)
        early = (ScheduleEpisodes, RoundComplete, EpisodeCancel) if in_round else (EpisodeCancel,)
        while True:
            text = await self._receive()
            heard = _read(text)
            if isinstance(heard, answer):
                return heard
            if not isinstance(heard, early):
                raise misplaced(heard, request)
            self._later.append((heard, len(text.encode() if isinstance(text, str) else text)))
            most, size = self._options.message_bytes, sum(kept for _, kept in self._later)
            if len(self._later) > _MOST_LATER or size > most:
                limit = f"{most} bytes" if size > most else f"{_MOST_LATER} messages"
                raise CommissionerError(
                    f"The commissioner sent more than {limit} before it answered {request.type}.",
                    code="commissioner_oversized",
                    hint="It must answer the request before it sends more.",
                )

    def _silent(self, what: str) -> CommissionerError:
        return CommissionerError(
            f"The commissioner {what} for {self._options.reply_timeout:g} s.", code="commissioner_silent"
        )

    async def _gone(self, error: ConnectionClosed) -> CommissionerError | BackendError:
        if is_too_long(error):
            return CommissionerError(
                f"A message of the commissioner is longer than {self._options.message_bytes} bytes.",
                code="commissioner_oversized",
            )
        if error.sent is not None and error.sent.code == CloseCode.INTERNAL_ERROR and error.rcvd is None:
            return CommissionerError(
                f"The commissioner has answered no ping for {self._options.ping_timeout:g} s.",
                code="commissioner_silent",
            )
        exit = None
        # A program that disconnects usually exits; its exit says more than the disconnection
        with anyio.move_on_after(1.0):
            exit = await self._unit.wait()
        if exit is not None and exit.reason in PLATFORM_ENDS:
            return BackendError(f"The commissioner {exit}.", code="commissioner_lost", hint="Run it again.")
        return CommissionerError(
            f"The commissioner {exit}."
            if exit is not None
            else f"The commissioner disconnected: {failure_text(error)}.",
            code="commissioner_gone",
            context={"log_tail": await self._unit.log_tail()},
        )


def _read(text: str | bytes) -> CommissionerMessage:
    if has_too_many_values(text, _MOST_VALUES):
        raise CommissionerError(
            f"A message of the commissioner has more than {_MOST_VALUES} values (commas and opening brackets).",
            code="commissioner_oversized",
        )
    return read_commissioner_message(text)


class Commissioner:
    """A commissioner whose program is running."""

    def __init__(self, unit: Unit, options: CommissionerOptions) -> None:
        self.unit = unit
        self._options = options

    @asynccontextmanager
    async def converse(self) -> AsyncGenerator[CommissionerSocket]:
        """Open a conversation, and end it on leaving.

        Raises:
            CommissionerError: Code `commissioner_gone`: it does not accept the connection.
        """
        options = self._options
        try:
            connection = await connect_to_game(
                self.unit.endpoint().here,
                "/round",
                max_size=options.message_bytes,
                ping_interval=options.ping_timeout,
                ping_timeout=options.ping_timeout,
                open_timeout=options.start_timeout,
                close_timeout=1.0,
            )
        except (InvalidHandshake, InvalidMessage, OSError, EOFError) as error:
            raise CommissionerError(
                f"The commissioner does not accept connections at /round: {failure_text(error)}.",
                code="commissioner_gone",
                context={"log_tail": await self.unit.log_tail()},
            ) from error
        try:
            yield CommissionerSocket(connection, self.unit, options)
        finally:
            with anyio.CancelScope(shield=True):
                await connection.close()


@asynccontextmanager
async def open_commissioner(
    found: FoundCommissioner,
    *,
    backend: Backend,
    publish: Publish | None = None,
    options: CommissionerOptions | None = None,
    run_id: str | None = None,
) -> AsyncGenerator[Commissioner]:
    """Start the program of a commissioner, and stop it on leaving.

    Args:
        found: The commissioner.
        backend: An entered backend.
        publish: Receives events.
        options: How to run it.
        run_id: The label of the program, as in `open_program`.

    Yields:
        The commissioner, once it answers `/healthz`.

    Raises:
        CommissionerError: Code `commissioner_never_started`: it exited, or did not answer in time.
        ImageError: The image is not available.
        EnvironmentFault: The machine or the engine failed.
    """
    options = options or CommissionerOptions()
    runnable = found.runnable

    def environment(placement: Placement) -> Mapping[str, str]:
        return {**runnable.env, **game_place(placement)}

    program = Program(
        name="commissioner",
        component="commissioner",
        image=runnable.image,
        argv=tuple(runnable.run),
        environment=environment,
        ports=(Port(name="http"),),
        network="game-only" if backend.capabilities.network_isolation else "open",
        limits=enforceable(options.limits, backend.capabilities),
    )
    try:
        async with open_program(
            program, backend=backend, publish=publish, run_id=run_id, stop_grace=options.stop_grace
        ) as running:
            try:
                await running.unit.wait_ready(HttpProbe(timeout=options.start_timeout))
            except NotReadyError as error:
                raise _never_started(error.message, await running.unit.log_tail()) from error
            yield Commissioner(running.unit, options)
    except StartError as error:
        if error.code not in OWN_DOING:
            raise
        raise _never_started(error.message, "") from error


def _never_started(why: str, log_tail: str) -> CommissionerError:
    return CommissionerError(
        f"The commissioner has not started: {why}",
        code="commissioner_never_started",
        hint="It serves /healthz and the socket /round at COGAME_HOST and COGAME_PORT.",
        context={"log_tail": log_tail},
    )
