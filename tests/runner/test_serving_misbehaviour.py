"""What players do that they should not, at the socket: what the server does, and that it costs the others nothing.

One table. After each of its lines the game is played to its end by both seats, with the scores that it would have had,
and a spectator sees the end.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
import pytest
from support.served_game import TOKENS, Table, hear, serving, sit, tell
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from coworld_core.rules.seat_wire import MAX_FRAME

Behave = Callable[[Table, ClientConnection], Awaitable[str]]
"""Misbehaves in seat 0, whose turn it is and whose `observe` has been heard; returns what the server did."""


def act(tick: object, action: object) -> str:
    return json.dumps({"type": "act", "tick": tick, "action": action})


def writes(content: bytes) -> Behave:
    """Writes bytes past the websocket library, and returns the code that the connection was closed with."""

    async def behave(table: Table, seat: ClientConnection) -> str:
        seat.transport.write(content)
        try:
            await heard_out(seat)
        except ConnectionClosed as closed:
            return f"closed: {closed.rcvd.code if closed.rcvd is not None else 'aborted'}"

    return behave


def frame(head: int, payload: bytes, *, masked: bool = True, length: bytes | None = None) -> bytes:
    """A frame as it stands on the wire, with a mask of zeros."""
    size = bytes([len(payload) | (0x80 if masked else 0)]) if length is None else length
    return bytes([head]) + size + (bytes(4) if masked else b"") + payload


async def heard_out(seat: ClientConnection) -> None:
    """Hears a seat until its connection is closed, and raises how."""
    while True:
        await seat.recv()


def asks(query: str, path: str = "/player") -> Behave:
    """Asks for a seat, and returns the status."""

    async def behave(table: Table, seat: ClientConnection) -> str:
        try:
            async with connect(f"ws://127.0.0.1:{table.port}{path}?{query}", proxy=None):
                return "let in"
        except InvalidStatus as refused:
            return f"HTTP {refused.response.status_code}"

    return behave


def raw(content: bytes) -> Behave:
    """Sends bytes to the port itself, and returns the first line of the answer."""

    async def behave(table: Table, seat: ClientConnection) -> str:
        async with await anyio.connect_tcp("127.0.0.1", table.port) as stream:
            await stream.send(content)
            try:
                answer = await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return "closed"
            return answer.split(b"\r\n")[0].decode()

    return behave


async def leaves(table: Table, seat: ClientConnection) -> str:
    await seat.close()
    return "seat is free"


async def vanishes(table: Table, seat: ClientConnection) -> str:
    seat.transport.abort()
    return "seat is free"


async def half_a_frame(table: Table, seat: ClientConnection) -> str:
    seat.transport.write(frame(0x81, b"half", length=b"\xfe\x01\x00"))
    seat.transport.abort()
    return "seat is free"


async def comes_and_goes(table: Table, seat: ClientConnection) -> str:
    for _ in range(30):
        async with sit(table, 0):
            pass
    assert len(table.printed) < 200, "it fills the log"
    return "seat is free"


async def comes_twice(table: Table, seat: ClientConnection) -> str:
    async with sit(table, 0):
        with pytest.raises(ConnectionClosed, match="replaced by a newer connection"):
            await heard_out(seat)
    return "older one closed"


async def reads_nothing(table: Table, seat: ClientConnection) -> str:
    seat.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(100):
        await seat.send("nonsense")
    seat.transport.abort()
    return "answers are dropped"


async def pings(table: Table, seat: ClientConnection) -> str:
    for _ in range(50):
        await (await seat.ping())
    return "ponged"


async def acts_out_of_turn(table: Table, seat: ClientConnection) -> str:
    async with sit(table, 1) as other:
        await tell(other, 0, {"take": 1})
        while (message := await hear(other))["type"] != "refused":
            pass
        return f"refused: {message['reason']}"


async def opens_and_says_nothing(table: Table, seat: ClientConnection) -> str:
    async with await anyio.connect_tcp("127.0.0.1", table.port):
        return "waits"


async def speaks_as_spectator(table: Table, seat: ClientConnection) -> str:
    async with connect(f"ws://127.0.0.1:{table.port}/global", proxy=None) as viewer:
        await viewer.send(act(0, {"take": 3}))
        await (await viewer.ping())
    return "not heard"


@dataclass(frozen=True)
class Line:
    """A line of the table."""

    behaviour: str
    behave: Behave
    server: str
    keeps: bool = True
    """Whether it still has its connection; what it costs is that alone, and it may come back."""


REFUSED: list[tuple[str | bytes, str]] = [
    ("", "the message is not JSON"),
    ("I take one", "the message is not JSON"),
    (b"\xff\xfe", "the message is not JSON"),
    ("[" * 20_000, "the message is not JSON"),
    ("[" * 100_000, "an act has at most 20000 values"),
    ("9" * 10_000, "the message is not JSON"),
    (act(0, {"take": 1}) * 2, "the message is not JSON"),
    ("[]", "send {"),
    ("null", "send {"),
    ('{"type": "move", "take": 1}', "send {"),
    ('{"type": "act", "action": {"take": 1}}', "an act has a tick"),
    ('{"type": "act", "tick": 0}', "an act has a tick"),
    (act("0", {"take": 1}), "an act has a tick"),
    (act(True, {"take": 1}), "an act has a tick"),
    (json.dumps({"type": "act", "tick": 0, "action": {"take": 1}, "by": "x" * 41}), "an act's by"),
    (act(-1, {"take": 1}), "too late"),
    (act(1, {"take": 1}), "tick 1 has not come yet"),
    (act(10**30, {"take": 1}), "tick 1000000000000000000000"),
    (act(0, None), "no action"),
    (act(0, [1]), "no action"),
    (act(0, {}), "no action: take"),
    (act(0, {"take": 4}), "no action: take"),
    ('{"type":"act","tick":0,"action":{"take":NaN}}', "the action"),
    (act(0, {"take": 1, "pad": "x" * 100_000, "no": [1] * 999, "take2": 4}) + "]", "the message is not JSON"),
    # For another seat
    (json.dumps({"type": "act", "tick": 0, "seat": 1, "action": {"take": 9}}), "no action: take"),
]
"""What is sent, and the reason for which it is refused."""


async def says_all_that_is_refused(table: Table, seat: ClientConnection) -> str:
    for message, reason in REFUSED:
        await seat.send(message)
        refused = await hear(seat)
        assert refused["type"] == "refused"
        assert refused["reason"].startswith(reason), message
    return "refused"


TABLE = [
    Line("says all that is refused", says_all_that_is_refused, "refused"),
    Line("an act out of turn", acts_out_of_turn, "refused: it is not your turn"),
    Line("pings", pings, "ponged"),
    Line("reads nothing", reads_nothing, "answers are dropped", keeps=False),
    Line("leaves in mid-game", leaves, "seat is free", keeps=False),
    Line("vanishes in mid-game", vanishes, "seat is free", keeps=False),
    Line("vanishes in mid-frame", half_a_frame, "seat is free", keeps=False),
    Line("comes and goes", comes_and_goes, "seat is free", keeps=False),
    Line("comes twice", comes_twice, "older one closed", keeps=False),
    Line(
        "a frame of 100 MB",
        writes(frame(0x81, b"x", length=b"\xff" + (10**8).to_bytes(8, "big"))),
        "closed: 1009",
        keeps=False,
    ),
    Line(
        "a frame one byte too long",
        writes(frame(0x81, b"x" * (MAX_FRAME + 1), length=b"\xff" + (MAX_FRAME + 1).to_bytes(8, "big"))),
        "closed: 1009",
        keeps=False,
    ),
    Line("a frame without a mask", writes(frame(0x81, b"x", masked=False)), "closed: 1002", keeps=False),
    Line("a frame of no known kind", writes(frame(0x83, b"x")), "closed: 1002", keeps=False),
    Line("reserved bits", writes(frame(0xF1, b"x")), "closed: 1002", keeps=False),
    Line("text that is no UTF-8", writes(frame(0x81, b"\xff\xfe")), "closed: 1007", keeps=False),
    Line("the rest of no message", writes(frame(0x80, b"x")), "closed: 1002", keeps=False),
    Line("a close that says nothing valid", writes(frame(0x88, b"\x00\x01")), "closed: 1002", keeps=False),
    Line("another one's token", asks(f"slot=1&token={TOKENS[0]}"), "HTTP 403"),
    Line("a seat that is none", asks(f"slot=2&token={TOKENS[0]}"), "HTTP 403"),
    Line("a seat in other digits", asks(f"slot=%D9%A0&token={TOKENS[0]}"), "HTTP 403"),
    Line("no token", asks("slot=0"), "HTTP 403"),
    Line("another path", asks("", "/players"), "HTTP 404"),
    Line("another method without a token", raw(b"POST /player HTTP/1.1\r\n\r\n"), "HTTP/1.1 403 Forbidden"),
    Line(
        "no upgrade",
        raw(f"GET /player?slot=0&token={TOKENS[0]} HTTP/1.1\r\nHost: x\r\n\r\n".encode()),
        "HTTP/1.1 426 Upgrade Required",
    ),
    Line("opens and says nothing", opens_and_says_nothing, "waits"),
    Line("a spectator that acts", speaks_as_spectator, "not heard"),
]


@pytest.mark.parametrize("line", TABLE, ids=[line.behaviour for line in TABLE])
async def test_misbehaving_client_affects_only_itself(line: Line) -> None:
    async with serving(sticks=4) as table, sit(table, 0) as seat, sit(table, 1):
        while not (await hear(seat)).get("your_turn"):
            pass
        did = await line.behave(table, seat)
        assert did.startswith(line.server), did
        assert table.match.tick == 0, "something was done"
        async with sit(table, 1) as other, sit(table, 0) as again:
            assert (await hear(again))["legal"], "who comes back plays on"
            player = again
            if line.keeps:
                # Whoever still has its connection has lost it to the newer one only now
                with pytest.raises(ConnectionClosed, match="replaced by a newer connection"):
                    await heard_out(seat)
            await tell(player, 0, {"take": 3})
            while not (message := await hear(other)).get("your_turn"):
                pass
            await tell(other, message["tick"], {"take": 1})
            while (message := await hear(other))["type"] != "over":
                pass
            assert message["scores"] == [0.0, 1.0]
        assert table.failure is None
        assert not any(token in said for token in TOKENS for said in table.printed)
