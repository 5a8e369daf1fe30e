"""Games of the kit, each served on its own port in the test's process, and connections to their seats."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import urlencode

import anyio
from pydantic import BaseModel, Field
from websockets.asyncio.client import ClientConnection, connect

from coworld_core.rules import Delayed, Hidden, Rules, RulesConfig, RulesError, read_config
from coworld_core.rules.pictures import board, grid, hand
from coworld_runner.kit.server.game_server import serve_game, talked_out
from coworld_runner.kit.server.match import Match
from coworld_runner.kit.server.sample_stream import SampleStream

__all__ = [
    "TOKENS",
    "Broken",
    "Cards",
    "LateCards",
    "SealedCards",
    "Sticks",
    "Table",
    "Talk",
    "hear",
    "serving",
    "sit",
    "tell",
]

TOKENS = ("secret-of-seat-0", "secret-of-seat-1")


class Sticks(Rules):
    """Players take one to three sticks in turn; whoever takes the last one wins."""

    class Config(RulesConfig):
        sticks: int = 6

    class Action(BaseModel):
        take: int = Field(ge=1, le=3)

    config: Config

    def start(self) -> None:
        self.left, self.turn = self.config.sticks, 0

    def to_act(self) -> list[int]:
        return [self.turn] if self.left else []

    def legal(self, seat: int) -> list[Action] | None:
        return [self.Action(take=n) for n in range(1, min(3, self.left) + 1)]

    def observe(self, seat: int) -> Any:
        return {"left": self.left}

    def step(self, actions: Mapping[int, Any]) -> None:
        action = actions[self.turn]
        self.left -= action.take if action else 1
        self.turn = 1 - self.turn

    def scores(self) -> list[float]:
        return [float(seat != self.turn) for seat in range(2)]

    def draw(self) -> str:
        return "|" * self.left


class Talk(Sticks):
    """The same game with any text as an action."""

    Action = str  # pyright: ignore[reportAssignmentType]

    def legal(self, seat: int) -> None:
        return None

    def step(self, actions: Mapping[int, Any]) -> None:
        self.left, self.turn = self.left - 1, 1 - self.turn

    def text(self, seat: int) -> str:
        return f"Say something, {self.left} to go."


class Cards(Sticks):
    """The same game, in which each player also holds a card that only it sees; the replay shows all cards."""

    drawn: ClassVar[list[int | None]] = []
    """For whom the board was drawn."""
    all_shown = False

    def start(self) -> None:
        super().start()
        self.cards = [f"{suit}-{self.rng.getrandbits(32):08x}" for suit in ("hearts", "spades")]
        self.drawn.clear()

    def observe(self, seat: int) -> Any:
        return {"left": self.left, "card": self.cards[seat]}

    def text(self, seat: int) -> str:
        return f"{self.left} to go.\nYou hold {self.cards[seat]}."

    def draw(self, seat: int | None = None) -> str:
        self.drawn.append(seat)
        shown = [card for other, card in enumerate(self.cards) if other == seat or (seat is None and self.all_shown)]
        title = f"{self.left} sticks, {' and '.join(shown) or 'no cards'}"
        return board(240, 40, grid(["|" * self.left], {"|": "#c80"}), hand(shown, 2 - len(shown), y=15), title=title)


class LateCards(Cards):
    """The game with cards, which spectators see two ticks late."""

    spectators = Delayed(ticks=2)
    all_shown = True


class SealedCards(Cards):
    """The game with cards, which spectators see when it is over."""

    spectators = Hidden()
    all_shown = True


@dataclass
class Table:
    """A served game."""

    match: Match
    port: int
    printed: list[str] = field(default_factory=list[str])
    failure: RulesError | None = None
    over: anyio.Event = field(default_factory=anyio.Event)
    """Set when the game has ended and all clients have received the end."""

    def url(self, slot: int | str, token: str | None = None) -> str:
        """The address of a seat."""
        right = TOKENS[int(slot)] if token is None else token
        return f"ws://127.0.0.1:{self.port}/player?{urlencode({'slot': slot, 'token': right})}"


@asynccontextmanager
async def serving(
    rules: type[Rules] = Sticks, *, countdown: float = 0.0, samples: SampleStream | None = None, **config: Any
) -> AsyncGenerator[Table]:
    """Serve a game until the block or the game ends."""
    parsed = read_config(rules, {"tokens": list(TOKENS), **config})
    said: list[str] = []
    match = Match(rules, parsed, seed=1, log=said.append, countdown=countdown, samples=samples)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with (
            serve_game(match, TOKENS, listener=listener, samples=samples) as server,
            anyio.create_task_group() as tasks,
        ):
            table = Table(match, listener.getsockname()[1], said)

            async def play() -> None:
                try:
                    await match.play()
                    match.finish(reason="over", results=match.results())
                except RulesError as error:
                    table.failure = error
                    match.finish(reason="failed")
                await talked_out(server)
                table.over.set()

            tasks.start_soon(play)
            yield table
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def sit(table: Table, slot: int) -> AsyncGenerator[ClientConnection]:
    """Connect to a seat; `hello` is received already."""
    async with connect(table.url(slot), max_size=None, ping_timeout=None, proxy=None) as seat:
        assert (await hear(seat))["type"] == "hello"
        yield seat


async def hear(seat: ClientConnection) -> dict[str, Any]:
    """Receive the next message."""
    return json.loads(await seat.recv())


async def tell(seat: ClientConnection, tick: int, action: Any) -> None:
    """Send an action."""
    await seat.send(json.dumps({"type": "act", "tick": tick, "action": action}))


class Broken(Sticks):
    """Rules that fail to start."""

    def start(self) -> None:
        raise RuntimeError("no sticks")
