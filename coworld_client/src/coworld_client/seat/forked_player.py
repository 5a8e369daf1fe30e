"""A player that takes a seat over from what was recorded: it sees the whole game, and acts from a tick on."""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio

from coworld_core.errors import unwrapped
from coworld_core.records.frame_places import FramePlace

from .connection import SeatError
from .open_seat import OpenSeat
from .recorded_frames import frame_of, tick_of

if TYPE_CHECKING:
    from websockets.asyncio.server import ServerConnection

__all__ = ["forked_player"]

_EXIT_SECONDS = 5.0
"""How long the program may take to end after its game."""


def forked_player(
    frames: Sequence[Mapping[str, str | int]], *, takes_over: int, command: Sequence[str], directory: Path, url: str
) -> Callable[[OpenSeat], Awaitable[None]]:
    """Return a session that lets a program play from a message of the game on; before, it sends what was recorded.

    The program connects to this one as it would to the game. All that the game sends is passed to it; what it sends
    counts once it was passed a message of the tick from which it takes over.

    Args:
        frames: The recorded messages to the game, as for `recorded_frames`.
        takes_over: The tick from which the program's own messages count.
        command: The program.
        directory: Where it runs.
        url: The address of the seat, whose path and query the program gets, too.
    """

    async def play(seat: OpenSeat) -> None:
        from websockets.asyncio.server import serve

        fork = _Fork(seat, frames, takes_over)
        async with serve(fork.meet, "127.0.0.1", 0, compression=None, max_size=None, ping_interval=None) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            address = urlsplit(url)._replace(scheme="ws", netloc=f"127.0.0.1:{port}").geturl()
            own = {name: address for name, value in os.environ.items() if value == url}
            program = await anyio.open_process(
                command, cwd=directory, env={**os.environ, **own}, stdin=subprocess.DEVNULL, stdout=None, stderr=None
            )

            async def heard(both: anyio.CancelScope) -> None:
                await fork.listen()
                with anyio.move_on_after(_EXIT_SECONDS):
                    await program.wait()
                both.cancel()

            over = False
            try:
                # One that has left plays no more, as at any game
                with unwrapped():
                    async with anyio.create_task_group() as group:
                        group.start_soon(heard, group.cancel_scope)
                        await program.wait()
                        group.cancel_scope.cancel()
            finally:
                with anyio.CancelScope(shield=True):
                    over = fork.end()
                    if program.returncode is None:
                        program.kill()
                    await program.wait()
        if program.returncode and not over:
            raise SeatError(f"The player exited with status {program.returncode}.", code="player_failed")

    return play


class _Fork:
    """What passes between a game and the program that plays from some message on."""

    def __init__(self, seat: OpenSeat, frames: Sequence[Mapping[str, str | int]], takes_over: int) -> None:
        self._seat = seat
        self._recorded = deque(frame for frame in frames if int(frame.get("tick", -1)) < takes_over)
        self._takes_over = takes_over
        self._progress = FramePlace()
        self._history: list[str | bytes] = []
        """What the game has sent: a program may connect late, and again."""
        self._more = anyio.Event()
        self._over = False

    async def listen(self) -> None:
        """Hear the game to its end, and send what was recorded while that is due."""
        await self._send_due()
        while (frame := await self._seat.receive()) is not None:
            self._history.append(frame)
            self._progress.take(tick_of(frame))
            self._notify()
            await self._send_due()
        self.end()

    def end(self) -> bool:
        """Let the program's connection end; returns whether the game is over."""
        was, self._over = self._over, True
        self._notify()
        return was

    async def _send_due(self) -> None:
        while self._recorded and self._progress.reached(self._recorded[0]):
            await self._seat.send_frame(frame_of(self._recorded.popleft()))

    def _notify(self) -> None:
        self._more.set()
        self._more = anyio.Event()

    async def meet(self, program: ServerConnection) -> None:
        """Serve the program's connection."""
        from websockets.exceptions import ConnectionClosed

        knows = FramePlace()

        async def hear() -> None:
            async for said in program:
                if knows.tick >= self._takes_over:
                    await self._seat.send_frame(said)

        async def tell() -> None:
            passed = 0
            while passed < len(self._history) or not self._over:
                more = self._more
                while passed < len(self._history):
                    await program.send(self._history[passed])
                    knows.take(tick_of(self._history[passed]))
                    passed += 1
                if not self._over:
                    await more.wait()

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(hear)
                await tell()
                group.cancel_scope.cancel()
        except* ConnectionClosed:
            # It may come again, as to a game
            pass
