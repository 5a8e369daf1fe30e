"""Games for other machines: the gateway before a game's port, what it lets through, and where it may be opened."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.abc
import httpx2
import pytest
from support.certificates import Authority
from support.fake_server import serve_streams
from support.served_game import TOKENS, Table, hear, serving, tell
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from coworld_core.errors import UsageError
from coworld_runner.kit.dev import open_served
from coworld_runner.kit.server.scaffolds import new_game
from coworld_runner.telemetry.gateway_metrics import GatewayMetrics
from coworld_runner.telemetry.metrics_server import open_metrics
from coworld_runner.web import gateway as gateways
from coworld_runner.web.gateway import Gateway, open_gateway
from coworld_runner.web.http_server import listen
from coworld_runner.web.public_address import PublicAddress


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@asynccontextmanager
async def shared(table: Table, certificate: Path | None = None) -> AsyncGenerator[Gateway]:
    async with open_gateway(PublicAddress(host="127.0.0.1", certificate=certificate)) as gateway:
        gateway.lead(f"127.0.0.1:{table.port}")
        yield gateway


async def spoken(base: str, data: bytes) -> bytes:
    """What comes back, up to the end, for these bytes."""
    url = urlsplit(base)
    async with await anyio.connect_tcp(url.hostname or "", url.port or 0) as stream:
        await stream.send(data)
        heard = b""
        with anyio.fail_after(20):
            async for piece in stream:
                heard += piece
    return heard


async def test_who_comes_between_two_games_waits_for_the_next() -> None:
    async with open_gateway(PublicAddress(host="127.0.0.1"), again=True) as gateway:
        async with serving() as table, httpx2.AsyncClient(base_url=gateway.base) as client:
            gateway.lead(f"127.0.0.1:{table.port}")
            assert (await client.get("/healthz")).status_code == 200
        heard: list[int] = []

        async def ask() -> None:
            async with httpx2.AsyncClient(base_url=gateway.base, timeout=20) as client:
                heard.append((await client.get("/healthz")).status_code)

        async with serving() as next_table, anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(ask)
            await gateway.wanted()
            assert heard == []
            gateway.lead(f"127.0.0.1:{next_table.port}")
        assert heard == [200] * 3


async def test_a_game_is_played_and_watched_with_tls(authority: Authority) -> None:
    trust = ssl.create_default_context(cafile=authority.file)
    async with serving(sticks=2) as table, shared(table, authority.issue("127.0.0.1")) as gateway:
        async with httpx2.AsyncClient(verify=trust, base_url=gateway.base) as http:
            assert (await http.get("/healthz")).json() == {"ok": True}
            page = await http.get("/client/player", params={"slot": 0, "token": TOKENS[0]})
            assert "no-referrer" in page.headers["referrer-policy"]
        base = gateway.base.replace("https:", "wss:")
        seats = [f"{base}/player{table.url(slot).partition('/player')[2]}" for slot in (0, 1)]
        async with connect(seats[0], ssl=trust, proxy=None) as first, connect(seats[1], ssl=trust, proxy=None) as last:
            assert [(await hear(seat))["seat"] for seat in (first, last)] == [0, 1]
            assert gateway.open == 2
            await hear(first)
            await tell(first, 0, {"take": 2})
            assert [json.loads(message) async for message in last][-1]["scores"] == [1.0, 0.0]
            # The game's own close comes through
            assert (last.close_code, last.close_reason) == (1000, "the game is over")
        with pytest.raises(InvalidStatus, match="403"):
            await connect(f"{base}/player?slot=0&token=wrong", ssl=trust, proxy=None)
    assert gateway.open == 0


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET /admin HTTP/1.1", 403),
        ("GET /client/./ADMIN/x HTTP/1.1", 403),
        ("GET //%61dmin?x HTTP/1.1", 403),
        ("GET /client/%2561dmin HTTP/1.1", 400),
        ("GET /client\\admin HTTP/1.1", 400),
        ("GET /a/../admin HTTP/1.1", 400),
        ("GET http://other/healthz HTTP/1.1", 400),
        ("GET /healthz HTTP/1.0", 400),
        ("nonsense", 400),
        ("GET /healthz HTTP/1.1\r\n X: folded", 400),
        ("POST /healthz HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2", 400),
        ("POST /healthz HTTP/1.1\r\nContent-Length: +1", 400),
        ("GET /healthz HTTP/1.1\r\nHost: another", 400),
        ("GET /healthz HTTP/1.1\r\nA: b\r\n\x00: c", 400),
        ("GET /healthz HTTP/1.1\r\nA : b", 400),
        ("POST /healthz HTTP/1.1\r\nTransfer-Encoding: chunked", 411),
        ("POST /healthz HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked", 411),
        ("GET /healthz HTTP/1.1", 200),
    ],
)
async def test_only_players_and_viewers_pages_are_reached(request_line: str, status: int) -> None:
    async with serving() as table, shared(table) as gateway:
        answer = await spoken(gateway.base, f"{request_line}\r\nHost: game\r\n\r\n".encode())
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())


@asynccontextmanager
async def raw_game(serve: Callable[[anyio.abc.ByteStream], Awaitable[None]]) -> AsyncGenerator[Gateway]:
    """A game of a single function, behind a gateway."""
    async with open_gateway(PublicAddress(host="127.0.0.1")) as gateway, serve_streams(serve) as address:
        gateway.lead(address)
        yield gateway


@pytest.mark.parametrize(
    "first",
    [
        "GET /a HTTP/1.1\r\nHost: game\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: game\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    ],
)
async def test_a_second_request_does_not_follow_the_first(first: str) -> None:
    """Else the operator's page could be asked for behind an open one."""
    heard: list[bytes] = []

    async def keeps_open(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            heard.append(await stream.receive())
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            with anyio.move_on_after(0.5):
                heard.append(await stream.receive())

    async with raw_game(keeps_open) as gateway:
        answer = await spoken(gateway.base, f"{first}GET /admin HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.count(b"HTTP/1.1") == 1
    assert b"admin" not in b"".join(heard)


async def test_a_body_is_passed_on() -> None:
    async def echoes(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            heard = b""
            while not heard.endswith(b"end"):
                heard += await stream.receive()
            assert b"Connection: close\r\n" in heard
            await stream.send(b"HTTP/1.1 200 OK\r\n\r\n" + heard.partition(b"\r\n\r\n")[2])

    body = b"x" * 200_000 + b"end"
    async with raw_game(echoes) as gateway, httpx2.AsyncClient() as http:
        assert (await http.post(f"{gateway.base}/form", content=body)).content == body


async def test_a_game_that_is_gone_or_full_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as table:
        pass
    async with shared(table) as gateway, httpx2.AsyncClient(base_url=gateway.base) as http:
        assert (await http.get("/healthz")).status_code == 502
        monkeypatch.setattr(gateways, "MAX_EACH", 0)
        assert (await http.get("/healthz")).status_code == 503


async def test_without_tls_or_a_word_a_client_is_let_go(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as table, shared(table, authority.issue("127.0.0.1")) as gateway:
        answer = await spoken(gateway.base, b"GET /healthz HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 426 ")
        assert b"wss://" in answer
        monkeypatch.setattr(gateways, "HEAD_SECONDS", 0.2)
        assert await spoken(gateway.base, b"") == b""
        # Whoever does not trust the certificate leaves; others are served all the same
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(gateway.base.replace("https:", "wss:"), ssl=ssl.create_default_context(), proxy=None)
        assert gateway.open <= 1


async def test_a_served_game_has_links_for_others(authority: Authority, tmp_path: Path) -> None:
    new_game("small-game", directory=tmp_path / "game")
    public = PublicAddress(host="127.0.0.1", announced="wss://games.example/room/", certificate=authority.issue("h"))
    async with open_gateway(public) as gateway, open_served(str(tmp_path / "game"), gateway=gateway) as served:
        assert served.shared_links.viewer == "https://games.example/room/client/global"
        assert served.shared_links.players[1] == (
            f"https://games.example/room/client/player?slot=1&token={served.tokens[1]}"
        )
        assert served.links.viewer == f"http://{served.address}/client/global"


async def test_its_traffic_is_measured(tmp_path: Path) -> None:
    async with serving() as table, open_gateway(PublicAddress(host="127.0.0.1")) as gateway:
        metrics = GatewayMetrics(gateway)
        listener = listen("127.0.0.1", 0)
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with (
            open_metrics(listener, read=metrics.read, trouble=metrics.trouble),
            httpx2.AsyncClient() as http,
        ):
            early = await http.get(f"{base}/healthz")
            assert (early.status_code, early.json()["detail"]) == (503, "The game is not ready.")
            gateway.lead(f"127.0.0.1:{table.port}")
            assert (await http.get(f"{base}/healthz")).json() == {"status": "ok"}
            page = await http.get(f"{gateway.base}/client/global")
            assert (await http.get(f"{gateway.base}/admin")).status_code == 403
            url = gateway.base.replace("http:", "ws:") + table.url(0).partition(str(table.port))[2]
            async with connect(url, proxy=None):
                assert "coworld_gateway_connections 1.0" in (await http.get(f"{base}/metrics")).text
            shown = await http.get(f"{base}/metrics")
            assert shown.headers["content-type"].startswith("text/plain")
            for line in (
                'coworld_gateway_requests_total{status="200",what="page"} 1.0',
                'coworld_gateway_requests_total{status="403",what="other"} 1.0',
                'coworld_gateway_requests_total{status="101",what="player"} 1.0',
            ):
                assert line in shown.text
            (sent,) = re.findall(r'coworld_gateway_bytes_total{direction="sent"} (\S+)', shown.text)
            assert float(sent) > len(page.content)
            assert TOKENS[0] not in shown.text
            assert (await http.get(f"{base}/")).status_code == 404
        gateway.lead("127.0.0.1:1")
        assert await metrics.trouble() == "The game does not answer."


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ({"host": "127.0.0.1"}, "http://127.0.0.1:80"),
        ({"host": "::1"}, "http://[::1]:80"),
        ({"host": "10.0.0.1", "plain": True}, "http://10.0.0.1:80"),
        ({"host": "0.0.0.0", "announced": "wss://h:1"}, "https://h:1"),
        ({"host": "::", "announced": "h", "certificate": Path("c")}, "https://h:80"),
        ({"host": "::", "announced": "fe80::1", "certificate": Path("c")}, "https://[fe80::1]:80"),
        ({"host": "127.0.0.1", "announced": "https://h/a/"}, "https://h/a"),
        ({"host": "0.0.0.0"}, "announce_missing"),
        ({"host": "10.0.0.1"}, "tls_required"),
        ({"host": "h"}, "tls_required"),
        ({"host": "127.0.0.1", "announced": "h"}, "tls_required"),
        ({"host": "h", "announced": "ftp://h", "plain": True}, "bad_announce"),
        ({"host": "h", "announced": "wss://h:x"}, "bad_announce"),
        ({"host": "h", "announced": "h:80"}, "bad_announce"),
        ({"host": "h", "announced": "wss://me@h"}, "bad_announce"),
        ({"host": "h", "announced": "ws://h", "certificate": Path("c")}, "bad_announce"),
        ({"host": "127.0.0.1", "key": Path("k")}, "certificate_missing"),
    ],
)
def test_an_address_is_named_and_tokens_need_tls(given: dict[str, object], base: str) -> None:
    try:
        found = PublicAddress(**given).base(80)  # pyright: ignore[reportArgumentType]
    except UsageError as error:
        found = error.code
    assert found == base


async def test_what_cannot_be_served_is_said_before(authority: Authority, tmp_path: Path) -> None:
    good, other = authority.issue("127.0.0.1"), authority.issue("other")
    (tmp_path / "none.pem").write_text("nothing")
    for certificate, key, words in (
        (tmp_path / "absent.pem", None, "No such file"),
        (tmp_path / "none.pem", None, "cannot be read"),
        (good, other, "do not belong together"),
    ):
        with pytest.raises(UsageError, match=words) as failed:
            PublicAddress(host="h", certificate=certificate, key=key).context()
        assert failed.value.code == "bad_certificate"
    async with open_gateway(PublicAddress(host="127.0.0.1")) as gateway:
        taken = int(gateway.base.rpartition(":")[2])
        for host, port, code in (("127.0.0.1", taken, "port_taken"), ("192.0.2.1", 0, "bad_host")):
            with pytest.raises(UsageError) as failed:
                async with open_gateway(PublicAddress(host=host, port=port, plain=True)):
                    pass
            assert failed.value.code == code
