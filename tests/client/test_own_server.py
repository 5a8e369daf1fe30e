"""A platform with an authority, a certificate for its clients, or a proxy of one's own: `ssl=` and `headers=`."""

from __future__ import annotations

import ssl

import pytest
from support.certificates import Authority
from support.fake_server import Ask, Say, json_say, serve

from coworld_client import ApiConnectionError, CoworldClient, SyncClient
from coworld_client.tls import tls_context
from coworld_core.errors import UsageError

SECRET = "a-secret-of-the-proxy"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


async def hello(_: Ask) -> Say:
    return json_say({"email": "ada@example.org"})


async def test_a_server_with_an_authority_of_ones_own(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(hello, tls=authority.server("127.0.0.1")) as server:
        async with CoworldClient(server.url, ssl=tls_context(ca=authority.file)) as api:
            await api.whoami()
        async with CoworldClient(server.url, max_retries=0) as api:
            with pytest.raises(ApiConnectionError, match="no authority that this machine trusts") as refused:
                await api.whoami()
        assert refused.value.to_dict()["hint_code"] == "trust_authority"
        # Whatever makes a client finds it in the environment: signing in, a registry, the command line
        monkeypatch.setenv("COWORLD_CA_FILE", str(authority.file))
        async with CoworldClient(server.url) as api:
            await api.whoami()
        monkeypatch.setenv("COWORLD_CA_FILE", "/absent.pem")
        with pytest.raises(UsageError, match="absent"):
            async with CoworldClient(server.url):
                pass


@pytest.mark.parametrize(
    ("name", "days", "words"), [("games.example", 1, "another name"), ("127.0.0.1", -1, "expired")]
)
async def test_a_wrong_certificate_is_said_in_words(authority: Authority, name: str, days: int, words: str) -> None:
    trust = tls_context(ca=authority.file)
    async with (
        serve(hello, tls=authority.server(name, days=days)) as server,
        CoworldClient(server.url, ssl=trust, max_retries=0) as api,
    ):
        with pytest.raises(ApiConnectionError, match=words) as refused:
            await api.whoami()
    assert refused.value.code == "tls_failed"


async def test_a_server_may_ask_for_a_certificate(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    asks = authority.server("127.0.0.1")
    asks.verify_mode = ssl.CERT_REQUIRED
    asks.load_verify_locations(authority.file)
    async with serve(hello, tls=asks) as server:
        own = authority.issue("me")
        async with CoworldClient(server.url, ssl=tls_context(ca=authority.file, certificate=own)) as api:
            await api.whoami()
        async with CoworldClient(server.url, ssl=tls_context(ca=authority.file), max_retries=0) as api:
            with pytest.raises(ApiConnectionError):
                await api.whoami()
        monkeypatch.setenv("COWORLD_CA_FILE", str(authority.file))
        monkeypatch.setenv("COWORLD_CLIENT_CERT", str(own))
        async with CoworldClient(server.url) as api:
            await api.whoami()


async def test_headers_are_sent_to_the_server_and_to_no_other_host() -> None:
    heard: list[tuple[str, str | None]] = []

    async def other(ask: Ask) -> Say:
        heard.append((ask.path, ask.headers.get("cf-access-client-secret")))
        return json_say({})

    async with serve(other) as storage:

        async def platform(ask: Ask) -> Say:
            heard.append((ask.path, ask.headers.get("cf-access-client-secret")))
            assert ask.headers["authorization"] == "Bearer usr_token"
            if ask.path.endswith("/here"):
                return Say(307, headers={"Location": "/observatory/there"})
            if ask.path.endswith("/away"):
                return Say(307, headers={"Location": f"{storage.url}/stored"})
            if ask.path.endswith("/says"):
                return json_say({"detail": f"{SECRET} is wrong"}, 400)
            return json_say({})

        headers = {"CF-Access-Client-Secret": SECRET}
        async with serve(platform) as server, CoworldClient(server.url, token="usr_token", headers=headers) as api:
            await api.connection.call("GET", "/here")
            await api.connection.call("GET", "/away", elsewhere=True)
            await api.connection.call("GET", f"{storage.url}/link")
            with pytest.raises(Exception, match="is wrong") as failed:
                await api.connection.call("GET", "/says")
            assert SECRET not in str(failed.value.args) + repr(api.connection.identity)
    assert heard == [
        ("/observatory/here", SECRET),
        ("/observatory/there", SECRET),
        ("/observatory/away", SECRET),
        ("/stored", None),
        ("/link", None),
        ("/observatory/says", SECRET),
    ]


@pytest.mark.parametrize(
    "headers",
    [{"Authorization": "Bearer x"}, {"host": "h"}, {"A b": "x"}, {"X": "a\r\nY: b"}, {"X": ""}, {"": "x"}, {"X": "ü"}],
)
def test_what_is_no_header_of_the_users_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(UsageError) as refused:
        SyncClient("http://127.0.0.1:1", headers=headers)
    assert refused.value.code == "bad_header"
