"""Signing in: codes only where they belong, callbacks only from whom they were asked, and players only of one's own."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from support.fake_server import Ask, FakeServer, Reset, Say, json_say, serve
from support.observatory import Observatory, running_observatory

from coworld_client import CoworldClient
from coworld_client.errors import (
    ApiConnectionError,
    ApiError,
    ApiStatusError,
    ApiTimeoutError,
    BadRequest,
    Gone,
    NotLoggedIn,
    ServerError,
)
from coworld_client.sign_in.credentials import CredentialStore, PlayerSession, Token, resolve_login
from coworld_client.sign_in.login import (
    SignInTimeout,
    adopt_token,
    callback_server,
    exchange_code,
    sign_in,
    sign_in_url,
    use_player,
    web_origin,
)
from coworld_core.errors import CoworldError, UsageError

OWN = "ply_11111111-0000-4000-8000-000000000001"
OTHER = "ply_11111111-0000-4000-8000-000000000002"


@pytest.fixture
def store(tmp_path: Path) -> CredentialStore:
    return CredentialStore(tmp_path / "softmax")


# --- where


@pytest.mark.parametrize(
    ("server", "origin"),
    [
        ("https://softmax.com/api", "https://softmax.com"),
        ("https://softmax.com/api/observatory/", "https://softmax.com"),
        ("http://127.0.0.1:8787", "http://127.0.0.1:8787"),
    ],
)
def test_where_the_pages_are(server: str, origin: str) -> None:
    assert web_origin(server) == origin
    assert sign_in_url(server) == f"{origin}/cli-auth"


def test_the_callback_is_quoted_once() -> None:
    url = sign_in_url("https://softmax.com/api", "http://127.0.0.1:5/callback?state=a", state="a")
    query = parse_qs(urlsplit(url).query)
    assert query == {"callback": ["http://127.0.0.1:5/callback?state=a"], "state": ["a"]}


# --- codes


async def test_a_code_becomes_a_token() -> None:
    async def handler(ask: Ask) -> Say:
        assert (ask.method, ask.path) == ("POST", "/observatory/credentials/auth-codes/exchange")
        assert json.loads(await ask.read()) == {"code": "c0de"}
        assert "authorization" not in ask.headers
        return json_say({"token": "t0ken"})

    async with serve(handler) as server:
        assert await exchange_code(server.url, " c0de\n") == Token("t0ken")


@pytest.mark.parametrize(
    ("say", "kind", "words"),
    [
        (Say(302, headers={"Location": "http://127.0.0.1:1/"}), ApiStatusError, "web pages"),
        (Say(410), Gone, "used or has expired"),
        (Say(400, b'{"detail": "malformed"}'), BadRequest, "not a sign-in code"),
        (Say(500, b"oops"), ServerError, "500"),
        (Say(403, b'{"detail": "not you"}'), ApiStatusError, "not you"),
        (json_say({"access": "s3cret"}), ApiError, "no token"),
        (json_say({"token": "two s3cret words"}), ApiError, "no token"),
        (json_say(["s3cret"]), ApiError, "no token"),
        (Say(200, b"<html>s3cret"), ApiError, "no token"),
    ],
)
async def test_refused_sign_in_code_is_reported(say: Say, kind: type[CoworldError], words: str) -> None:
    async def handler(_: Ask) -> Say:
        return say

    async with serve(handler) as server:
        with pytest.raises(kind) as caught:
            await exchange_code(server.url, "c0de")
        assert len(server.asked) == 1
    assert words in caught.value.message
    shown = f"{caught.value.to_dict()}{caught.value.__cause__}"
    assert "c0de" not in shown
    assert "s3cret" not in shown


async def test_a_server_that_does_not_answer() -> None:
    async def silent(_: Ask) -> Say:
        await anyio.sleep_forever()
        raise AssertionError

    async def resetting(_: Ask) -> Say:
        raise Reset

    async with serve(silent) as server:
        with pytest.raises(ApiTimeoutError):
            await exchange_code(server.url, "c0de", timeout=0.05)
        server.handler = resetting
        with pytest.raises(ApiConnectionError):
            await exchange_code(server.url, "c0de")


@pytest.mark.parametrize(
    "server",
    [
        "https://evil.example",
        "https://softmax.com.evil.example/api",
        "https://notsoftmax.com/api",
        "https://softmax-research.net.evil.example",
        "http://softmax.com/api",
        "http://192.168.1.5:8787",
    ],
)
async def test_codes_are_sent_to_safe_servers_only(server: str) -> None:
    for call in (exchange_code(server, "c0de"), sign_in(server, show=never_shown)):
        with pytest.raises(UsageError) as caught:
            await call
        assert caught.value.code == "code_host"


async def never_shown(_: str) -> None:
    raise AssertionError("nothing should have been shown")


@pytest.mark.parametrize("code", ["", "  ", "two words", "x" * 3000, "line\nbreak"])
async def test_malformed_code_is_not_sent(code: str) -> None:
    with pytest.raises(UsageError):
        await exchange_code("http://127.0.0.1:9", code)


# --- by a browser


async def exchange(ask: Ask) -> Say:
    return json_say({"token": f"token-for-{json.loads(await ask.read())['code']}"})


async def visit(url: str, **more: Any) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False) as browser:
        return await browser.request(more.pop("method", "GET"), url, **more)


def callback_of(page: str) -> str:
    return parse_qs(urlsplit(page).query)["callback"][0]


@pytest.mark.parametrize("separator", ["&", "?"])
async def test_a_browser_comes_back(separator: str) -> None:
    seen: list[httpx2.Response] = []
    async with serve(exchange) as server, anyio.create_task_group() as group:

        async def show(page: str) -> None:
            async def browse() -> None:
                seen.append(await visit(f"{callback_of(page)}{separator}code=c1"))

            group.start_soon(browse)

        token = await sign_in(server.url, show=show)
    assert token == Token("token-for-c1")
    assert "access-control-allow-origin" not in seen[0].headers
    assert seen[0].headers["referrer-policy"] == "no-referrer"
    assert seen[0].status_code == 200


async def test_a_code_is_pasted() -> None:
    shown: list[str] = []

    async def show(page: str) -> None:
        shown.append(page)

    async def paste() -> str:
        return " c2 \n"

    async with serve(exchange) as server:
        assert await sign_in(server.url, show=show, paste=paste) == Token("token-for-c2")
    with pytest.raises(httpx2.ConnectError):
        await visit(callback_of(shown[0]))


async def test_sign_in_times_out() -> None:
    async def show(_: str) -> None: ...

    async def gone() -> None:
        return None

    async with serve(exchange) as server:
        with pytest.raises(SignInTimeout) as caught:
            await sign_in(server.url, show=show, paste=gone, timeout=0.05)
        assert not server.asked
    assert caught.value.kind == "environment"


async def test_error_while_opening_the_page_is_raised() -> None:
    async def show(_: str) -> None:
        raise UsageError("no browser", code="no_browser")

    with pytest.raises(UsageError) as caught:
        await sign_in("http://127.0.0.1:9", show=show)
    assert caught.value.code == "no_browser"


async def test_callback_with_wrong_state_is_refused() -> None:
    async with callback_server() as callback:
        place, state = callback.url.partition("?")[0], callback.state
        assert (await visit(f"{place}?code=c")).status_code == 403
        assert (await visit(f"{place}?state=wrong&code=c")).status_code == 403
        assert (await visit(f"{place}?state={state}&state=x&code=c")).status_code == 403
        assert (await visit(f"{place}?state={state}")).status_code == 400
        assert (await visit(f"{place}?state={state}&code=a&code=b")).status_code == 400
        assert (await visit(f"{callback.url}&code=c", method="POST")).status_code == 405
        assert (await visit(f"{callback.url}&code=c", method="OPTIONS")).status_code == 405
        assert (await visit(f"{callback.url}&code=c", headers={"Host": "evil.example"})).status_code == 403
        assert (await visit(callback.url.replace("/callback", "/other"))).status_code == 404
        assert (await visit(f"{callback.url}&code=first")).status_code == 200
        assert (await visit(f"{callback.url}&code=second")).status_code == 409
        assert await callback.code() == "first"


async def test_visitors_that_speak_no_http() -> None:
    async with callback_server() as callback:
        host, _, port = callback.host.partition(":")
        for said in (b"\x16\x03\x01\x02", b"GET " + b"x" * 100_000, b""):
            async with await anyio.connect_tcp(host, int(port)) as stream:
                await stream.send(said or b" ")
                await stream.send_eof()
        idle = await anyio.connect_tcp(host, int(port))
        assert (await visit(f"{callback.url}&code=c")).status_code == 200
        await idle.aclose()


# --- with a token


def platform(*, subject: str = "user", players: list[dict[str, Any]] | None = None) -> Any:
    minted = 0

    async def handler(ask: Ask) -> Say:
        nonlocal minted
        match ask.method, ask.path.removeprefix("/observatory"):
            case "GET", "/whoami":
                return json_say({"user_email": "a@b.c", "subject_type": subject, "scopes": []})
            case "GET", "/players":
                return json_say(players or [])
            case "POST", path if path.endswith("/login"):
                minted += 1
                until = datetime.now(UTC) + timedelta(days=1)
                return json_say({"player_id": OWN, "token": f"ply_{minted}", "expires_at": until.isoformat()})
            case _:
                return json_say({"detail": "no such thing"}, 404)

    return handler


@asynccontextmanager
async def client(handler: Any, token: str = "mine") -> AsyncGenerator[tuple[CoworldClient, FakeServer]]:
    async with serve(handler) as server, CoworldClient(server.url, token=token, max_retries=0) as api:
        yield api, server


async def test_a_token_is_kept_once_the_server_knows_it(store: CredentialStore) -> None:
    async with client(platform()) as (api, _):
        known = await adopt_token(api, store)
        assert known.user_email == "a@b.c"
        assert store.read(api.server).token == Token("mine")


async def test_unknown_token_is_not_stored(store: CredentialStore) -> None:
    async with client(platform(subject="anonymous")) as (api, _):
        with pytest.raises(NotLoggedIn) as caught:
            await adopt_token(api, store)
        assert caught.value.code == "token_unknown"
    async with client(platform(subject="player"), "ply_x") as (api, server):
        with pytest.raises(UsageError):
            await adopt_token(api, store)

        async def broken(_: Ask) -> Say:
            return Say(500)

        server.handler = broken
        with pytest.raises(ServerError):
            await adopt_token(api, store)
    assert not store.path.exists()


# --- as a player


PLAYERS = [{"id": OWN, "name": "sprinter", "is_default": True, "created_at": "2026-01-01T00:00:00Z"}]


async def test_player_session_is_started_and_reused(store: CredentialStore) -> None:
    async with client(platform(players=PLAYERS)) as (api, server):
        session = await use_player(api, OWN, store)
        assert session.token == Token("ply_1")
        assert resolve_login(api.server, store=store, environ={}).identity == OWN
        again = await use_player(api, OWN, store)
        assert again.token == Token("ply_1")
        # Still asked whether it is ours
        assert [ask.path for ask in server.asked].count("/observatory/players") == 2


@pytest.mark.parametrize(("minutes", "renewed"), [(6, False), (4.9, True), (-1, True)])
async def test_a_session_that_ends_soon_is_renewed(store: CredentialStore, minutes: float, renewed: bool) -> None:
    now = datetime.now(UTC)
    async with client(platform(players=PLAYERS)) as (api, _):
        old = PlayerSession(player_id=OWN, token=Token("ply_old"), expires_at=now + timedelta(minutes=minutes))
        store.save_session(api.server, old)
        session = await use_player(api, OWN, store, now=now)
    assert (session.token != Token("ply_old")) == renewed


async def test_foreign_player_is_refused_despite_a_session(store: CredentialStore) -> None:
    async with client(platform(players=PLAYERS)) as (api, _):
        until = datetime.now(UTC) + timedelta(hours=5)
        old = PlayerSession(player_id=OTHER, token=Token("ply_old"), expires_at=until)
        store.save_session(api.server, old, activate=False)
        with pytest.raises(UsageError) as caught:
            await use_player(api, OTHER, store)
        assert caught.value.code == "player_unknown"
        assert "sprinter" in str(caught.value.hint)
        assert store.read(api.server).active is None


async def test_a_disabled_player_is_refused(store: CredentialStore) -> None:
    disabled = [{**PLAYERS[0], "disabled_at": "2026-02-01T00:00:00Z"}]
    async with client(platform(players=disabled)) as (api, _):
        with pytest.raises(UsageError) as caught:
            await use_player(api, OWN, store)
    assert caught.value.code == "player_disabled"


# --- all of it, at a real one


async def show_token(observatory: Observatory, page: str, token: str) -> httpx2.Response:
    """What a person does in the browser: show the token, and follow where that leads."""
    async with httpx2.AsyncClient(trust_env=False, follow_redirects=True) as browser:
        form = (await browser.get(page)).text
        assert "Sign in" in form
        fields = dict(re.findall(r'name="(callback)" value="([^"]*)"', form))
        fields["callback"] = fields["callback"].replace("&amp;", "&")
        return await browser.post(f"{observatory.server}/cli-auth", data={**fields, "token": token})


@pytest.mark.slow
async def test_the_whole_way_at_an_observatory(tmp_path: Path, store: CredentialStore) -> None:
    async with running_observatory(tmp_path) as observatory, anyio.create_task_group() as group:
        shown = await observatory.add_user("ann", email="ann@example.org")
        seen: list[httpx2.Response] = []

        async def show(page: str) -> None:
            async def browse() -> None:
                seen.append(await show_token(observatory, page, shown))

            group.start_soon(browse)

        token = await sign_in(observatory.server, show=show)
        async with CoworldClient(observatory.server, token=token) as api:
            assert (await adopt_token(api, store)).user_email == "ann@example.org"
            player = await api.players.create("sprinter")
            session = await use_player(api, player.id, store)
        assert session.good_for() > timedelta(hours=23)
        login = resolve_login(observatory.server, store=store, environ={})
        async with CoworldClient(observatory.server, token=login.token) as api:
            assert (await api.whoami()).subject_id == player.id
        async with CoworldClient(observatory.server, token="obs_unknown") as api:
            with pytest.raises(NotLoggedIn):
                await adopt_token(api, store)
        assert "The code has arrived" in seen[0].text
