"""Checks of how a game copes with clients: bad messages, lost connections, late viewers, tokens of other slots.

They disturb the game, so they are made in episodes of their own (`further_episodes`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.protocol import State

from ..backend import HttpProbe, Unit
from ..episode import contract_probes
from ..web.game_socket import connect_to_game, receive
from .certification_record import Evidence, Level
from .contract_checks import RefusedCaller, answers_ping, drain, try_seat
from .step_answers import required

__all__ = ["BadClients", "LostConnections", "other_tokens"]

_MOST_TOKENS: Final = 240
"""Maximum number of attempts with tokens of other slots: every pair of up to 16 slots."""
_PARALLEL: Final = 8
_SEND_SECONDS: Final = 2.0
_SETTLE_SECONDS: Final = 0.2
"""Time for a game to read what it was sent."""
_STATE_SECONDS: Final = 2.0
"""Time for a viewer's first message after the end, which is less than a game lingers."""
_MOVING_SECONDS: Final = 1.5
"""How long to wait for a sign that the game has begun: some games send viewers little."""
_LIFE_SECONDS: Final = 5.0
_CONFIRM_SECONDS: Final = 0.5
_RESULTS_SECONDS: Final = 2.0
_ERRORS: Final = (WebSocketException, OSError, EOFError, TimeoutError)

_BAD_MESSAGES: Final[tuple[tuple[str, str, tuple[str | bytes, ...]], ...]] = (
    ("survives_malformed", "text that is no message", ("{", "null", "[]", '"move"', '{"type": 7}')),
    ("survives_binary", "a binary message", (bytes(range(256)),)),
    ("survives_oversized", "a message of 2 MiB", ("x" * (2 << 20),)),
)


def other_tokens(tokens: Sequence[str]) -> list[RefusedCaller]:
    """List the slots with tokens of other slots, except for the next one, with which the smoke episode tries."""
    count = len(tokens)
    pairs = [(slot, (slot + step) % count) for step in range(2, count) for slot in range(count)]
    return [
        RefusedCaller(
            "refuses_every_other_token",
            f"slot {slot} with the token of slot {other}",
            {"slot": str(slot), "token": tokens[other]},
            slot,
        )
        for slot, other in pairs[:_MOST_TOKENS]
    ]


class BadClients:
    """Hooks for an episode whose clients misbehave; its players are not disturbed, so the game must still finish."""

    def __init__(self) -> None:
        self.tokens: tuple[str, ...] = ()
        self.evidence: list[Evidence] = []
        self.suspicion: Evidence | None = None
        """After what the game was gone; it may simply have been over."""

    async def before_players(self, address: str, tokens: Sequence[str]) -> None:
        """Try the other slots' tokens, then take seats and misbehave."""
        self.tokens = tuple(tokens)
        await self._try_tokens(address, tokens)
        # Many games begin once every seat has been taken: the last one is left to its player
        seats = [f"/player?{contract_probes.seat_query(slot, token)}" for slot, token in enumerate(tokens)]
        seats = seats[:-1] if len(seats) > 1 else seats
        if seats:
            await self._ping(address, seats[0], "a player's ")
            await self._misbehave(address, seats)

    async def during_play(self, address: str, tokens: Sequence[str], players: Sequence[Unit]) -> None:
        """Misbehave as a viewer; connect another one when the players have ended."""
        await self._ping(address, "/global", "a viewer's ")
        await self._misbehave(address, ["/global"])
        for player in players:
            await player.wait()
        if players:
            await self._view_the_end(address)

    async def _try_tokens(self, address: str, tokens: Sequence[str]) -> None:
        gate = anyio.CapacityLimiter(_PARALLEL)
        let_in: dict[int, str] = {}

        async def attempt(asked: RefusedCaller) -> None:
            async with gate:
                answer, _ = await try_seat(address, asked.query)
            if answer in ("open", "spoke") and asked.slot is not None:
                let_in.setdefault(asked.slot, asked.who)

        async with anyio.create_task_group() as group:
            for asked in other_tokens(tokens):
                group.start_soon(attempt, asked)
        for slot in range(len(tokens) if len(tokens) > 2 else 0):
            message = f"/player refuses slot {slot} with the tokens of the other slots."
            if slot in let_in:
                message = f"/player lets {let_in[slot]} in."
            self._add(
                "refuses_every_other_token",
                slot not in let_in,
                message,
                "Compare the token with that of the slot, not with all tokens.",
                slot,
            )

    async def _ping(self, address: str, target: str, whose: str) -> None:
        async with _connection(address, target) as socket:
            # That it cannot connect is evidence of the smoke episode. Games of the first generations, and small ones,
            # do not answer
            row = await answers_ping(socket, whose, "advice") if socket is not None else None
        self.evidence += [row] if row is not None else []

    async def _misbehave(self, address: str, targets: Sequence[str]) -> None:
        route = targets[0].partition("?")[0]
        for code, what, messages in _BAD_MESSAGES:
            async with anyio.create_task_group() as group:
                for target in targets:
                    group.start_soon(_send, address, target, messages)
            alive = await _lives(address)
            evidence = required(
                code,
                ok=alive,
                message=f"After {what} on {route}, the game {'goes on' if alive else 'no longer answers /healthz'}.",
                hint=None
                if alive
                else "Catch what a message raises where it is read: ignore the message, or close that connection.",
            )
            if not alive:
                self.suspicion = evidence
                return
            self.evidence.append(evidence)

    async def _view_the_end(self, address: str) -> None:
        try:
            async with connect_to_game(address, "/global", open_timeout=_STATE_SECONDS, close_timeout=0.5) as socket:
                with anyio.move_on_after(_STATE_SECONDS):
                    size = await receive(socket)
                    self._add_end(served=size != 0, instead="an empty message")
                    return
                if socket.state is State.OPEN:
                    self._add_end(served=False, instead=f"nothing within {_STATE_SECONDS:g} s")
        except _ERRORS:
            return  # The game is ending

    def _add_end(self, *, served: bool, instead: str) -> None:
        self._add(
            "viewer_after_end",
            served,
            f"A viewer that comes after the players have left gets {'the state' if served else instead}.",
            "As long as /global is open, send every new viewer the state, also that of a game that is over.",
        )

    def _add(
        self, code: str, ok: bool, message: str, hint: str, slot: int | None = None, level: Level = "required"
    ) -> None:
        row = required(code, ok=ok, message=message, hint=None if ok else hint, slot=slot, level=level)
        self.evidence.append(row)


