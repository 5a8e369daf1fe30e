"""A game with a known correct result: a player that answers every question in time gets all points.

With `tick_rate` it asks that many questions per second without waiting; with `seconds_per_move` it waits up to that
long for all answers. It needs the standard library and websockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import json
import os
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response


def file_of(variable: str) -> Path:
    """The path of a file URI in the environment."""
    return Path(unquote(urlsplit(os.environ[variable]).path))


class Game:
    """One episode."""

    def __init__(self) -> None:
        config = json.loads(file_of("COGAME_CONFIG_URI").read_text())
        self.tokens: list[str] = config["tokens"]
        self.rounds: int = config["rounds"]
        self.work: float = config["work"]
        self.tick: float | None = 1 / config["tick_rate"] if "tick_rate" in config else None
        self.move: float = config.get("seconds_per_move", 30)
        self.players: dict[int, ServerConnection] = {}
        self.answered: set[int] = set()
        self.points = [0] * len(self.tokens)
        self.round = -1
        self.all_there = asyncio.Event()
        self.all_answered = asyncio.Event()

    def answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer plain HTTP; returns None to accept a websocket."""
        url = urlsplit(request.path)
        if url.path == "/player":
            query = parse_qs(url.query)
            slot = int(query.get("slot", ["-1"])[0])
            right = 0 <= slot < len(self.tokens) and query.get("token") == [self.tokens[slot]]
            return None if right else connection.respond(http.HTTPStatus.FORBIDDEN, "no\n")
        return None if url.path == "/global" else connection.respond(http.HTTPStatus.OK, "well\n")

    async def socket(self, connection: ServerConnection) -> None:
        """Serve one websocket to its end."""
        assert connection.request is not None
        url = urlsplit(connection.request.path)
        with contextlib.suppress(ConnectionClosed):
            if url.path == "/global":
                await connection.send(json.dumps({"tick": self.round}))
                await connection.wait_closed()
                return
            slot = int(parse_qs(url.query)["slot"][0])
            self.players[slot] = connection
            if len(self.players) == len(self.tokens):
                self.all_there.set()
            async for message in connection:
                if json.loads(message)["round"] == self.round:
                    self.answered.add(slot)
                    if len(self.answered) == len(self.tokens):
                        self.all_answered.set()

    async def play(self) -> None:
        """Ask the questions, count answers in time, and write the results."""
        await self.all_there.wait()
        due = time.monotonic()
        for number in range(self.rounds):
            self.round = number
            self.answered.clear()
            self.all_answered.clear()
            question = json.dumps({"round": self.round, "work": self.work})
            for connection in self.players.values():
                with contextlib.suppress(ConnectionClosed):
                    await connection.send(question)
            if self.tick is not None:
                due += self.tick
                await asyncio.sleep(due - time.monotonic())
            else:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.all_answered.wait(), self.move)
            for slot in self.answered:
                self.points[slot] += 1
        self.round = -1
        file_of("COGAME_RESULTS_URI").write_text(json.dumps({"scores": self.points}))
        file_of("COGAME_SAVE_REPLAY_URI").write_text("nothing to see\n")
        for connection in self.players.values():
            await connection.close()


async def main() -> int:
    """Serve one episode."""
    game = Game()
    host, port = os.environ.get("COGAME_HOST", "0.0.0.0"), int(os.environ.get("COGAME_PORT", "8080"))
    async with serve(game.socket, host, port, process_request=game.answer, compression=None, close_timeout=1):
        await game.play()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
