"""A seat as a session: messages from the game and to the game, in any protocol."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from coworld_core.rules.plain_values import to_json

from .connection import SeatError, connected, connected_again, received

if TYPE_CHECKING:
    from ssl import SSLContext

    from websockets.asyncio.client import ClientConnection

__all__ = ["OpenSeat"]


class OpenSeat:
    """A seat of a game, as it is passed to `async def play(seat)`.

    ::

        async def play(seat):
            async for observation in seat:
                await seat.send({"move": "right"})

    The messages are the game's own JSON, of any form. They end when the game closes the connection normally, or cannot
    be reached any more after its first message; otherwise a lost connection is opened again.

    Args:
        url: The address of the seat.
        rng: The player's random numbers; by default without a seed.
        ssl: Whom to trust if the address is wss://; by default `coworld_client.tls.tls_context()`.

    Attributes:
        rng: The player's random numbers, seeded like those of `act`.
    """

    def __init__(self, url: str, *, rng: random.Random | None = None, ssl: SSLContext | None = None) -> None:
        self.rng = rng or random.Random()
        self._url = url
        self._ssl = ssl
        self._socket: ClientConnection | None = None
        self._greeted = False

    async def __aenter__(self) -> OpenSeat:
        self._socket = await connected(self._url, self._ssl)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave the seat."""
        if self._socket is not None:
            await self._socket.close()

    def __aiter__(self) -> OpenSeat:
        return self

    async def __anext__(self) -> Any:
        """The next message.

        Raises:
            SeatError: The message is not JSON, or as for `receive`.
        """
        frame = await self.receive()
        if frame is None:
            raise StopAsyncIteration
        try:
            return json.loads(frame)
        except (ValueError, RecursionError):
            raise SeatError("The game has sent a message that is not JSON.", code="other_protocol") from None

    async def receive(self) -> str | bytes | None:
        """The next message as it was sent, in a protocol without JSON; None: there are no more.

        Raises:
            SeatError: The message is too long, the game refuses this player or was lost before its first message, or
                the network to it is gone (`link_lost`).
        """
        from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK

        while self._socket is not None:
            try:
                frame = await received(self._socket, self._url)
            except ConnectionClosedOK:
                break
            except ConnectionClosedError as lost:
                self._socket = await connected_again(self._url, lost, greeted=self._greeted, ssl=self._ssl)
                continue
            self._greeted = True
            return frame
        return None

    async def send(self, message: Any) -> None:
        """Send a message as JSON; a message that is lost with the connection is not sent again.

        Raises:
            ValueError: The message contains a NaN or an infinity.
            TypeError: The message contains a value that has no JSON form.
        """
        await self.send_frame(to_json(message))

    async def send_frame(self, frame: str | bytes) -> None:
        """Send a message as it is, in a protocol without JSON; likewise."""
        from websockets.exceptions import ConnectionClosed

        if self._socket is not None:
            try:
                await self._socket.send(frame)
            except ConnectionClosed:
                # The game's last messages are still to be read, and then the reason of the close.
                return
