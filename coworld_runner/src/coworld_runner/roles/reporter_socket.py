"""Asks a reporter that serves the socket `/reporter`, as it does on a platform, and passes on how far it is."""

from __future__ import annotations

from typing import TypeVar

import anyio
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

from coworld_core.documents.json_text import has_too_many_values
from coworld_core.episode.events import RoleProgressed
from coworld_core.errors import NotReadyError, RecordError
from coworld_core.roles.report_request import (
    REPORTER_PROTOCOL,
    ReporterMessage,
    ReporterReady,
    ReportFailed,
    ReportFinished,
    ReportProgress,
    ReportStarted,
    read_report_request,
    read_reporter_message,
)
from coworld_core.text.terminal import strip_controls

from ..backend import HttpProbe, Publish, Unit
from ..errors import TalkError
from ..web.game_socket import connect_to_game, failure_text, is_too_long

__all__ = ["ask_reporter"]

_Message = TypeVar("_Message", bound=ReporterMessage)
_START_SECONDS = 60.0
"""Time for the reporter to answer `/healthz`."""
_MESSAGE_BYTES = 1 << 20
_MOST_VALUES = 10_000
"""Values of one message: parsing cannot be interrupted."""
_EVENT_EVERY = 0.1
"""Seconds between two events about progress, however often the reporter tells."""
_LONGEST = 500
"""Characters of what a reporter says that are repeated."""


async def ask_reporter(unit: Unit, request: str, identifier: str, *, publish: Publish) -> None:
    """Send a reporter its request, and listen until its report is written.

    Args:
        unit: The reporter, which was started.
        request: The request, as JSON.
        identifier: The reporter's id, for events.
        publish: Receives a `RoleProgressed` event for what the reporter tells, at most ten a second.

    Raises:
        TalkError: It serves no such socket, breaks the protocol, gives up, or leaves.
    """
    asked = read_report_request(request.encode())
    try:
        await unit.wait_ready(HttpProbe(timeout=_START_SECONDS))
    except NotReadyError as error:
        raise TalkError(
            f"The reporter serves nothing: {error.message}",
            code="program_never_started",
            hint="One that is asked on its socket serves /healthz and /reporter at COGAME_HOST and COGAME_PORT.",
        ) from error
    try:
        socket = connect_to_game(unit.endpoint().here, "/reporter", max_size=_MESSAGE_BYTES, close_timeout=1.0)
        async with socket as connection:
            await _converse(connection, request, asked.request_id, tell=_Teller(identifier, publish))
    except ConnectionClosed as error:
        why = f"says more than {_MESSAGE_BYTES} bytes at once" if is_too_long(error) else "left before it had finished"
        raise TalkError(f"The reporter {why}: {failure_text(error)}.", hint="Read its log.") from error
    except (InvalidHandshake, InvalidMessage, OSError, EOFError, TimeoutError) as error:
        raise TalkError(
            f"The reporter does not accept connections at /reporter: {failure_text(error)}.", hint="Read its log."
        ) from error


async def _converse(connection: ClientConnection, request: str, request_id: str, *, tell: _Teller) -> None:
    ready = await _hear(connection, ReporterReady)
    if ready.protocol_version != REPORTER_PROTOCOL:
        raise _broken(f"it speaks {_shown(ready.protocol_version)}, and is asked in {REPORTER_PROTOCOL}")
    await connection.send(request)
    begun = False
    while True:
        said = await _hear(connection, ReportStarted if not begun else ReportProgress, ReportFinished, ReportFailed)
        if said.request_id != request_id:
            raise _broken(f"it answers the request {_shown(said.request_id)}, not {request_id}")
        if isinstance(said, ReportFailed):
            raise TalkError(f"The reporter has given up, at {_shown(said.stage)}: {_shown(said.error)}.")
        if isinstance(said, ReportFinished):
            return
        begun = True
        if isinstance(said, ReportProgress):
            tell(said)


async def _hear(connection: ClientConnection, *expected: type[_Message]) -> _Message:
    text = await connection.recv()
    if has_too_many_values(text, _MOST_VALUES):
        raise _broken(f"a message has more than {_MOST_VALUES} values")
    try:
        said = read_reporter_message(text)
    except RecordError as error:
        raise _broken(_shown(error.message)) from error
    if not isinstance(said, expected):
        wanted = " or ".join(str(model.model_fields["type"].default) for model in expected)
        raise _broken(f"it says {said.type} where {wanted} is expected")
    return said


class _Teller:
    """Publishes how far a reporter is, but not more often than is of use."""

    def __init__(self, identifier: str, publish: Publish) -> None:
        self._id = identifier
        self._publish = publish
        self._next = 0.0

    def __call__(self, sent: ReportProgress) -> None:
        now = anyio.current_time()
        if now >= self._next:
            self._next = now + _EVENT_EVERY
            stage = _shown(sent.stage)
            progress = RoleProgressed(
                role="reporter", id=self._id, stage=stage, completed=sent.completed, of=sent.total
            )
            self._publish(progress)


def _broken(what: str) -> TalkError:
    return TalkError(
        f"The reporter breaks the protocol of its socket: {what}.",
        hint="It says reporter_ready, report_started, any number of report_progress, and report_finished or "
        "report_failed.",
    )


def _shown(text: str) -> str:
    return " ".join(strip_controls(text).split())[:_LONGEST].rstrip(".")
