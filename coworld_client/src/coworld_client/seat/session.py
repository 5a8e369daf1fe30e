"""A seat as a session: what the game sends, message by message, and what the player sends; of any protocol."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from .connecting import SeatError, connected

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["OpenSeat"]


class OpenSeat:
    """A seat of a game, as `async def play(seat)` is handed it.

    ::

        async def play(seat):
            async for observation in seat:
                await seat.send({"move": "right"})

    The messages are the game's own JSON, and nothing is assumed of them. They end when the game closes the connection
    in good order, or is gone after it has spoken; a lost connection is taken up again.

    Args:
        url: The address of the seat.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._socket: ClientConnection | None = None
        self._greeted = False

    async def __aenter__(self) -> OpenSeat:
        self._socket = await connected(self._url)
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._socket is not None:
            await self._socket.close()

    def __aiter__(self) -> OpenSeat:
        return self

    async def __anext__(self) -> Any:
        """The next message.

        Raises:
            SeatError: It is no JSON, or the game was lost before it has said anything.
        """
        from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK

        while self._socket is not None:
            try:
                frame = await self._socket.recv()
            except ConnectionClosedOK:
                break
            except ConnectionClosedError:
                await self._again()
                continue
            self._greeted = True
            try:
                return json.loads(frame)
            except ValueError:
                raise SeatError("The game has sent a message that is no JSON.", code="other_protocol") from None
        raise StopAsyncIteration

    async def send(self, message: Any) -> None:
        """Send a message as JSON; one that the connection is lost with is not sent again.

        Raises:
            ValueError: There is a NaN or an infinity in it.
            TypeError: There is something in it that has no JSON form.
        """
        from websockets.exceptions import ConnectionClosed

        text = json.dumps(message, allow_nan=False)
        if self._socket is not None:
            try:
                await self._socket.send(text)
            except ConnectionClosed:
                # What the game said last is still to be read, and then how it closed.
                return

    async def _again(self) -> None:
        print("connection lost, trying again", file=sys.stderr, flush=True)
        try:
            self._socket = await connected(self._url)
        except SeatError as error:
            if not self._greeted or error.code != SeatError.default_code:
                raise
            print(error.message, file=sys.stderr, flush=True)
            self._socket = None
