"""Games at the terminal: watching one, sitting in a seat, and showing a replay."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .output import Output
from .render.board_screen import BoardScreen, board_lines, legal_lines
from .render.text import clean

if TYPE_CHECKING:
    from coworld_client.seat import OpenSeat, TypedSeat
    from coworld_core.rules import Board
    from coworld_runner.episode import PlayLinks
    from coworld_runner.replay import SeatText

__all__ = ["TerminalGame", "show_replay"]

_SEEN_BY = 2
"""Seats whose view is shown of a game without a board in text."""
_LAST_SECONDS = 2.0
"""How long the last board may take to arrive after the episode has ended."""


class TerminalGame:
    """The view of one episode, for a person who watches or who has a seat.

    Args:
        out: Where to narrate.
        title: The game.
        names: The names of the seats.
        seat: The person's seat; None: they watch.
    """

    def __init__(self, out: Output, title: str, names: tuple[str, ...], *, seat: int | None) -> None:
        import anyio

        self._out = out
        self._title = title
        self._names = names
        self._slot = seat
        self._screen = BoardScreen(err=out.json)
        self._ended = anyio.Event()
        self._begun = False

    async def show(self, links: PlayLinks) -> None:
        """Show the game until it is over; what goes wrong with that is said, and does not end the game."""
        from coworld_core.errors import CoworldError, unwrapped

        self._begun = True
        try:
            with unwrapped():
                if self._slot is None:
                    await self._watch(_socket_of(links.viewer, "/global"))
                else:
                    await self._sit(_socket_of(links.players[self._slot], "/player"), self._slot)
        except CoworldError as error:
            self._out.warn(f"the game cannot be shown here: {clean(error.message, one_line=True)}")
        finally:
            self._ended.set()

    async def finish(self) -> None:
        """Wait for the last board."""
        import anyio

        if self._begun:
            with anyio.move_on_after(_LAST_SECONDS):
                await self._ended.wait()
        self._screen.close()

    async def _watch(self, url: str) -> None:
        from coworld_client.seat import OpenSeat
        from coworld_core.rules import Board, board_of

        board, names = Board(), self._names
        async with OpenSeat(url) as stream:
            async for message in stream:
                if not isinstance(message, dict):
                    continue
                told = cast("dict[str, Any]", message)
                seen = board_of(told)
                names = seen.names or names
                if told.get("type") == "hello":
                    continue
                ended = told.get("type") == "over"
                board = board if ended else seen
                scores = seen.scores if ended else ()
                self._screen.show(board_lines(self._title, board, names=names, scores=scores))

    async def _sit(self, url: str, slot: int) -> None:
        import anyio

        from coworld_client.seat import OpenSeat, TypedSeat

        seat = TypedSeat()
        waiting: list[str] = []
        async with OpenSeat(url) as socket, anyio.create_task_group() as group, typed_lines() as lines:

            async def act() -> None:
                async for line in lines:
                    waiting.append(line)
                    await self._send(socket, seat, waiting)
                    self._draw(seat, slot)

            group.start_soon(act)
            async for message in socket:
                seat.receive(message)
                await self._send(socket, seat, waiting)
                self._draw(seat, slot)
            group.cancel_scope.cancel()

    async def _send(self, socket: OpenSeat, seat: TypedSeat, waiting: list[str]) -> None:
        """Send what was typed, actions as soon as it is the person's turn."""
        while waiting and (seat.your_turn or seat.is_talk(waiting[0])):
            message = seat.say(waiting.pop(0))
            if message is not None:
                await socket.send(message)

    def _draw(self, seat: TypedSeat, slot: int) -> None:
        if seat.board.tick is None and not seat.board.lines:
            return  # Only the greeting has come
        names = seat.names or self._names
        scores = [score if isinstance(score, int | float) else None for score in seat.over or ()]
        lines = board_lines(self._title, seat.board, names=names, scores=scores, you=slot)
        lines += ["", clean(seat.note, one_line=True)]
        if seat.over is not None:
            self._screen.show([*lines, "The game is over."])
            return
        lines += legal_lines(seat.legal_texts(), self._screen.columns, places=seat.places)
        lines += ["Talk: /say WORDS, or /N WORDS to seat N alone."] if seat.talks else []
        waiting = "Wait … " if self._screen.live else ""
        self._screen.show(lines, prompt="Your move: " if seat.your_turn else waiting)


@asynccontextmanager
async def typed_lines() -> AsyncGenerator[Any]:
    """Receive the lines that a person types, or that come through a pipe, until there are no more."""
    import anyio

    send, receive = anyio.create_memory_object_stream[str](1000)
    descriptor = sys.stdin.fileno()

    async def read() -> None:
        rest = b""
        async with send:
            while True:
                with suppress(PermissionError):  # A file on disk is always ready
                    await anyio.wait_readable(descriptor)
                data = os.read(descriptor, 4096)
                *lines, rest = (rest + data).split(b"\n")
                for line in [*lines, *([rest] if rest and not data else [])]:
                    await send.send(line.decode("utf-8", "replace"))
                if not data:
                    return

    async with anyio.create_task_group() as group, receive:
        group.start_soon(read)
        yield receive
        group.cancel_scope.cancel()


def _socket_of(link: str, path: str) -> str:
    """The address of the websocket behind a page of a game."""
    from urllib.parse import urlsplit, urlunsplit

    page = urlsplit(link)
    return urlunsplit(("wss" if page.scheme == "https" else "ws", page.netloc, path, page.query, ""))


async def show_replay(
    out: Output, path: Path, title: str, *, per_second: float, text: SeatText | None = None
) -> Mapping[str, Any]:
    """Show a replay, tick by tick, and return what it was.

    Args:
        out: Where to narrate.
        path: The replay, not compressed.
        title: The game.
        per_second: Ticks a second.
        text: Says what a seat saw, for games that have no board in text.

    Raises:
        EpisodeError: Only the game itself can show it.
    """
    import anyio
    import anyio.to_thread

    from coworld_core.errors import CoworldError
    from coworld_core.rules import board_of
    from coworld_runner.replay import read_frames

    found = await anyio.to_thread.run_sync(read_frames, path)
    screen = BoardScreen(err=out.json)
    try:
        for place, frame in enumerate(found.frames, start=1):
            board = board_of(frame)
            last = place == len(found.frames)
            if text is not None and (board.picture or not board.lines):
                try:
                    board = await _in_words(board, found.names, text)
                except CoworldError as error:
                    out.note(f"What seats saw is not shown: {clean(error.message, one_line=True)}")
                    text = None
            screen.show(
                board_lines(title, board, names=found.names or board.names, scores=found.scores if last else ())
            )
            if screen.live and not last:
                await anyio.sleep(1 / per_second)
    finally:
        screen.close()
    return {"ticks": len(found.frames), "names": list(found.names), "scores": list(found.scores)}


async def _in_words(board: Board, names: Sequence[str], text: SeatText) -> Board:
    """The board as those see it who are to act, or, at the end, the first seat."""
    lines: list[str] = []
    for seat in [seat for seat in board.to_act if seat < len(names)][:_SEEN_BY] or [0]:
        if seen := await text(board.tick or 0, seat):
            lines += [f"{names[seat] if names else seat} sees:", *seen.expandtabs().rstrip().splitlines(), ""]
    return replace(board, lines=tuple(lines[:-1]), picture=False) if lines else board
