"""Whatever goes wrong with a platform, by whichever way one talks to it, is an `ApiError`."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path

import anyio
import anyio.abc
import pytest
from support.certificates import untrusted_server
from support.clock import skipping
from support.fake_platform import uid
from support.fake_server import Ask, Reset, Say, nobody_there, serve, serve_streams

from coworld_client import ApiConnectionError, ApiError, ApiShapeError, ApiTimeoutError, Backoff, CoworldClient
from coworld_client.errors import NotAuthenticated, NotLoggedIn, ServerError
from coworld_client.sign_in.credentials import CredentialStore, SessionExpired, resolve_login
from coworld_client.sign_in.login import SignInTimeout, exchange_code
from coworld_client.transfers.files import TransferRefused, download
from coworld_client.uploads.registry import RegistryError
from coworld_core.errors import RemoteError

XREQ = f"xreq_{uid(15)}"
AT_ONCE = Backoff(base=0.0, cap=0.0)
PATIENCE = 30.0
"""Seconds: longer than a busy machine takes for twenty redirects. What waits this long skips them."""


def says(say: Say, tls: ssl.SSLContext | None = None) -> AbstractAsyncContextManager[str]:
    @asynccontextmanager
    async def serving() -> AsyncGenerator[str]:
        async def handler(ask: Ask) -> Say:
            return say

        async with serve(handler, tls=tls) as server:
            yield server.url

    return serving()


@asynccontextmanager
async def refusing() -> AsyncGenerator[str]:
    with nobody_there() as url:
        yield url


@asynccontextmanager
async def resetting() -> AsyncGenerator[str]:
    async def handler(ask: Ask) -> Say:
        raise Reset

    async with serve(handler) as server:
        yield server.url


@asynccontextmanager
async def silent() -> AsyncGenerator[str]:
    async def handler(ask: Ask) -> Say:
        await anyio.sleep_forever()
        raise AssertionError

    async with serve(handler) as server:
        yield server.url


@asynccontextmanager
async def raw(answer: bytes) -> AsyncGenerator[str]:
    """A server that reads something, sends these bytes, and closes the connection."""

    async def talk(stream: anyio.abc.ByteStream) -> None:
        await stream.receive()
        await stream.send(answer)

    async with serve_streams(talk) as address:
        yield f"http://{address}"


@asynccontextmanager
async def plain_https() -> AsyncGenerator[str]:
    async with says(Say()) as url:
        yield url.replace("http:", "https:")


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n"

FAULTS: dict[str, tuple[Callable[[], AbstractAsyncContextManager[str]], type[ApiError]]] = {
    "refuses": (refusing, ApiConnectionError),
    "closes": (lambda: raw(b""), ApiConnectionError),
    "resets": (resetting, ApiConnectionError),
    "breaks_off": (lambda: says(Say(200, b"x" * 1000, cut=500)), ApiConnectionError),
    "never_answers": (silent, ApiTimeoutError),
    "does_not_speak_http": (lambda: raw(b"\0\xff SSH-2.0-x\r\n\r\n"), ApiConnectionError),
    "sends_broken_chunks": (lambda: raw(CHUNKED), ApiConnectionError),
    "does_not_speak_tls": (plain_https, ApiConnectionError),
    "is_not_trusted": (lambda: says(Say(), untrusted_server()), ApiConnectionError),
    "does_not_know_the_token": (lambda: says(Say(401, b'{"detail": "who?"}')), NotAuthenticated),
    "fails": (lambda: says(Say(500, b"<html>")), ServerError),
    "redirects_in_circles": (lambda: says(Say(302, headers={"location": "/observatory"})), ApiError),
    "redirects_to_nowhere": (lambda: says(Say(302, headers={"location": "http://[::"})), ApiError),
}


async def one_call(url: str, directory: Path) -> object:
    async with CoworldClient(url, max_retries=0, timeout=PATIENCE) as api:
        return await api.whoami()


async def a_list(url: str, directory: Path) -> object:
    async with CoworldClient(url, max_retries=0, timeout=PATIENCE) as api:
        return [row async for row in api.leagues.list()]


async def a_file(url: str, directory: Path) -> object:
    async with CoworldClient(url, max_retries=0, timeout=PATIENCE, backoff=AT_ONCE) as api:
        return await download(api.connection, "/v2/file", directory / "file")


async def changes(url: str, directory: Path) -> object:
    async with CoworldClient(url, max_retries=0, timeout=PATIENCE) as api, api.watch(XREQ, retry_timeout=0) as watched:
        return [change async for change in watched]


async def signing_in(url: str, directory: Path) -> object:
    return await exchange_code(url, "c0de", timeout=PATIENCE)


WAYS = [one_call, a_list, a_file, changes, signing_in]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fault", FAULTS)
async def test_every_fault_is_an_api_error(
    fault: str, way: Callable[[str, Path], Awaitable[object]], tmp_path: Path
) -> None:
    server, kind = FAULTS[fault]
    async with server() as url:
        with skipping() if fault == "never_answers" else nullcontext(), pytest.raises(ApiError) as raised:
            await way(url, tmp_path)
    assert isinstance(raised.value, kind)
    assert raised.value.kind == ("environment" if issubclass(kind, ApiConnectionError) else "remote")
    assert not (isinstance(raised.value, ApiConnectionError) and hasattr(raised.value, "status"))


@pytest.mark.parametrize("way", [one_call, a_list, changes, signing_in])
@pytest.mark.parametrize(
    "say",
    [
        Say(200, b"<html>", {"content-type": "text/html"}),
        Say(200, b'"text"'),
        Say(200, b"\xff\xfe"),
        Say(200, b"[" * 100_000),
    ],
)
async def test_an_unreadable_answer_is_an_api_error(
    say: Say, way: Callable[[str, Path], Awaitable[object]], tmp_path: Path
) -> None:
    async with says(say) as url:
        with pytest.raises(ApiShapeError) as raised:
            await way(url, tmp_path)
    assert isinstance(raised.value, ApiError)


async def test_a_broken_encoding_is_an_api_error(tmp_path: Path) -> None:
    async with says(Say(200, b"not gzip", {"content-encoding": "gzip"})) as url:
        with pytest.raises(ApiConnectionError, match="broke off"):
            await one_call(url, tmp_path)


@pytest.mark.parametrize("content", [None, "this is no certificate"])
async def test_unreadable_certificates_are_an_api_error(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "authorities.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    for way in (one_call, signing_in):
        with pytest.raises(ApiConnectionError, match="cannot be read") as raised:
            await way("http://127.0.0.1:1", tmp_path)
        assert (raised.value.code, raised.value.sent) == ("tls_failed", False)


async def test_a_proxy_without_its_library_is_an_api_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "socks5://127.0.0.1:1")
    with pytest.raises(ApiConnectionError) as raised:
        await one_call("http://127.0.0.1:1", tmp_path)
    assert raised.value.code == "proxy_unusable"


def test_a_missing_login_is_an_api_error(tmp_path: Path) -> None:
    store = CredentialStore(tmp_path / "credentials.yaml")
    with pytest.raises(ApiError) as raised:
        resolve_login("http://127.0.0.1:1", environ={}, store=store)
    assert type(raised.value) is NotLoggedIn
    assert (raised.value.kind, raised.value.code) == ("environment", "not_logged_in")


def test_there_is_one_root() -> None:
    for error in (NotLoggedIn, SessionExpired, SignInTimeout, TransferRefused, RegistryError):
        assert issubclass(error, ApiError)
    assert issubclass(ApiError, RemoteError)