class LostConnections:
    """Hooks for an episode in which every player is lost in mid-game; it need not be played to its end."""

    def __init__(self) -> None:
        self.tokens: tuple[str, ...] = ()
        self.evidence: list[Evidence] = []
        self.done = anyio.Event()
        """Set when there is nothing more to learn from this episode."""
        self._seen: dict[int, contract_probes.ProbeResult] = {}

    async def before_players(self, address: str, tokens: Sequence[str]) -> None:
        """Take all seats but one twice: a quick game may be over before a player can be lost."""
        self.tokens = tuple(tokens)
        async with anyio.create_task_group() as group:
            for slot, token in enumerate(tokens[:-1]):
                group.start_soon(self._come_twice, address, slot, token)

    async def _come_twice(self, address: str, slot: int, token: str) -> None:
        # That owners are kept, the smoke episode has shown: this connection is made only to be lost
        first = await contract_probes.probe_seat(address, slot, token, wait=_CONFIRM_SECONDS)
        if first.ok and not first.thrown_out:
            again = await contract_probes.probe_seat(address, slot, token)
            self._add("reconnects_before_start", slot, again, "before the game begins")

    async def during_play(self, address: str, tokens: Sequence[str], players: Sequence[Unit]) -> None:
        """Stop the players once the game has begun, and take their seats with their own tokens."""
        try:
            async with connect_to_game(address, "/global", ping_interval=None, close_timeout=0.5) as viewer:
                with anyio.move_on_after(_MOVING_SECONDS):
                    await _moving(viewer)
                async with anyio.create_task_group() as watching:
                    watching.start_soon(drain, viewer)
                    async with anyio.create_task_group() as group:
                        for player in players:
                            assert player.spec.slot is not None
                            group.start_soon(self._come_back, address, tokens[player.spec.slot], player, viewer)
                    watching.cancel_scope.cancel()
        except _ERRORS:
            pass  # The game is over
        if any(not seen.ok or seen.thrown_out for seen in self._seen.values()):
            # A game that ends when its players are lost shows that in its results
            await anyio.sleep(_RESULTS_SECONDS)
        # If others may come back, the game may have dismissed this one just then
        dismissed = any(seen.ok and not seen.thrown_out for seen in self._seen.values())
        for slot, seen in sorted(self._seen.items()):
            level: Level = "advice" if dismissed else "required"
            self._add("reconnects", slot, seen, "while the game is played", level=level)
        self.done.set()

    async def _come_back(self, address: str, token: str, player: Unit, viewer: ClientConnection) -> None:
        slot = player.spec.slot
        assert slot is not None
        if (await player.stop(0.0)).reason != "stopped":
            return  # It had left by itself
        seen = await contract_probes.probe_seat(address, slot, token)
        if not seen.ok or seen.thrown_out:
            await anyio.sleep(_CONFIRM_SECONDS)
            if viewer.state is not State.OPEN:
                return  # The game is over, and need not admit anyone
        self._seen[slot] = seen

    def _add(
        self, code: str, slot: int, seen: contract_probes.ProbeResult, when: str, *, level: Level = "required"
    ) -> None:
        ok = seen.ok and not seen.thrown_out
        lost = f"Slot {slot} lost its connection and may not connect again {when}: {seen.detail}."
        self.evidence.append(
            required(
                code,
                ok=ok,
                slot=slot,
                level="required" if ok else level,
                message=f"Slot {slot} may connect again {when}." if ok else lost,
                hint=None if ok else "Admit a slot's token as often as it comes; the latest connection has the seat.",
            )
        )


@asynccontextmanager
async def _connection(address: str, target: str) -> AsyncGenerator[ClientConnection | None]:
    """Connect, and read what comes; the block ends early, without an error, if the game closes the connection."""
    try:
        socket = await connect_to_game(address, target, ping_interval=None, close_timeout=0.5)
    except _ERRORS:
        yield None
        return
    async with socket, anyio.create_task_group() as group:
        # Unread messages would delay a pong
        group.start_soon(drain, socket)
        with suppress(ConnectionClosed):
            yield socket
        group.cancel_scope.cancel()


async def _send(address: str, target: str, messages: Sequence[str | bytes]) -> None:
    """Connect and send; the game may close the connection at any time."""
    async with _connection(address, target) as socket:
        if socket is not None:
            with anyio.move_on_after(_SEND_SECONDS):
                for message in messages:
                    await socket.send(message)
            await anyio.sleep(_SETTLE_SECONDS)


async def _lives(address: str) -> bool:
    try:
        return await contract_probes.get_status(address, HttpProbe().path, timeout=_LIFE_SECONDS) == 200
    except (OSError, TimeoutError):
        return False


async def _moving(viewer: ClientConnection) -> None:
    """Wait until a viewer has been sent three different messages: the game is being played."""
    seen: set[int] = set()
    while len(seen) < 3:
        seen.add(hash(await viewer.recv(decode=False)))
