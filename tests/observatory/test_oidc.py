"""Signing in by an OpenID Connect provider: a real one, and one that lies."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import anyio
import httpx2
import pytest
import sqlalchemy as sa
from anyio.streams.text import TextReceiveStream
from support.fake_server import serve_site
from support.lying_oidc import CLIENT, LyingProvider
from support.observatory import Inside, inside, new_services

from coworld_core.errors import UsageError
from observatory.app import create_app
from observatory.cli import main
from observatory.identity.accounts import new_token
from observatory.operations.deletion import delete_named
from observatory.operations.moderation import disable_user
from observatory.services import open_services
from observatory.settings import OidcProvider, Settings
from observatory.store.audit import audit_lines
from observatory.store.models import SignInLink

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
CALLBACK = "/sign-in/oidc/callback"


@asynccontextmanager
async def meeting(tmp_path: Path, **options: Any) -> AsyncGenerator[tuple[Inside, LyingProvider]]:
    """An Observatory with the account ann, and its provider."""
    async with serve_site(LyingProvider()) as site:
        oidc = OidcProvider(issuer=site.url, client_id=CLIENT, client_secret="s", name="Campus", **options)
        async with inside(tmp_path, oidc=oidc) as platform:
            await platform.add_user("ann", email="Ann@example.org")
            yield platform, site


@asynccontextmanager
async def real_provider(person: dict[str, Any]) -> AsyncGenerator[str]:
    """The issuer of a provider that is a program of its own and knows a person."""
    words = ["--port", "0", "--require-nonce", "--user-claims", json.dumps(person)]
    async with await anyio.open_process([sys.executable, "-m", "oidc_provider_mock", *words]) as process:
        try:
            assert process.stderr is not None
            told = ""
            with anyio.fail_after(60):
                async for piece in TextReceiveStream(process.stderr):
                    told += piece
                    if found := re.search(r"running on (http://[\w.:]+)", told):
                        break
            assert found is not None, told
            yield found[1]
        finally:
            process.terminate()


async def begin(platform: Inside, site: LyingProvider, place: str = "/account") -> dict[str, str]:
    """Begin in the browser; returns what the provider is asked."""
    answer = await platform.http.get("/sign-in/oidc", params={"next": place})
    assert answer.status_code == 303, answer.text
    asked = dict(parse_qsl(urlsplit(answer.headers["location"]).query))
    site.nonce = asked["nonce"]
    return asked


async def signed_in(platform: Inside, site: LyingProvider, place: str = "/account", **answer: str) -> httpx2.Response:
    """Sign in from the beginning to the end."""
    asked = await begin(platform, site, place)
    return await platform.http.get(CALLBACK, params={"code": "c", "state": asked["state"], **answer})


async def name_of(platform: Inside) -> str | None:
    """Whose account the browser is signed in to."""
    found = re.search(r"<h1>(.+?)</h1>", (await platform.http.get("/account")).text)
    return found[1] if found else None


async def links(platform: Inside) -> list[tuple[str, str]]:
    async with platform.services.database.reading() as session:
        rows = await session.execute(sa.select(SignInLink.subject, SignInLink.user_id))
        return [(subject, user) for subject, user in rows]


async def test_whole_flow_with_a_real_provider(tmp_path: Path, database: str | None) -> None:
    async with real_provider({"sub": "ann-1", "email": "ann@example.org", "email_verified": True}) as issuer:
        oidc = OidcProvider(issuer=issuer, client_id=CLIENT, client_secret="s", name="Campus")
        async with inside(tmp_path, database=database, oidc=oidc) as platform, httpx2.AsyncClient() as browser:
            token = await platform.add_user("ann", email="ann@example.org")
            page = (await platform.http.get("/sign-in?next=/account")).text
            assert "Sign in with Campus" in page
            for _ in range(2):
                [way] = re.findall(r'href="(/sign-in/oidc[^"]*)"', page)
                sent = await platform.http.get(way)
                # The provider's own page, and its button
                assert "ann-1" in (await browser.get(sent.headers["location"])).text
                back = (await browser.post(sent.headers["location"], data={"sub": "ann-1"})).headers["location"]
                assert back.startswith(f"{platform.services.settings.url}{CALLBACK}?")
                entered = await platform.http.get(back)
                assert (entered.status_code, entered.headers["location"]) == (303, "/account"), entered.text
                assert "Campus" in (await platform.http.get("/account")).text
            # The code works once, whatever the browser remembers
            assert (await platform.http.get(back)).status_code == 400
            [(subject, user)] = await links(platform)
            assert (subject, user) == ("ann-1", (await platform.get("/whoami", token))["subject_id"])
            async with platform.services.database.reading() as session:
                lines = await audit_lines(session, user="ann")
            said = [(line["action"], line["detail"].get("label")) for line in lines]
            entry = ("session.opened", "Campus")
            assert said == [("account.made", None), ("token.made", "first"), ("account.linked", None), entry, entry]


async def test_a_command_line_signs_in_by_the_provider(tmp_path: Path) -> None:
    async with meeting(tmp_path) as (platform, site):
        asking = "/cli-auth?callback=http%3A%2F%2F127.0.0.1%3A8123%2Fcb"
        page = (await platform.http.get(asking)).text
        [way] = re.findall(r'href="(/sign-in/oidc[^"]*)"', page)
        asked = dict(parse_qsl(urlsplit((await platform.http.get(way)).headers["location"]).query))
        site.nonce = asked["nonce"]
        back = await platform.http.get(CALLBACK, params={"code": "c", "state": asked["state"]})
        assert back.headers["location"] == asking
        assert "Continue as ann" in (await platform.http.get(back.headers["location"])).text
        form = {"callback": "http://127.0.0.1:8123/cb"}
        crossing = await platform.http.post("/cli-auth", data=form, headers={"Sec-Fetch-Site": "cross-site"})
        assert crossing.status_code == 403
        sent = await platform.http.post("/cli-auth", data=form, headers=SAME_ORIGIN)
        [code] = parse_qs(urlsplit(sent.headers["location"]).query)["code"]
        given = await platform.post("/credentials/auth-codes/exchange", body={"code": code})
        assert (await platform.get("/whoami", given["token"]))["name"] == "ann"


@pytest.mark.parametrize(
    ("lies", "way", "said"),
    [
        ({"aud": "another-client"}, "ES256", "aud"),
        ({"aud": [CLIENT, "another-client"]}, "ES256", "azp"),
        ({"iss": "https://evil.example"}, "ES256", "iss"),
        ({"exp": 1_000_000_000, "iat": 999_999_000}, "ES256", "expired"),
        ({"exp": None}, "ES256", "exp"),
        ({"nonce": "of-another-browser"}, "ES256", "nonce"),
        ({"nonce": None}, "ES256", "nonce"),
        ({"sub": None}, "ES256", "sub"),
        ({}, "none", "cannot be believed"),
        ({}, "HS256", "cannot be believed"),
        ({}, "other", "cannot be believed"),
        ({"email_verified": False}, "ES256", "Campus has verified no e-mail of yours. Ask"),
        ({"email_verified": "true"}, "ES256", "verified no e-mail"),
        ({"email": None}, "ES256", "verified no e-mail"),
        ({"email": "eve@example.org"}, "ES256", "You have no account here. Ask whoever runs this server"),
    ],
)
async def test_lies_are_refused(tmp_path: Path, lies: dict[str, Any], way: str, said: str) -> None:
    async with meeting(tmp_path) as (platform, site):
        site.lies, site.way = lies, way
        refused = await signed_in(platform, site)
        assert (refused.status_code, said in refused.text) == (403, True), refused.text
        assert "observatory_session" not in platform.http.cookies
        assert await links(platform) == []
        async with platform.services.database.reading() as session:
            assert (await audit_lines(session))[-1]["action"] == "sign_in.failed"
        # The same person, of whom the truth is said
        site.lies, site.way = {}, "ES256"
        assert (await signed_in(platform, site)).status_code == 303


async def test_answers_to_what_this_browser_did_not_begin_are_refused(tmp_path: Path) -> None:
    async with meeting(tmp_path) as (platform, site):

        async def tried(**answer: str) -> tuple[int, bool]:
            said = await platform.http.get(CALLBACK, params={"code": "c", **answer})
            return said.status_code, "Begin again here" in said.text

        asked = await begin(platform, site)
        assert asked["code_challenge_method"] == "S256"
        cookie = platform.http.cookies["observatory_oidc"]
        assert await tried(state="of-another") == (400, True)
        assert "observatory_oidc" not in platform.http.cookies
        # Without the cookie, and with one that was changed
        assert await tried(state=asked["state"]) == (400, True)
        text, _, mark = cookie.partition(".")
        forged = base64.urlsafe_b64encode(base64.urlsafe_b64decode(text).replace(b"/account", b"/operator")).decode()
        for bad in (f"{forged}.{mark}", "x.y", text):
            platform.http.cookies.set("observatory_oidc", bad, path="/sign-in/oidc")
            assert await tried(state=asked["state"]) == (400, True)
        assert site.calls("POST", "/token") == []


async def test_an_answer_counts_once(tmp_path: Path) -> None:
    async with meeting(tmp_path) as (platform, site):
        asked = await begin(platform, site)
        cookie = platform.http.cookies["observatory_oidc"]
        answer = {"code": "c", "state": asked["state"]}
        assert (await platform.http.get(CALLBACK, params=answer)).status_code == 303
        [exchange] = site.calls("POST", "/token")
        sent = dict(parse_qsl(exchange.body.decode()))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(sent["code_verifier"].encode()).digest()).rstrip(b"=")
        assert challenge.decode() == asked["code_challenge"]
        assert exchange.headers["authorization"].startswith("Basic ")
        platform.http.cookies.set("observatory_oidc", cookie, path="/sign-in/oidc")
        again = await platform.http.get(CALLBACK, params=answer)
        assert (again.status_code, "was already used" in again.text) == (400, True)
        # Nor does it count at another server
        async with new_services(platform.services.settings) as other:
            cookies, transport = {"observatory_oidc": cookie}, httpx2.ASGITransport(app=create_app(other))
            async with httpx2.AsyncClient(transport=transport, base_url=other.settings.url, cookies=cookies) as http:
                again = await http.get(CALLBACK, params=answer)
        assert (again.status_code, "was already used" in again.text) == (400, True)
        # A code that the provider knows as used
        refused = await signed_in(platform, site, code="used")
        assert (refused.status_code, "The code was used" in refused.text) == (403, True)
        denied = await signed_in(platform, site, error="access_denied", error_description="<b>No</b>")
        assert (denied.status_code, "did not sign you in: &lt;b&gt;No" in denied.text) == (403, True)
        mixed = await signed_in(platform, site, iss="https://evil.example")
        assert (mixed.status_code, "Another provider" in mixed.text) == (403, True)


@pytest.mark.parametrize("place", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:x"])
async def test_nobody_is_sent_to_another_site(tmp_path: Path, place: str) -> None:
    async with meeting(tmp_path) as (platform, site):
        assert (await signed_in(platform, site, place)).headers["location"] == "/"


async def test_a_provider_that_is_down_or_confused_is_said(tmp_path: Path) -> None:
    async with serve_site(LyingProvider()) as site:
        url = site.url
        oidc = OidcProvider(issuer=url, client_id=CLIENT, name="Campus")
        async with inside(tmp_path, oidc=oidc) as platform:
            for metadata, said in (
                ({"issuer": "https://evil.example"}, "says that its issuer is"),
                ({"token_endpoint": "http://campus.example/token"}, "names no token_endpoint with https"),
                ({"jwks_uri": "file:///etc/passwd"}, "names no jwks_uri"),
            ):
                site.metadata = metadata
                confused = await platform.http.get("/sign-in/oidc")
                assert (confused.status_code, said in confused.text) == (503, True), confused.text
            site.metadata = {}
            asked = await begin(platform, site)
    oidc = replace(oidc, issuer=url)
    async with inside(tmp_path, oidc=oidc) as platform:
        down = await platform.http.get("/sign-in/oidc", params={"next": "/account"})
        assert (down.status_code, "Campus cannot sign you in now" in down.text) == (503, True)
        assert 'value="/account"' in down.text
        assert asked["redirect_uri"] == f"{platform.services.settings.url}{CALLBACK}"


async def test_a_provider_that_fails_at_the_end_is_said_and_its_new_key_is_read(tmp_path: Path) -> None:
    async with meeting(tmp_path) as (platform, site):
        site.on("POST", "/token", lambda _: b"<html>")
        broken = await signed_in(platform, site)
        assert (broken.status_code, "did not give a token" in broken.text) == (503, True), broken.text
    async with meeting(tmp_path / "other") as (platform, site):
        await begin(platform, site)
        site.turn_key()
        assert (await signed_in(platform, site)).status_code == 303
        assert len(site.calls("GET", "/keys")) == 2


async def test_who_is_linked_stays_so(tmp_path: Path) -> None:
    async with meeting(tmp_path) as (platform, site):
        await signed_in(platform, site)
        # Another address, and not a verified one: the person is the same
        site.lies = {"email": "ann@elsewhere.example", "email_verified": False}
        assert (await signed_in(platform, site)).status_code == 303
        # The address of somebody who had it before
        site.lies = {"sub": "2"}
        other = await signed_in(platform, site)
        assert (other.status_code, "belongs to somebody else of Campus" in other.text) == (403, True)
        async with platform.services.database.writing() as session:
            await new_token(session, platform.services.tokens, "ann", revoke=True)
        assert await links(platform) == []
        assert (await signed_in(platform, site)).status_code == 303
        async with platform.services.database.writing() as session:
            await disable_user(session, "ann", reason="Misuse")
        disabled = await signed_in(platform, site)
        assert (disabled.status_code, "disabled by an operator: Misuse" in disabled.text) == (403, True)
    async with open_services(platform.services.settings) as services:
        await delete_named(services, "ann", really=True)
        async with services.database.reading() as session:
            assert await session.scalar(sa.select(sa.func.count()).select_from(SignInLink)) == 0


async def test_accounts_are_made_where_everybody_of_the_provider_may_enter(tmp_path: Path) -> None:
    async with meeting(tmp_path, register=True) as (platform, site):
        for sub, claims, name in (
            ("2", {"preferred_username": "ann"}, "ann-2"),
            ("3", {"preferred_username": "bob@example.org"}, "bob"),
            ("4", {"preferred_username": "\u200b", "name": "Zoë"}, "Zoë"),
            ("5", {"email_verified": False, "email": "ann@example.org"}, "player"),
        ):
            site.lies = {"sub": sub, "email": f"{sub}@example.org", **claims}
            assert (await signed_in(platform, site)).status_code == 303
            assert name in (await platform.http.get("/account")).text
        async with platform.services.database.reading() as session:
            made = [line["user"] for line in await audit_lines(session) if line["action"] == "account.made"]
        assert made == ["ann", "ann-2", "bob", "Zoë", "player"]


async def test_only_the_domains_that_were_named_enter(tmp_path: Path) -> None:
    async with meeting(tmp_path, register=True, domains=("Example.org",)) as (platform, site):
        for lies in (
            {"email": "eve@evil.example"},
            {"email_verified": False},
            {"email": "eve@example.org.evil.example"},
        ):
            site.lies = {"sub": "9", **lies}
            refused = await signed_in(platform, site)
            assert (refused.status_code, "Only verified e-mail addresses of Example.org" in refused.text) == (403, True)
        site.lies = {}
        assert (await signed_in(platform, site)).status_code == 303


async def test_without_a_provider_there_is_no_such_page(tmp_path: Path) -> None:
    async with inside(tmp_path) as platform:
        assert "Sign in with" not in (await platform.http.get("/sign-in")).text
        token = await platform.add_user("ann")
        await platform.http.post("/sign-in", data={"token": token}, headers=SAME_ORIGIN)
        # A session that a token has opened gives no other token
        assert (await platform.http.post("/cli-auth", data={}, headers=SAME_ORIGIN)).status_code == 403
        for path in ("/sign-in/oidc", CALLBACK):
            assert (await platform.http.get(path)).status_code == 404


@pytest.mark.parametrize("issuer", ["http://campus.example", "ftp://localhost", "campus", "https://"])
async def test_an_issuer_that_others_can_pose_as_is_refused(tmp_path: Path, issuer: str) -> None:
    oidc = OidcProvider(issuer=issuer, client_id=CLIENT, name="Campus")
    with pytest.raises(UsageError, match="begins with https://"):
        async with open_services(Settings(data=tmp_path, oidc=oidc)):
            pass


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--oidc-register",), "go with --oidc-issuer"),
        (("--oidc-issuer", "https://campus.example"), "needs --oidc-client-id"),
        (("--oidc-issuer", "https://c.example", "--oidc-client-id", "c", "--oidc-secret-file", "no-file"), "no-file"),
    ],
)
def test_options_that_miss_something_say_so(
    words: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(("serve", "--data", str(tmp_path / "o"), "--port", "0", *words))
    assert left.value.code != 0
    assert said in capsys.readouterr().err
