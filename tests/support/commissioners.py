"""Commissioners in this process: Paint Arena's, with the faults that a test asks for."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from coworld_runner.testing.fake_backend import FakeContext
from paintarena.commissioner import Conversation, respond

from .contest import contest, held
from .small_world import World

__all__ = ["Message", "Vice", "commissioned", "program_of"]

_IMAGE = "tests/commissioner:1"

Message = dict[str, Any]
Vice = Callable[[Message, list[Message]], "list[Message | str] | int | None"]
"""Takes a message and the right answers, and returns what to send instead: a string is sent unchanged, None closes the
connection, and a number ends the program with that status."""


def _honest(_: Message, answers: list[Message]) -> list[Message | str] | int | None:
    return [*answers]


def program_of(
    vice: Vice = _honest,
    *,
    heard: list[Message] | None = None,
    before: Callable[[FakeContext], Awaitable[int | None]] | None = None,
    pause: float = 0.0,
    shut: bool = False,
) -> Callable[[FakeContext], Awaitable[int]]:
    """A commissioner's program.

    Args:
        vice: Replaces its answers.
        heard: Collects the messages that it receives.
        before: Runs first; if it returns a status, the program ends with it.
        pause: Seconds before each answer.
        shut: Whether it refuses all connections.
    """

    async def program(context: FakeContext) -> int:
        if before is not None and (status := await before(context)) is not None:
            return status
        ended = anyio.Event()
        statuses: list[int] = []

        async def converse(connection: ServerConnection) -> None:
            conversation = Conversation()
            try:
                async for text in connection:
                    message: Message = json.loads(text)
                    if heard is not None:
                        heard.append(message)
                    await anyio.sleep(pause)
                    said = vice(message, conversation.answer(message))
                    if isinstance(said, int):
                        statuses.append(said)
                        ended.set()
                        return
                    if said is None:
                        return
                    for answer in said:
                        await connection.send(answer if isinstance(answer, str) else json.dumps(answer))
            except ConnectionClosed:
                pass

        def route(connection: ServerConnection, request: Any) -> Any:
            return (
                connection.respond(403, "no\n") if shut and request.path == "/round" else respond(connection, request)
            )

        with socket.create_server((context.env["COGAME_HOST"], int(context.env["COGAME_PORT"]))) as listener:
            async with (
                serve(converse, sock=listener, process_request=route, max_size=None, close_timeout=0.2),
                anyio.create_task_group() as tasks,
            ):

                async def wait(event: anyio.Event) -> None:
                    await event.wait()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(wait, ended)
                tasks.start_soon(wait, context.stopping)
        return statuses[0] if statuses else 0

    return program


@asynccontextmanager
async def commissioned(
    path: Path, *players: str, rounds: int | None = 1, program: Any = None, hooks: Sequence[str] = ()
) -> AsyncGenerator[tuple[World, Path]]:
    """A tournament with a commissioner, and the world to play it in."""
    programs = {_IMAGE: program or program_of()}
    async with contest(2.0, programs=programs) as small:
        place = await held(
            small,
            path / "league",
            *players,
            pairing="commissioner",
            rounds=rounds,
            commissioner=_IMAGE,
        )
        settings = place / "tournament.toml"
        asked = f"[pairing]\nhooks = {json.dumps(hooks)}\n"
        settings.write_text(settings.read_text().replace("[pairing]\n", asked if hooks else "[pairing]\n"))
        yield small, place
