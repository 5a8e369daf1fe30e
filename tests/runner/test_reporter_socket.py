"""The conversation with a reporter on its socket: what it may say, and what becomes of one that says something else."""

from __future__ import annotations

import http
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from coworld_core.episode.events import BaseEvent, RoleProgressed
from coworld_core.errors import NotReadyError
from coworld_core.roles.report_request import ReportRequest
from coworld_runner.backend import HttpProbe, Unit
from coworld_runner.errors import TalkError
from coworld_runner.roles.reporter_socket import ask_reporter

REQUEST = ReportRequest(request_id="r1", report_uri="file:///out/report.zip", episodes=()).to_json().decode()
READY = {"type": "reporter_ready", "protocol_version": "coworld-reporter/v1"}
STARTED = {"type": "report_started", "request_id": "r1", "episode_count": 0}
PROGRESS = {"type": "report_progress", "request_id": "r1", "stage": "reading\x1b[2J", "completed": 1, "total": 4}
FINISHED = {"type": "report_finished", "request_id": "r1", "report_uri": "file:///out/report.zip", "episode_count": 0}


class Reporter:
    """A unit whose socket is served here."""

    def __init__(self, address: str, *, ready: bool) -> None:
        self._address = address
        self._ready = ready

    async def wait_ready(self, _: HttpProbe) -> float:
        if not self._ready:
            raise NotReadyError("It exited with status 1.")
        return 0.0

    def endpoint(self) -> SimpleNamespace:
        return SimpleNamespace(here=self._address)


@asynccontextmanager
async def reporter(*says: Any, path: str = "/reporter", ready: bool = True) -> AsyncGenerator[Unit]:
    """A reporter that says its first message, waits for the request, and says the others."""

    async def converse(connection: ServerConnection) -> None:
        first, *others = [said if isinstance(said, str) else json.dumps(said) for said in says] or [""]
        if first:
            await connection.send(first)
            assert json.loads(await connection.recv())["type"] == "report_request"
        for said in others:
            await connection.send(said)

    def respond(connection: ServerConnection, request: Request) -> Response | None:
        return None if request.path == path else connection.respond(http.HTTPStatus.NOT_FOUND, "no\n")

    async with serve(converse, "127.0.0.1", 0, process_request=respond) as server:
        host, port = next(iter(server.sockets)).getsockname()[:2]
        yield cast("Unit", Reporter(f"{host}:{port}", ready=ready))


async def asked(unit: Unit, tell: Callable[[BaseEvent], None] = lambda _: None) -> None:
    await ask_reporter(unit, REQUEST, "recap", publish=tell)


async def test_reporter_tells_how_far_it_is_and_ends() -> None:
    told: list[BaseEvent] = []
    async with reporter(READY, STARTED, PROGRESS, FINISHED) as unit:
        await asked(unit, told.append)
    assert told == [RoleProgressed(role="reporter", id="recap", stage="reading", completed=1, of=4)]


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ((), "left before it had finished"),
        ((STARTED,), "it says report_started where reporter_ready is expected"),
        (({**READY, "protocol_version": "coworld-reporter/v9"},), "it speaks coworld-reporter/v9"),
        ((READY,), "left before it had finished"),
        ((READY, PROGRESS), "it says report_progress where report_started or report_finished or report_failed is"),
        ((READY, STARTED, STARTED), "it says report_started where report_progress"),
        ((READY, {**STARTED, "request_id": "other"}), "it answers the request other, not r1"),
        ((READY, STARTED, "good morning"), "breaks the protocol of its socket"),
        ((READY, STARTED, {"type": "report_finish"}), "which a reporter does not say"),
        ((READY, STARTED, json.dumps([0] * 20_000)), "a message has more than 10000 values"),
        ((READY, STARTED, {**PROGRESS, "stage": "x" * (2 << 20)}), "says more than 1048576 bytes at once"),
        (
            (READY, STARTED, {"type": "report_failed", "request_id": "r1", "stage": "replay", "error": "It is empty."}),
            "The reporter has given up, at replay: It is empty.",
        ),
    ],
)
async def test_reporter_that_says_something_else_is_refused(says: tuple[Any, ...], message: str) -> None:
    async with reporter(*says) as unit:
        with pytest.raises(TalkError) as refused:
            await asked(unit)
    assert refused.value.code == "program_error"
    assert message in refused.value.message


async def test_reporter_without_the_socket_is_named() -> None:
    async with reporter(READY, path="/report") as unit:
        with pytest.raises(TalkError, match="does not accept connections at /reporter"):
            await asked(unit)
    async with reporter(READY, ready=False) as unit:
        with pytest.raises(TalkError, match=r"serves nothing: It exited with status 1\.") as refused:
            await asked(unit)
    assert refused.value.code == "program_never_started"
