"""The connection: whom the token is shown to, what is followed and repeated, and how a refusal reads."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import pytest
from support.certificates import untrusted_server
from support.clock import skip
from support.fake_server import Ask, FakeServer, Say, json_say, nobody_there, serve
from support.flaky_transport import Fault, FlakyTransport

import coworld_client
from coworld_client import (
    ApiConnectionError,
    ApiError,
    ApiShapeError,
    ApiStatusError,
    ApiTimeoutError,
    Backoff,
    BadRequest,
    Conflict,
    CoworldClient,
    Forbidden,
    Gone,
    NotAuthenticated,
    NotFound,
    ServerError,
    TooManyRequests,
    Unprocessable,
)
from coworld_client.transport._auth import check_elsewhere
from coworld_client.transport._connection import Connection, path
from coworld_client.transport._redact import redact
from coworld_client.transport._retry import worth_retrying
from coworld_core.errors import CoworldError, UsageError
from coworld_core.urls import shown_url

AT_ONCE = Backoff(base=0.0, cap=0.0)
TOKEN = "user-token-0123456789"


def client(server: FakeServer, **options: Any) -> CoworldClient:
    # what speaks http needs no certificates read from the disk
    plain = httpx2.AsyncHTTPTransport(verify=False)
    return CoworldClient(server.url, **{"token": TOKEN, "backoff": AT_ONCE, "transport": plain, **options})


# --- what is said, and to whom


async def test_a_call_carries_token_and_name_below_the_prefix() -> None:
    async def handler(ask: Ask) -> Say:
        return json_say([])

    async with serve(handler) as server, client(server, user_agent="probe/1") as api:
        await api.games.list()
        (ask,) = server.asked
    assert ask.target == "/observatory/v2/games"
    assert ask.headers["authorization"] == f"Bearer {TOKEN}"
    assert ask.headers["user-agent"] == f"probe/1 coworld-client/{coworld_client.__version__}"
    assert "x-auth-token" not in ask.headers
    assert "x-use-elevated-privileges" not in ask.headers


async def test_team_rights_are_asked_for_only_when_told_and_never_by_a_player() -> None:
    async def handler(ask: Ask) -> Say:
        return json_say([])

    async with serve(handler) as server, client(server, elevated=True) as api:
        await api.games.list()
        assert server.asked[0].headers["x-use-elevated-privileges"] == "true"
    with pytest.raises(UsageError) as raised:
        CoworldClient("http://127.0.0.1:1", token="ply_0123", elevated=True)
    assert raised.value.code == "elevated_player"


async def test_the_token_goes_to_its_own_origin_only() -> None:
    async def elsewhere(ask: Ask) -> Say:
        return Say(200, b"payload")

    async with serve(elsewhere) as other:

        async def handler(ask: Ask) -> Say:
            return Say(302, headers={"Location": f"{other.url}/there?X-Amz-Signature=abc"})

        async with serve(handler) as server, client(server) as api:
            content = await api.episodes.artifact("ereq_1", "spec")
            async with api.connection.open("GET", f"{other.url}/direct") as response:
                assert await response.aread() == b"payload"
    assert content == b"payload"
    assert server.asked[0].headers["authorization"]
    assert [ask.path for ask in other.asked] == ["/there", "/direct"]
    assert all("authorization" not in ask.headers for ask in other.asked)


async def test_a_redirect_to_another_server_is_refused_where_it_makes_no_sense() -> None:
    async def handler(ask: Ask) -> Say:
        return Say(301, headers={"Location": "https://example.org/observatory/whoami"})

    async with serve(handler) as server, client(server) as api:
        with pytest.raises(ApiError) as raised:
            await api.whoami()
    assert raised.value.code == "redirect_refused"
    assert "example.org" in raised.value.message


async def test_redirects_on_the_same_server_are_followed_when_reading_up_to_a_limit() -> None:
    async def handler(ask: Ask) -> Say:
        if ask.path.endswith("/whoami"):
            return Say(307, headers={"Location": "/observatory/me"})
        if ask.path.endswith("/me"):
            return json_say({"subject_type": "user", "subject_id": "user_1"})
        return Say(302, headers={"Location": ask.path + "/again"})

    async with serve(handler) as server, client(server) as api:
        assert (await api.whoami()).subject_id == "user_1"
        with pytest.raises(ApiError, match="more than 5 times"):
            await api.games.list()
        with pytest.raises(ApiStatusError, match="a redirect to") as raised:
            await api.players.create("a")
    assert raised.value.status == 302
    assert sum(ask.method == "POST" for ask in server.asked) == 1


@pytest.mark.parametrize(
    ("target", "own", "scheme", "fine"),
    [
        ("https://bucket.s3.amazonaws.com/x", "softmax.com", "https", True),
        ("http://bucket.s3.amazonaws.com/x", "softmax.com", "https", False),
        ("http://bucket.example.org/x", "softmax.com", "http", True),
        ("ftp://example.org/x", "softmax.com", "https", False),
        ("file:///etc/passwd", "softmax.com", "https", False),
        ("https://user:pw@example.org/", "softmax.com", "https", False),
        ("https://127.0.0.1/latest", "softmax.com", "https", False),
        ("https://localhost:8000/", "softmax.com", "https", False),
        ("https://[::1]/", "softmax.com", "https", False),
        ("http://169.254.169.254/latest/meta-data", "softmax.com", "http", False),
        ("http://127.0.0.1:9000/bucket", "127.0.0.1", "http", True),
        ("http://127.0.0.1:9000/bucket", "10.0.0.5", "http", False),
    ],
)
def test_allowed_redirect_targets(target: str, own: str, scheme: str, fine: bool) -> None:
    refused = contextlib.nullcontext() if fine else pytest.raises(ApiError, match="is refused")
    with refused:
        check_elsewhere(httpx2.URL(target), own=(scheme, own, 443), from_scheme=scheme)


async def test_a_server_cannot_set_cookies() -> None:
    async def handler(ask: Ask) -> Say:
        return json_say([], set_cookie="session=1; Path=/")

    async with serve(handler) as server, client(server) as api:
        await api.games.list()
        await api.games.list()
        assert all("cookie" not in ask.headers for ask in server.asked)


@pytest.mark.parametrize(
    ("part", "shown"),
    [("a b", "a%20b"), ("a/../b", "a%2F..%2Fb"), ("a?b#c", "a%3Fb%23c"), ("ä", "%C3%A4"), ("a%2e", "a%252e")],
)
def test_ids_cannot_alter_the_route(part: str, shown: str) -> None:
    assert path("/v2/rounds/{}/x", part) == f"/v2/rounds/{shown}/x"
    whole = Connection("http://127.0.0.1:1/api/").url(path("/v2/rounds/{}/x", part))
    assert whole.raw_path == f"/api/observatory/v2/rounds/{shown}/x".encode()


@pytest.mark.parametrize("part", ["", ".", ".."])
def test_parts_that_would_be_other_paths_are_refused(part: str) -> None:
    with pytest.raises(UsageError):
        path("/v2/rounds/{}", part)


@pytest.mark.parametrize("server", ["http://h:1", "http://h:1/", "http://h:1/observatory"])
def test_api_prefix_is_not_repeated(server: str) -> None:
    assert str(Connection(server).url("/whoami")) == "http://h:1/observatory/whoami"


async def test_a_client_works_only_while_it_is_open() -> None:
    api = CoworldClient("http://127.0.0.1:1")
    with pytest.raises(UsageError, match="not open"):
        await api.whoami()
    async with api:
        with pytest.raises(UsageError, match="open already"):
            await api.__aenter__()
    with pytest.raises(UsageError, match="not open"):
        await api.whoami()


def test_web_addresses_are_whole_where_the_origin_is_known() -> None:
    assert CoworldClient("https://softmax.com/api").web_url("/observatory/v2") == "https://softmax.com/observatory/v2"
    for server in ("http://127.0.0.1:8787", "http://127.0.0.1:8787/observatory"):
        assert CoworldClient(server).web_url("/observatory/v2") == "http://127.0.0.1:8787/observatory/v2"


# --- what is repeated


def failed(status: int, *, rejected: bool = False) -> ApiStatusError:
    return ApiStatusError("no", status=status, rejected=rejected)


@pytest.mark.parametrize(
    ("error", "method", "keyed", "again"),
    [
        *[(failed(status), "GET", False, True) for status in (408, 425, 429, 500, 502, 503, 504)],
        *[(failed(status), "GET", False, False) for status in (400, 401, 403, 404, 409, 410, 422, 501)],
        *[(failed(status), "POST", True, True) for status in (408, 425, 429, 502, 503, 504)],
        *[(failed(status), "POST", True, False) for status in (400, 403, 404, 409, 422, 500)],
        *[(failed(status), "POST", False, False) for status in (429, 503)],
        (failed(429, rejected=True), "POST", False, True),
        (failed(409), "PUT", True, False),
        (ApiConnectionError("no", sent=True), "GET", False, True),
        (ApiConnectionError("no", sent=True), "POST", False, False),
        (ApiConnectionError("no", sent=True), "POST", True, True),
        (ApiConnectionError("no", sent=False), "POST", False, True),
        (ApiTimeoutError("no", sent=True), "POST", False, False),
    ],
)
def test_retryable_errors(error: ApiConnectionError | ApiStatusError, method: str, keyed: bool, again: bool) -> None:
    assert worth_retrying(error, method, keyed=keyed) is again


async def test_the_server_decides_how_long_to_wait() -> None:
    waits: list[float] = []

    class Listening(Backoff):
        def pause(self, attempt: int, asked: float | None = None) -> float | None:
            waits.append(asked or 0.0)
            return 0.0 if asked is None or asked <= self.longest_wait else None

    transport = FlakyTransport(
        Fault("status", status=503, headers={"Retry-After": "7"}),
        Fault("status", status=429, headers={"Retry-After": "3600"}),
    )
    async with CoworldClient("http://127.0.0.1:9", transport=transport, backoff=Listening()) as api:
        with pytest.raises(TooManyRequests) as raised:
            await api.whoami()
    assert waits == [7.0, 3600.0]
    assert raised.value.retry_after == 3600.0
    assert raised.value.__notes__ == ["Tried 2 times."]


@pytest.mark.parametrize("retries", [0, 1, 4])
async def test_as_many_attempts_as_allowed(retries: int) -> None:
    transport = FlakyTransport(Fault("status", times=100, status=502))
    async with CoworldClient("http://127.0.0.1:9", transport=transport, backoff=AT_ONCE, max_retries=retries) as api:
        with pytest.raises(ServerError):
            await api.whoami()
    assert len(transport.asked) == retries + 1


async def test_streamed_body_restarts_with_every_attempt() -> None:
    received: list[bytes] = []

    async def handler(ask: Ask) -> Say:
        received.append(await ask.read())
        return json_say({}, 503 if len(received) == 1 else 200)

    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"one", b"two"):
            yield piece

    async with serve(handler) as server, client(server) as api:
        await api.connection.call("PUT", "/v2/x", content=pieces)
    assert received == [b"onetwo", b"onetwo"]


async def test_cancelling_a_call_lets_go_of_its_connection() -> None:
    began = anyio.Event()

    async def handler(ask: Ask) -> Say:
        began.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with serve(handler) as server, client(server) as api:
        async with anyio.create_task_group() as group:
            group.start_soon(api.whoami)
            await began.wait()
            group.cancel_scope.cancel()
        server.handler = lambda ask: _soon(json_say({"subject_type": "user"}))
        began = anyio.Event()


async def _soon(say: Say) -> Say:
    return say


# --- how a refusal reads


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, BadRequest, "bad_request"),
        (401, NotAuthenticated, "not_authenticated"),
        (403, Forbidden, "forbidden"),
        (404, NotFound, "not_found"),
        (409, Conflict, "conflict"),
        (410, Gone, "gone"),
        (418, ApiStatusError, "api_status"),
        (422, Unprocessable, "unprocessable"),
        (429, TooManyRequests, "too_many_requests"),
        (500, ServerError, "server_error"),
        (503, ServerError, "server_error"),
    ],
)
async def test_each_status_has_its_class_and_the_servers_words(
    status: int, kind: type[ApiStatusError], code: str
) -> None:
    async def handler(ask: Ask) -> Say:
        body = {
            "detail": "You may not\nplay here.",
            "type": "league_rule",
            "documentation_url": "https://example.org/d",
        }
        return json_say(body, status, x_request_id="req-7")

    async with serve(handler) as server, client(server, max_retries=0) as api:
        with pytest.raises(ApiStatusError) as raised:
            await api.leagues.get("league_1")
    error = raised.value
    assert type(error) is kind
    assert error.code == code
    assert error.kind == "remote"
    assert (error.status, error.request_id, error.type) == (status, "req-7", "league_rule")
    assert error.detail == "You may not\nplay here."
    assert error.message == f"The server answered {status} to GET /v2/leagues/league_1: You may not play here."
    assert error.hint == "See https://example.org/d."
    assert error.to_dict()["context"] == {
        "status": status,
        "request_id": "req-7",
        "type": "league_rule",
        "server": server.url,
    }


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"detail": {"message": "No such seat", "seat": 3}}', "No such seat"),
        (
            b'{"detail": [{"loc": ["body", "roster", 0, "slot"], "msg": "too large"}, {"msg": "odd"}]}',
            "roster.0.slot: too large; odd",
        ),
        (b'{"detail": {"why": 1}}', '{"why": 1}'),
        (b'{"error": "flat"}', '{"error": "flat"}'),
        (b'["a"]', "a"),
        (b"plain words", "plain words"),
        (b"<!doctype html><p>Bad Gateway", "Said"),
        (b"", "Said"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'{"detail": null}', '{"detail": null}'),
    ],
)
async def test_refusal_message_is_one_line(body: bytes, words: str) -> None:
    async def handler(ask: Ask) -> Say:
        return Say(400, body)

    async with serve(handler) as server, client(server) as api:
        with pytest.raises(BadRequest) as raised:
            await api.whoami()
    assert raised.value.message == f"The server answered 400 to GET /whoami: {words}"


async def test_truncated_or_endless_refusal_is_still_reported() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"no " * 1000

    async def handler(ask: Ask) -> Say:
        if ask.path.endswith("whoami"):
            return Say(403, b'{"detail": "nobody"}', cut=5)
        return Say(403, endless(), {"content-length": "10000000000"})

    async with serve(handler) as server, client(server) as api:
        with pytest.raises(Forbidden):
            await api.whoami()
        with pytest.raises(Forbidden) as raised:
            await api.games.list()
    assert len(raised.value.message) < 3000


# --- what is no answer


@pytest.mark.parametrize("body", [b"<html>", b"", b'{"a": ', b"\xff", b"[" * 100_000])
async def test_response_that_is_not_json_is_reported(body: bytes) -> None:
    async def handler(ask: Ask) -> Say:
        return Say(200, body, {"content-type": "text/html"} if body == b"<html>" else {})

    async with serve(handler) as server, client(server) as api:
        with pytest.raises(ApiShapeError) as raised:
            await api.whoami()
    assert raised.value.code == "not_json"
    assert len(str(raised.value)) < 300


async def test_response_of_the_wrong_type_is_reported() -> None:
    async def handler(ask: Ask) -> Say:
        return json_say("hello")

    async with serve(handler) as server, client(server) as api:
        with pytest.raises(ApiShapeError, match="sent text"):
            await api.whoami()
        with pytest.raises(ApiShapeError, match="not a list"):
            await api.games.list()
        with pytest.raises(ApiShapeError, match="not a list"):
            await api.leagues.ladder("league_1")


async def test_an_answer_larger_than_the_limit_is_not_read_to_its_end() -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 100_000
            yield b" " * 100_000

    async def handler(ask: Ask) -> Say:
        return Say(200, endless(), {"content-length": "10000000000"})

    async with serve(handler) as server, client(server) as api:
        with pytest.raises(ApiShapeError, match="larger than") as raised:
            await api.connection.call("GET", "/v2/x", limit=1_000_000)
    assert raised.value.code == "too_large"
    assert sent < 100_000_000


async def test_a_packed_answer_is_measured_unpacked() -> None:
    import gzip

    bomb = gzip.compress(b" " * 20_000_000)
    assert len(bomb) < 50_000

    async def handler(ask: Ask) -> Say:
        return Say(200, bomb, {"content-encoding": "gzip"})

    async with serve(handler) as server, client(server) as api:
        with pytest.raises(ApiShapeError) as raised:
            await api.connection.call("GET", "/v2/x", limit=1_000_000)
    assert raised.value.code == "too_large"


async def test_slow_response_times_out_as_a_whole() -> None:
    async def drip() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            skip(0.01)

    async def handler(ask: Ask) -> Say:
        return Say(200, drip(), {"content-length": "1000000"})

    async with serve(handler) as server, client(server, timeout=0.2, max_retries=0) as api:
        with pytest.raises(ApiTimeoutError) as raised:
            await api.whoami()
    assert isinstance(raised.value, TimeoutError)
    assert raised.value.kind == "environment"
    assert "127.0.0.1" in raised.value.message


async def test_every_call_takes_a_timeout_of_its_own() -> None:
    async def handler(ask: Ask) -> Say:
        await anyio.sleep_forever()
        raise AssertionError

    async with serve(handler) as server, client(server, max_retries=0) as api:
        with pytest.raises(ApiTimeoutError):
            await api.leagues.get("league_1", timeout=0.05)
        with pytest.raises(ApiTimeoutError):
            await api.episodes.list(timeout=0.05)
        with pytest.raises(ApiTimeoutError):
            async with api.connection.open("GET", "/v2/x", timeout=0.05):
                raise AssertionError


async def test_a_stream_that_breaks_off_is_a_typed_error_inside_the_block() -> None:
    async def handler(ask: Ask) -> Say:
        return Say(200, b"x" * 1000, cut=500)

    async with serve(handler) as server, client(server) as api:
        with pytest.raises(ApiConnectionError) as raised:
            async with api.connection.open("GET", "/v2/x") as response:
                await response.aread()
    assert raised.value.code == "api_cut_off"
    assert len(server.asked) == 1


# --- a server that is not there


async def test_refused_connection_is_reported() -> None:
    with nobody_there() as url:
        async with CoworldClient(url, max_retries=0) as api:
            with pytest.raises(ApiConnectionError) as raised:
                await api.whoami()
    error = raised.value
    assert error.kind == "environment"
    assert not error.sent
    assert f"{url.removeprefix('http://')} cannot be reached" in error.message
    assert "\n" not in error.message


async def test_no_such_host() -> None:
    async with CoworldClient("http://no-such-host.invalid", max_retries=0) as api:
        with pytest.raises(ApiConnectionError) as raised:
            await api.whoami()
    assert raised.value.code == "unknown_host"
    assert "no-such-host.invalid" in raised.value.message


async def test_tls_to_a_plain_server_is_reported() -> None:
    async def handler(ask: Ask) -> Say:
        return json_say({})

    async with serve(handler) as server, CoworldClient(server.url.replace("http:", "https:"), max_retries=0) as api:
        with pytest.raises(ApiConnectionError) as raised:
            await api.whoami()
    assert raised.value.code == "tls_failed"
    assert raised.value.kind == "environment"


async def test_untrusted_certificate_is_reported() -> None:
    async def handler(ask: Ask) -> Say:
        raise AssertionError

    async with serve(handler, tls=untrusted_server()) as server, CoworldClient(server.url, max_retries=0) as api:
        with pytest.raises(ApiConnectionError) as raised:
            await api.whoami()
    assert raised.value.code == "tls_failed"
    assert server.url.removeprefix("https://") in raised.value.message


# --- what must not be shown


PRESIGNED = "https://bucket.example.org/replay.z?X-Amz-Credential=AKIA&X-Amz-Signature=deadbeef"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (PRESIGNED, "https://bucket.example.org/replay.z?…"),
        ("https://a.example/x?sv=1&sig=s", "https://a.example/x?…"),
        ("https://a.example/x?token=t", "https://a.example/x?…"),
        ("https://a.example/x?limit=3&offset=0", "https://a.example/x?limit=3&offset=0"),
        ("https://user:pw@a.example:8443/x", "https://a.example:8443/x"),
        ("http://[::1]:8787/x", "http://[::1]:8787/x"),
        ("http://[broken", "…"),
    ],
)
def test_shown_urls_contain_no_credentials(url: str, shown: str) -> None:
    assert shown_url(url, query=True) == shown
    if url != "http://[broken":
        assert redact(f"see '{url}', there") == f"see '{shown}', there"


async def test_tokens_and_presigned_addresses_are_in_no_message_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def elsewhere(ask: Ask) -> Say:
        return Say(403, b"denied")

    async with serve(elsewhere) as other:

        async def handler(ask: Ask) -> Say:
            if "spec" in ask.path:
                return Say(302, headers={"Location": f"{other.url}/r?X-Amz-Signature=deadbeef"})
            echoed = {"detail": f"bad token {TOKEN} in Bearer {TOKEN}; see {PRESIGNED}", "type": "t"}
            return json_say(echoed, 401)

        async with serve(handler) as server, client(server) as api:
            errors: list[CoworldError] = []
            for call in (api.whoami, lambda: api.episodes.artifact("ereq_1", "spec")):
                with pytest.raises(ApiStatusError) as raised:
                    await call()
                errors.append(raised.value)
            shown = [repr(api), repr(api.connection), repr(api.connection.identity)]
    for error in errors:
        shown += [str(error), repr(error), json.dumps(error.to_dict()), str(getattr(error, "detail", ""))]
    shown += [record.getMessage() for record in caplog.records]
    assert any("HTTP Request" in line for line in shown)
    for line in shown:
        assert TOKEN not in line
        assert "deadbeef" not in line
