"""Seats of games on other machines: whom a player trusts, and what it is told where it does not."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from support.certificates import Authority
from support.fake_server import serve_streams
from support.served_game import Table, serving, sit
from websockets.asyncio.server import ServerConnection, serve

from coworld_client.seat import SeatError, connection, play_seat
from coworld_client.tls import tls_context
from coworld_core.errors import UsageError
from coworld_runner.kit.dev.seat_player import open_seat
from coworld_runner.web.gateway import open_gateway
from coworld_runner.web.public_address import PublicAddress


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@asynccontextmanager
async def shared(table: Table, certificate: Path | None) -> AsyncGenerator[str]:
    """The address of seat 0 for other machines."""
    async with open_gateway(PublicAddress(host="127.0.0.1", certificate=certificate)) as gateway:
        gateway.lead(f"127.0.0.1:{table.port}")
        yield gateway.base.replace("http", "ws") + table.url(0).partition(str(table.port))[2]


def first(observation: Any, legal: Any, rng: Any) -> Any:
    return legal[0]


async def test_own_authority_is_trusted_when_it_is_given(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = authority.issue("127.0.0.1")
    async with serving(sticks=1) as table, shared(table, certificate) as url, sit(table, 1):
        over = await play_seat(first, url, ssl=tls_context(ca=authority.file))
    assert over is not None
    assert over["scores"] == [1.0, 0.0]

    async def session(seat: Any) -> None:
        async for message in seat:
            if message.get("your_turn"):
                await seat.send({"type": "act", "tick": message["tick"], "action": {"take": 1}})

    monkeypatch.setenv("COWORLD_CA_FILE", str(authority.file))
    async with serving(sticks=1) as table, shared(table, certificate) as url, sit(table, 1):
        await play_seat(session, url)
        await table.over.wait()
        assert table.match.results()["scores"] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("names", "days", "trusted", "words", "hint"),
    [
        (("127.0.0.1",), 1, False, "no authority that this machine trusts", "tls_context"),
        (("10.0.0.1", "games.example"), 1, True, "for another name", "announce"),
        (("127.0.0.1",), -1, True, "has expired", "clock"),
    ],
)
async def test_a_certificate_that_is_not_trusted_is_said_at_once(
    names: tuple[str, ...], days: int, trusted: bool, words: str, hint: str, authority: Authority
) -> None:
    trust = tls_context(ca=authority.file) if trusted else tls_context()
    async with serving() as table, shared(table, authority.issue(*names, days=days)) as url:
        # Not tried again and again, as one that does not answer yet
        with anyio.fail_after(connection.CONNECT_SECONDS - 1), pytest.raises(SeatError, match=words) as failed:
            await play_seat(first, url, ssl=trust)
    assert failed.value.code == "tls_failed"
    assert hint in str(failed.value.hint)
    assert "token=" not in str(failed.value)


async def test_tls_and_none_are_told_apart(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as table, shared(table, authority.issue("127.0.0.1")) as url:
        with pytest.raises(SeatError, match="speaks TLS") as failed:
            await play_seat(first, url.replace("wss:", "ws:"))
        assert failed.value.code == "tls_failed"

    async def nothing(_: ServerConnection) -> None:
        raise AssertionError("nobody is let in")

    # Other servers say nothing that could be read, and might be starting
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.2)
    async with serving() as table:
        with pytest.raises(SeatError, match="Cannot reach") as failed:
            await play_seat(first, table.url(0).replace("ws:", "wss:"))
        assert "ws://" in str(failed.value.hint)

    async def answers(stream: anyio.abc.ByteStream) -> None:
        await stream.receive()
        await stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with serve_streams(answers) as address:
        with pytest.raises(SeatError, match="does not speak TLS") as failed:
            await play_seat(first, f"wss://{address}/player")
        assert failed.value.code == "tls_failed"
    async with serve(nothing, "127.0.0.1", 0, ssl=authority.server("127.0.0.1")) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        with pytest.raises(SeatError, match="Cannot reach") as failed:
            await play_seat(first, f"ws://127.0.0.1:{port}/player?slot=0&token=x")
    assert "wss://" in str(failed.value.hint)


async def test_a_server_may_ask_for_a_certificate(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    asks = authority.server("127.0.0.1")
    asks.verify_mode = ssl.CERT_REQUIRED
    asks.load_verify_locations(authority.file)

    async def greets(connection: ServerConnection) -> None:
        await connection.send('{"type": "over", "scores": [1]}')

    async with serve(greets, "127.0.0.1", 0, ssl=asks) as server:
        url = f"wss://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/player?token=x"
        own = tls_context(ca=authority.file, certificate=authority.issue("me"))
        over = await play_seat(first, url, ssl=own)
        assert over is not None
        assert over["scores"] == [1]
        monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.2)
        with pytest.raises(SeatError, match="Cannot reach") as failed:
            await play_seat(first, url, ssl=tls_context(ca=authority.file))
    assert "certificate of yours" in str(failed.value.hint)


def test_files_that_are_no_certificates_are_named(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_text("nothing")
    for given in (
        {"ca": tmp_path / "absent.pem"},
        {"ca": tmp_path / "none.pem"},
        {"certificate": tmp_path / "none.pem"},
        {"certificate": authority.file},
    ):
        with pytest.raises(UsageError, match=r"(absent|none|authority)\.pem") as failed:
            tls_context(**given)
        assert failed.value.code == "bad_certificate"
    with pytest.raises(UsageError, match="needs its certificate"):
        tls_context(key=authority.file)


@asynccontextmanager
async def connect_proxy(port: int) -> AsyncGenerator[tuple[str, list[str]]]:
    """A proxy that leads to a port of this machine, whatever it is asked for; yields its address, and what is asked."""
    asked: list[str] = []

    async def lead(stream: anyio.abc.ByteStream) -> None:
        asked.append((await stream.receive()).split(b"\r\n")[0].decode())
        async with await anyio.connect_tcp("127.0.0.1", port) as game, anyio.create_task_group() as both:
            await stream.send(b"HTTP/1.1 200 Connection established\r\n\r\n")

            async def pump(source: anyio.abc.ByteStream, target: anyio.abc.ByteStream) -> None:
                async for data in source:
                    await target.send(data)
                both.cancel_scope.cancel()

            both.start_soon(pump, stream, game)
            both.start_soon(pump, game, stream)

    async with serve_streams(lead) as address:
        yield f"http://{address}", asked


async def test_another_network_is_reached_through_the_proxy_of_this_one(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def greets(connection: ServerConnection) -> None:
        await connection.send('{"type": "over", "scores": [1]}')

    (tmp_path / "bot.py").write_text("def act(observation, legal, rng):\n    return legal[0]\n")
    async with serve(greets, "127.0.0.1", 0, ssl=authority.server("games.example", "127.0.0.1")) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with connect_proxy(port) as (proxy, asked):
            monkeypatch.setenv("https_proxy", proxy)
            trust = tls_context(ca=authority.file)
            assert await play_seat(first, "wss://games.example/player?token=x", ssl=trust)
            # So does a program that is started for a seat
            async with open_seat(
                "https://games.example/client/player?token=x", str(tmp_path / "bot.py"), ca=authority.file
            ) as unit:
                assert (await unit.wait()).ok
            assert asked == ["CONNECT games.example:443 HTTP/1.1"] * 2
            assert await play_seat(first, f"wss://127.0.0.1:{port}/player?token=x", ssl=trust)
            assert len(asked) == 2
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.2)
    with pytest.raises(SeatError, match=r"through 127\.0\.0\.1, the proxy that https_proxy names"):
        await play_seat(first, "wss://games.example/player?token=x", ssl=trust)
    monkeypatch.setenv("no_proxy", ".example")
    with pytest.raises(SeatError, match=r"Cannot reach the game at wss://games\.example/player:"):
        await play_seat(first, "wss://games.example/player?token=x", ssl=trust)
    monkeypatch.setenv("https_proxy", "nonsense://user:secret@proxy.example:1")
    monkeypatch.delenv("no_proxy")
    with pytest.raises(UsageError, match="The proxy that https_proxy names cannot be used") as failed:
        await play_seat(first, "wss://games.example/player?token=x", ssl=trust)
    assert "secret" not in failed.value.message
