"""A game with minimal rules, for measuring the server around it; and a bare server that sends the same frames."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field
from websockets.asyncio.server import ServerConnection, serve

from coworld_core.rules import Rules, RulesConfig


class Counting(Rules):
    """Seats count down in turn."""

    class Config(RulesConfig):
        turns: int = Field(1000, ge=1)

    class Action(BaseModel):
        take: int = Field(ge=1, le=3)

    config: Config
    seats = 2
    most_seats = 16

    def start(self) -> None:
        self.left = self.config.turns

    def to_act(self) -> list[int]:
        return [self.left % self.seats] if self.left else []

    def legal(self, seat: int) -> list[Any]:
        return [self.Action(take=number) for number in (1, 2, 3)]

    def observe(self, seat: int) -> dict[str, int]:
        return {"left": self.left}

    def step(self, actions: Mapping[int, Any]) -> None:
        self.left -= 1

    def scores(self) -> list[float]:
        return [0.0] * self.seats

    def draw(self) -> str:
        return f"{self.left} to go"


async def bare(turns: int) -> None:
    """Serve two seats with the game's frames: each turn, both are sent the state and one answers, `turns` times."""
    seats: list[ServerConnection] = []
    came, over = asyncio.Event(), asyncio.Event()

    def observe(left: int, seat: int) -> str:
        said = f'{{"type":"observe","tick":{turns - left},"your_turn":{str(left % 2 == seat).lower()},'
        legal = '"legal":[{"take":1},{"take":2},{"take":3}],' if left % 2 == seat else ""
        time_left = ',"time_left":30.000' if legal else ""
        return f'{said}"observation":{{"left":{left}}},{legal}"text":"{left} to go"{time_left}}}'

    async def serve_one(connection: ServerConnection) -> None:
        seats.append(connection)
        if len(seats) == 2:
            came.set()
        await over.wait()

    async with serve(serve_one, "127.0.0.1", 0, compression=None, ping_timeout=None) as server:
        print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        await came.wait()
        for left in range(turns, 0, -1):
            for seat, connection in enumerate(seats):
                await connection.send(observe(left, seat))
            json.loads(await seats[left % 2].recv())
        for connection in seats:
            await connection.send('{"type":"over"}')
        over.set()


if __name__ == "__main__":
    asyncio.run(bare(int(sys.argv[1])))
