"""How the hosted worker reads documents and puts what it has: against a server that fails as real ones do."""

from __future__ import annotations

import asyncio
import base64
import errno
import socket
import tracemalloc
from collections.abc import Generator
from functools import partial
from pathlib import Path

import anyio
import pytest
from support.clock import skipping
from support.fake_server import Ask, Say, serve, site_in_thread
from support.logs import logged
from support.put_server import PutServer

from coworld_core.errors import RemoteError, TransferError, UsageError
from coworld_core.retrying import Backoff, Tries
from coworld_runner.package import _sources
from coworld_runner.worker import transfer
from coworld_runner.worker.transfer import Transfers, read_document


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pauses, shorter."""
    for module in (transfer, _sources):
        monkeypatch.setattr(module, "_BACKOFF", Backoff(base=0.01, cap=0.05))


@pytest.fixture
def server() -> Generator[PutServer]:
    with site_in_thread(PutServer()) as opened:
        yield opened


async def put(uri: str, content: Path | bytes = b"hello", *, seconds: float = 30.0) -> None:
    async with Transfers() as transfers:
        await transfers.put(uri, content, content_type="text/plain", what="note", until=anyio.current_time() + seconds)


# --- putting --------------------------------------------------------------------------------------------------------


async def test_a_file_is_streamed_with_its_length_and_type(server: PutServer, tmp_path: Path) -> None:
    file = tmp_path / "big"
    file.write_bytes(b"0123456789abcdef" * 200_000)
    await put(f"{server.url}/big?signature=x", file)
    [done] = server.puts
    assert done.body == file.read_bytes()
    assert done.length == str(file.stat().st_size)
    assert done.content_type == "text/plain"


async def test_a_large_file_takes_no_memory(tmp_path: Path) -> None:
    size = 48 << 20
    with (tmp_path / "large").open("wb") as file:
        file.truncate(size)
    seen = 0

    async def swallow(ask: Ask) -> Say:
        nonlocal seen
        async for piece in ask.pieces():
            seen += len(piece)
        return Say()

    async with serve(swallow) as server:
        tracemalloc.start()
        try:
            await put(f"{server.url}/large", tmp_path / "large")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert seen == size
    assert peak < size / 4


@pytest.mark.parametrize("fault", [408, 425, 429, 500, 502, 503, 504, "503/0", "429/1", "reset"])
async def test_transient_upload_error_is_retried(server: PutServer, fault: int | str, tmp_path: Path) -> None:
    file = tmp_path / "note"
    file.write_bytes(b"whole")
    server.faults["/note"] = [fault, fault]
    with skipping():
        await put(f"{server.url}/note", file)
    assert server.kept() == {"/note": b"whole"}
    # each try sent all of it
    assert {entry.body for entry in server.puts} == {b"whole"}


async def test_a_server_that_asks_for_time_gets_it(server: PutServer) -> None:
    server.faults["/note"] = ["503/1"]
    began = anyio.current_time()
    with skipping():
        await put(f"{server.url}/note")
    assert anyio.current_time() - began >= 1.0


async def test_a_server_that_is_not_there_yet() -> None:
    received = bytearray()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.extend(await reader.readuntil(b"hello"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async def serve_when_refused() -> None:
        await told.wait()
        # until now the port was taken, but nobody listened on it
        async with await asyncio.start_server(answer, sock=taken):
            await done.wait()

    done = anyio.Event()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        async with logged("not uploaded yet") as told, anyio.create_task_group() as tasks:
            tasks.start_soon(serve_when_refused)
            await put(f"http://127.0.0.1:{taken.getsockname()[1]}/note")
            done.set()
    assert received.startswith(b"PUT /note ")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 501])
async def test_a_refusal_is_final(server: PutServer, status: int) -> None:
    server.faults["/note"] = [status]
    with pytest.raises(TransferError) as caught:
        await put(f"{server.url}/note?signature=s3cret")
    assert caught.value.code == "upload_refused"
    assert str(status) in caught.value.message
    assert "s3cret" not in repr(caught.value.to_dict())
    assert len(server.puts) == 1


@pytest.mark.parametrize("status", [409, 412])
async def test_existing_upload_counts_as_done(server: PutServer, status: int) -> None:
    server.faults["/note"] = [status]
    await put(f"{server.url}/note")
    assert [entry.status for entry in server.puts] == [status]


async def test_upload_ends_at_its_deadline(server: PutServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_BACKOFF", Backoff())
    monkeypatch.setattr(transfer, "Tries", partial(Tries, clock=anyio.current_time))
    server.faults["/note"] = [503] * 10_000
    with skipping(), pytest.raises(TransferError) as caught:
        await put(f"{server.url}/note?signature=s3cret", seconds=5)
    assert caught.value.code == "upload_failed"
    assert "503" in caught.value.message
    assert "s3cret" not in repr(caught.value.to_dict())
    assert len(server.puts) > 1


async def test_a_server_that_asks_for_more_time_than_there_is(server: PutServer) -> None:
    server.faults["/note"] = ["503/3600"]
    with pytest.raises(TransferError, match="503"):
        await put(f"{server.url}/note", seconds=5)
    assert len(server.puts) == 1


async def test_unknown_host_is_reported() -> None:
    with pytest.raises(TransferError) as caught:
        await put("http://nowhere.invalid/note?signature=s3cret", seconds=0.3)
    assert caught.value.code == "upload_failed"
    assert "s3cret" not in repr(caught.value.to_dict())


async def test_upload_without_time_left_fails(server: PutServer) -> None:
    with pytest.raises(TransferError, match="no time left"):
        await put(f"{server.url}/note", seconds=0)
    assert server.puts == []


async def test_a_post_is_never_sent_again(server: PutServer) -> None:
    server.faults["/note"] = [503]
    async with Transfers() as transfers:
        with pytest.raises(TransferError, match="answered 503"):
            await transfers.put(f"{server.url}/note", b"x", content_type="text/plain", what="note", method="POST")
    assert [put.status for put in server.puts] == [503]


@pytest.mark.parametrize("shape", ["file://{}", "{}"])
async def test_files(tmp_path: Path, shape: str) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"from a file")
    target = tmp_path / "new" / "with space" / "target"
    uri = shape.format(target).replace(" ", "%20" if shape.startswith("file") else " ")
    await put(uri, source)
    assert target.read_bytes() == b"from a file"
    await put(uri, b"again")
    assert target.read_bytes() == b"again"
    assert [path.name for path in target.parent.iterdir()] == ["target"]


async def test_a_file_that_is_mounted_by_itself_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(self: Path, target: Path) -> Path:
        raise OSError(errno.EBUSY, "Device or resource busy")

    target = tmp_path / "target"
    target.write_bytes(b"a longer one")
    monkeypatch.setattr(Path, "replace", busy)
    await put(str(target), b"again")
    assert target.read_bytes() == b"again"
    assert [path.name for path in target.parent.iterdir()] == ["target"]


async def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(TransferError) as caught:
        await put(str(tmp_path / "file" / "below"))
    assert caught.value.code == "upload_failed"


@pytest.mark.parametrize("uri", ["s3://bucket/key", "ftp://host/x", ""])
async def test_addresses_that_nothing_can_be_put_to(uri: str) -> None:
    with pytest.raises(UsageError):
        await put(uri)


# --- reading --------------------------------------------------------------------------------------------------------


async def test_documents(server: PutServer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server.documents["/spec"] = b"by http"
    server.faults["/spec"] = [503, "reset", 429, "503/0"]
    assert await read_document(f"{server.url}/spec?x", what="spec", limit=100) == b"by http"
    assert caplog.text.count("trying again") == 4
    path = tmp_path / "a spec"
    path.write_bytes(b"by path")
    assert await read_document(str(path), what="spec", limit=100) == b"by path"
    assert await read_document(path.as_uri(), what="spec", limit=100) == b"by path"
    packed = base64.b64encode(b"by data").decode()
    assert await read_document(f"data:application/json;base64,{packed}", what="spec", limit=100) == b"by data"
    assert await read_document("data:,by%20data", what="spec", limit=100) == b"by data"


async def test_missing_documents_are_reported(server: PutServer, tmp_path: Path) -> None:
    with pytest.raises(RemoteError):
        await read_document(f"{server.url}/nothing", what="spec", limit=100, patience=5)
    with pytest.raises(UsageError):
        await read_document(str(tmp_path / "nothing"), what="spec", limit=100)
    with pytest.raises(UsageError):
        await read_document("data:;base64,%%%", what="spec", limit=100)
    server.documents["/later"] = b"x"
    server.faults["/later"] = [503] * 10_000
    with pytest.raises(RemoteError):
        await read_document(f"{server.url}/later", what="spec", limit=100, patience=0)


async def test_documents_that_are_too_large(server: PutServer, tmp_path: Path) -> None:
    server.documents["/spec"] = b"x" * 101
    (tmp_path / "spec").write_bytes(b"x" * 101)
    with pytest.raises(RemoteError):
        await read_document(f"{server.url}/spec", what="spec", limit=100)
    for uri in (str(tmp_path / "spec"), "data:," + "x" * 101):
        with pytest.raises(UsageError) as caught:
            await read_document(uri, what="spec", limit=100)
        assert caught.value.code == "document_too_large"
