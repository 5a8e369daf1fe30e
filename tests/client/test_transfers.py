"""Downloads: whole or not at all, resumed where they broke, never more than they may be."""

from __future__ import annotations

import gzip
import hashlib
import os
import random
import stat
import zlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from support.clock import skip
from support.fake_server import Ask, FakeServer, Reset, Say, serve, serve_file

from coworld_client import Backoff
from coworld_client.errors import ApiConnectionError, ApiError, ApiStatusError, ApiTimeoutError, NotFound
from coworld_client.sign_in.credentials import Token
from coworld_client.transfers._parts import inside
from coworld_client.transfers.files import TransferRefused, download, each
from coworld_client.transport._connection import Connection
from coworld_core.errors import CoworldError, EnvironmentFault, UsageError

CONTENT = random.Random(3).randbytes(700_001)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
TOKEN = "s3cret-token"


@asynccontextmanager
async def connected(server: FakeServer, *, timeout: float = 20) -> AsyncGenerator[Connection]:
    backoff = Backoff(base=0.001, cap=0.002)
    async with Connection(server.url, token=Token(TOKEN), timeout=timeout, backoff=backoff) as connection:
        yield connection


def left(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def the_part(directory: Path) -> Path:
    return next(path for path in directory.iterdir() if not path.name.endswith(".about"))


# --- whole


async def test_file_is_downloaded(tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    target = tmp_path / "new" / "replay"
    async with serve(serve_file(CONTENT)) as server, connected(server) as connection:
        got = await download(
            connection,
            "/v2/x",
            target,
            size=len(CONTENT),
            sha256=SHA256.upper(),
            on_progress=lambda done, total: seen.append((done, total)),
        )
    assert target.read_bytes() == CONTENT
    assert (got.size, got.received, got.resumed) == (len(CONTENT), len(CONTENT), False)
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert left(tmp_path) == ["new", "new/replay"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~umask
    assert server.asked[0].path == "/observatory/v2/x"
    assert server.asked[0].headers["authorization"] == f"Bearer {TOKEN}"


async def test_empty_file_is_downloaded(tmp_path: Path) -> None:
    async with serve(serve_file(b"")) as server, connected(server) as connection:
        assert (await download(connection, "/v2/x", tmp_path / "x")).size == 0
    assert left(tmp_path) == ["x"]


async def test_old_file_is_kept_until_the_download_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "x"
    target.write_text("old")
    async with serve(serve_file(CONTENT)) as server, connected(server) as connection:
        with pytest.raises(TransferRefused):
            await download(connection, "/v2/x", target, sha256="0" * 64)
        assert target.read_text() == "old"
        await download(connection, "/v2/x", target)
    assert target.read_bytes() == CONTENT


# --- broken off


@pytest.mark.parametrize("cuts", [[1], [300_000], [0, 0], [200_000, 200_000, 0, 200_000], [len(CONTENT) - 1]])
async def test_broken_download_resumes(tmp_path: Path, cuts: list[int]) -> None:
    async with serve(serve_file(CONTENT, cuts=cuts)) as server, connected(server) as connection:
        got = await download(connection, "/v2/x", tmp_path / "x", sha256=SHA256)
    assert (tmp_path / "x").read_bytes() == CONTENT
    assert left(tmp_path) == ["x"]
    assert len(server.asked) == len(cuts) + 1
    if cuts[0] > 1:
        assert got.received == len(CONTENT)
        assert server.asked[1].headers["if-range"] == '"1"'


async def test_later_call_resumes_a_partial_download(tmp_path: Path) -> None:
    seen: list[int] = []
    async with serve(serve_file(CONTENT, cuts=[300_000, 0, 0, 0, 0, 0])) as server, connected(server) as connection:
        with pytest.raises(ApiConnectionError) as caught:
            await download(connection, "/v2/x", tmp_path / "x", sha256=SHA256)
        assert "the next call resumes from there" in str(caught.value.hint)
        assert caught.value.context["received"] == 300_000
        assert not (tmp_path / "x").exists()
        assert len(left(tmp_path)) == 2
        got = await download(
            connection, "/v2/x", tmp_path / "x", sha256=SHA256, on_progress=lambda n, _: seen.append(n)
        )
    assert (got.resumed, got.received) == (True, len(CONTENT) - 300_000)
    assert seen[0] > 300_000
    assert (tmp_path / "x").read_bytes() == CONTENT
    assert left(tmp_path) == ["x"]


async def test_cancelled_download_resumes_later(tmp_path: Path) -> None:
    content = CONTENT * 4
    stored = anyio.Event()

    async def stuck() -> AsyncIterator[bytes]:
        yield content[: 2 << 20]
        await anyio.sleep_forever()

    async def handler(ask: Ask) -> Say:
        if "range" not in ask.headers:
            return Say(200, stuck(), {"ETag": '"1"', "Content-Length": str(len(content))})
        return await serve_file(content)(ask)

    async def interrupted(connection: Connection, scope: anyio.CancelScope) -> None:
        with scope:
            await download(connection, "/v2/x", tmp_path / "x", on_progress=lambda *_: stored.set())

    async with serve(handler) as server, connected(server) as connection:
        scope = anyio.CancelScope()
        async with anyio.create_task_group() as group:
            group.start_soon(interrupted, connection, scope)
            await stored.wait()
            scope.cancel()
        assert "x" not in left(tmp_path)
        got = await download(connection, "/v2/x", tmp_path / "x")
    assert got.resumed
    assert got.received < len(content) - (1 << 20) + 1
    assert (tmp_path / "x").read_bytes() == content
    assert left(tmp_path) == ["x"]


async def test_changed_content_restarts_the_download(tmp_path: Path) -> None:
    other = bytes(reversed(CONTENT))
    async with serve(serve_file(CONTENT, cuts=[300_000, 0, 0, 0, 0, 0])) as server, connected(server) as connection:
        with pytest.raises(ApiConnectionError):
            await download(connection, "/v2/x", tmp_path / "x")
        server.handler = serve_file(other, etag='"2"')
        got = await download(connection, "/v2/x", tmp_path / "x")
    assert not got.resumed
    assert (tmp_path / "x").read_bytes() == other
    assert left(tmp_path) == ["x"]


async def test_content_without_a_validator_is_not_resumed(tmp_path: Path) -> None:
    async with serve(serve_file(CONTENT, etag="", cuts=[300_000])) as server, connected(server) as connection:
        await download(connection, "/v2/x", tmp_path / "x", sha256=SHA256)
        assert "range" not in server.asked[1].headers
        server.handler = serve_file(CONTENT, etag="", cuts=[5] * 20)
        with pytest.raises(ApiConnectionError):
            await download(connection, "/v2/y", tmp_path / "y")
    assert left(tmp_path) == ["x"]


async def test_complete_partial_file_is_not_fetched_again(tmp_path: Path) -> None:
    # Killed between the last byte and the renaming
    async with serve(serve_file(CONTENT, cuts=[300_000, 0, 0, 0, 0, 0])) as server, connected(server) as connection:
        with pytest.raises(ApiConnectionError):
            await download(connection, "/v2/x", tmp_path / "x")
        the_part(tmp_path).write_bytes(CONTENT)
        server.handler = serve_file(CONTENT)
        asked = len(server.asked)
        got = await download(connection, "/v2/x", tmp_path / "x", sha256=SHA256)
    assert (tmp_path / "x").read_bytes() == CONTENT
    assert (got.resumed, got.received) == (True, 0)
    assert [ask.headers["range"] for ask in server.asked[asked:]] == [f"bytes={len(CONTENT)}-"]


async def test_oversized_partial_file_restarts_the_download(tmp_path: Path) -> None:
    async with serve(serve_file(CONTENT, cuts=[300_000, 0, 0, 0, 0, 0])) as server, connected(server) as connection:
        with pytest.raises(ApiConnectionError):
            await download(connection, "/v2/x", tmp_path / "x")
        the_part(tmp_path).write_bytes(CONTENT + b"more")
        await download(connection, "/v2/x", tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == CONTENT


async def test_concurrent_downloads_do_not_mix(tmp_path: Path) -> None:
    async with serve(serve_file(CONTENT)) as server, connected(server) as connection:
        both = await each(range(2), lambda _: download(connection, "/v2/x", tmp_path / "x", sha256=SHA256))
    assert not [one for one in both if isinstance(one, CoworldError)]
    assert left(tmp_path) == ["x"]


# --- not what it should be


def body(content: bytes, **headers: str) -> Say:
    return Say(200, content, {name.replace("_", "-"): value for name, value in {"ETag": '"1"', **headers}.items()})


BOMB = zlib.compress(bytes(16 << 20))
REFUSED: dict[str, tuple[Say, dict[str, object], str]] = {
    "a wrong digest": (body(CONTENT), {"sha256": "ab" * 32}, "replay_digest"),
    "a wrong size": (body(CONTENT), {"size": 5}, "replay_size"),
    "a wrong size, not announced": (
        Say(200, zlib.compress(CONTENT), {"Content-Encoding": "deflate", "ETag": '"1"'}),
        {"size": 5},
        "replay_size",
    ),
    "more than allowed": (body(CONTENT), {"limit": 700_000}, "replay_too_large"),
    "a zlib bomb": (body(BOMB), {"limit": 1 << 20, "unpack": True}, "replay_bomb"),
    "a gzip bomb in the transport's encoding": (
        body(gzip.compress(bytes(16 << 20)), Content_Encoding="gzip"),
        {"limit": 1 << 20},
        "replay_bomb",
    ),
    "a damaged stream": (body(zlib.compress(CONTENT)[:-3] + b"xxx"), {"unpack": True}, "replay_damaged"),
    "a stream cut short": (body(zlib.compress(CONTENT)[:-9]), {"unpack": True}, "replay_truncated"),
    "an encoding nobody asked for": (body(CONTENT, Content_Encoding="br"), {}, "replay_encoding"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_refused_download_leaves_no_file(tmp_path: Path, case: str) -> None:
    say, options, code = REFUSED[case]

    async def handler(_: Ask) -> Say:
        return say

    async with serve(handler) as server, connected(server) as connection:
        with pytest.raises(TransferRefused) as caught:
            await download(connection, "/v2/x", tmp_path / "x", what="replay", **options)  # pyright: ignore[reportArgumentType]
    assert caught.value.code == code
    assert caught.value.kind == "remote"
    assert left(tmp_path) == []


async def test_endless_body_stops_at_the_limit(tmp_path: Path) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield bytes(1 << 16)

    async def handler(_: Ask) -> Say:
        return Say(200, endless(), {"ETag": '"1"'})

    async with serve(handler) as server, connected(server) as connection:
        with pytest.raises(TransferRefused):
            await download(connection, "/v2/x", tmp_path / "x", limit=3 << 20)
    assert left(tmp_path) == []


async def test_slow_download_times_out(tmp_path: Path) -> None:
    async def drip() -> AsyncIterator[bytes]:
        while True:
            yield b"x"
            skip(0.02)

    async def handler(_: Ask) -> Say:
        return Say(200, drip(), {"Content-Length": "1000000", "ETag": '"1"'})

    async with serve(handler) as server, connected(server, timeout=1) as connection:
        with pytest.raises(ApiTimeoutError) as caught:
            await download(connection, "/v2/x", tmp_path / "x")
        # It may be a moment's trouble, so it is tried again; but not for ever, although something comes each time
        assert 1 < len(server.asked) < 5
    assert caught.value.code == "transfer_stalled"
    assert "x" not in left(tmp_path)


async def test_stalled_download_times_out(tmp_path: Path) -> None:
    async def nothing() -> AsyncIterator[bytes]:
        yield b"x"
        await anyio.sleep_forever()

    async def handler(_: Ask) -> Say:
        return Say(200, nothing(), {"Content-Length": "1000000"})

    async with serve(handler) as server, connected(server, timeout=0.1) as connection:
        with pytest.raises(ApiTimeoutError):
            await download(connection, "/v2/x", tmp_path / "x")
    assert left(tmp_path) == []


@pytest.mark.slow
async def test_byte_by_byte_download_times_out(tmp_path: Path) -> None:
    async with serve(serve_file(CONTENT, cuts=[1] * 1000)) as server, connected(server) as connection:
        with pytest.raises(CoworldError):
            await download(connection, "/v2/x", tmp_path / "x")
        assert len(server.asked) < 300


async def test_wrong_range_in_response_is_refused(tmp_path: Path) -> None:
    async def handler(ask: Ask) -> Say:
        if "range" not in ask.headers:
            return Say(200, CONTENT, {"ETag": '"1"'}, cut=300_000)
        return Say(206, CONTENT, {"ETag": '"1"', "Content-Range": f"bytes 5-{len(CONTENT) - 1}/{len(CONTENT)}"})

    async with serve(handler) as server, connected(server) as connection:
        with pytest.raises(TransferRefused) as caught:
            await download(connection, "/v2/x", tmp_path / "x", sha256=SHA256)
    assert caught.value.code == "download_range"
    assert left(tmp_path) == []


# --- elsewhere


async def test_token_is_not_sent_to_foreign_storage(tmp_path: Path) -> None:
    async with serve(serve_file(CONTENT)) as storage:

        async def pointing(_: Ask) -> Say:
            return Say(307, headers={"Location": f"{storage.url}/bucket/key?X-Amz-Signature=s3cret"})

        async with serve(pointing) as server, connected(server) as connection:
            await download(connection, "/v2/x", tmp_path / "x", sha256=SHA256)
            await download(connection, f"{storage.url}/bucket/key?X-Amz-Signature=other", tmp_path / "y")
    assert [ask.path for ask in storage.asked] == ["/bucket/key", "/bucket/key"]
    assert not [ask for ask in storage.asked if "authorization" in ask.headers]


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://user:pass@127.0.0.1/", "http://"]
)
async def test_unsafe_redirects_are_not_followed(tmp_path: Path, location: str) -> None:
    async def pointing(_: Ask) -> Say:
        return Say(302, headers={"Location": location})

    async with serve(pointing) as server, connected(server) as connection:
        with pytest.raises(ApiError):
            await download(connection, "/v2/x", tmp_path / "x")
    assert left(tmp_path) == []


async def test_redirect_loop_is_refused(tmp_path: Path) -> None:
    async def pointing(ask: Ask) -> Say:
        return Say(302, headers={"Location": ask.target})

    async with serve(pointing) as server, connected(server) as connection:
        with pytest.raises(ApiError):
            await download(connection, "/v2/x", tmp_path / "x")
        assert len(server.asked) < 20


async def test_a_presigned_address_resumes_under_a_new_signature(tmp_path: Path) -> None:
    async with serve(serve_file(CONTENT, cuts=[300_000, 0, 0, 0, 0, 0])) as server, connected(server) as connection:
        with pytest.raises(ApiConnectionError) as caught:
            await download(connection, f"{server.url}/b/k?X-Amz-Signature=s3cret1", tmp_path / "x")
        assert "s3cret1" not in str(caught.value.to_dict())
        got = await download(connection, f"{server.url}/b/k?X-Amz-Signature=s3cret2", tmp_path / "x", sha256=SHA256)
    assert got.resumed


# --- refused, unreachable, unwritable


async def test_storage_refusal_is_raised_with_its_message(tmp_path: Path) -> None:
    async def handler(_: Ask) -> Say:
        return Say(404, b'{"detail": "no replay yet"}', {"Content-Type": "application/json"})

    async with serve(handler) as server, connected(server) as connection:
        with pytest.raises(NotFound) as caught:
            await download(connection, "/v2/x", tmp_path / "x")
    assert "no replay yet" in caught.value.message
    assert left(tmp_path) == []


async def test_partial_file_is_removed_when_the_source_is_gone(tmp_path: Path) -> None:
    async with serve(serve_file(CONTENT, cuts=[300_000, 0, 0, 0, 0, 0])) as server, connected(server) as connection:
        with pytest.raises(ApiConnectionError):
            await download(connection, "/v2/x", tmp_path / "x")

        async def gone(_: Ask) -> Say:
            return Say(410)

        server.handler = gone
        with pytest.raises(ApiStatusError):
            await download(connection, "/v2/x", tmp_path / "x")
    assert left(tmp_path) == []


async def test_unreachable_server_is_reported(tmp_path: Path) -> None:
    async def never(_: Ask) -> Say:
        raise Reset

    async with serve(never) as server, connected(server) as connection:
        with pytest.raises(ApiConnectionError):
            await download(connection, "/v2/x", tmp_path / "x")
        assert len(server.asked) == connection.max_retries + 1
    assert left(tmp_path) == []


async def test_unwritable_target_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with serve(serve_file(CONTENT)) as server, connected(server) as connection:
        with pytest.raises(UsageError):
            await download(connection, "/v2/x", tmp_path)
        with pytest.raises(EnvironmentFault) as caught:
            await download(connection, "/v2/x", tmp_path / "file" / "x")
        assert caught.value.code == "not_writable"
        with pytest.raises(EnvironmentFault) as caught:
            await download(connection, "/v2/x", Path("/dev/full/x"))
    assert left(tmp_path) == ["file"]


# --- names


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/passwd", "a\\b", "a\0b", "a\nb", "x" * 300, "\ud800"])
def test_unsafe_file_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        inside(tmp_path, "cow_1", name)
    assert caught.value.code == "file_name"


def test_symlink_cannot_escape_the_directory(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    assert inside(tmp_path / "in", "cow_1", "x") == tmp_path / "in" / "cow_1" / "x"
    with pytest.raises(UsageError):
        inside(tmp_path / "in", "link", "x")


# --- many


async def test_each_continues_after_one_failure(tmp_path: Path) -> None:
    busy, most = 0, 0
    crowded = anyio.Event()

    async def handler(ask: Ask) -> Say:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        if busy == 6:
            crowded.set()
        # Nobody is answered before as many have asked as may, and those beyond them would have come in.
        await crowded.wait()
        await anyio.wait_all_tasks_blocked()
        busy -= 1
        return Say(404) if ask.path.endswith("/7") else Say(200, ask.path.encode())

    async with serve(handler) as server, connected(server) as connection:
        results = await each(
            range(40), lambda n: download(connection, f"/v2/{n}", tmp_path / f"file-{n}"), concurrency=6
        )
    assert [n for n, one in enumerate(results) if isinstance(one, CoworldError)] == [7]
    assert (tmp_path / "file-39").read_text() == "/observatory/v2/39"
    assert most == 6
    assert len(left(tmp_path)) == 39


async def test_each_raises_foreign_exceptions() -> None:
    async def broken(number: int) -> int:
        if number == 3:
            raise ZeroDivisionError
        return number

    with pytest.raises(ZeroDivisionError):
        await each(range(9), broken)
