"""Reading and writing: atomic, bounded, and silent about what URIs hide."""

import gzip
import json
import os
import threading
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from paintarena.artifacts import (
    ArtifactError,
    load_replay,
    local_path,
    parse_method,
    read_bytes,
    redacted,
    unpack,
    write_bytes,
)

FRAME = {"width": 1, "height": 1, "tile_owners": [-1], "positions": [], "scores": []}


@contextmanager
def receiver(*, statuses: list[int]) -> Generator[tuple[str, list[tuple[str, str, bytes]]]]:
    """A web server that answers with the given statuses, the last one for ever, and keeps what it was sent."""
    got: list[tuple[str, str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            got.append((self.command, self.headers.get("Content-Type") or "", body))
            self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_GET = do_PUT = do_POST = answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/thing?signature=hush", got
        finally:
            server.shutdown()
            thread.join()


def test_a_file_is_written_whole_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "new dir" / "results.json"
    write_bytes(target.as_uri(), [b'{"a":', b"1}"])
    assert target.read_bytes() == b'{"a":1}'
    assert [path.name for path in target.parent.iterdir()] == ["results.json"]


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "results.json"
    target.write_bytes(b"old")

    def chunks() -> Generator[bytes]:
        yield b"ne"
        raise OSError(28, "No space left on device")

    with pytest.raises(ArtifactError, match="No space left"):
        write_bytes(str(target), chunks())
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_a_written_file_is_readable_like_any_other(tmp_path: Path) -> None:
    umask = os.umask(0o022)
    try:
        write_bytes(str(tmp_path / "replay"), [b"{}"])
    finally:
        os.umask(umask)
    assert (tmp_path / "replay").stat().st_mode & 0o777 == 0o644


def test_a_path_below_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ArtifactError, match="cannot write"):
        write_bytes(str(tmp_path / "file" / "results.json"), [b"{}"])


@pytest.mark.parametrize("uri", ["file:///a%20b/c", "/a b/c", "file://localhost/a%20b/c"])
def test_names_of_local_files(uri: str) -> None:
    assert local_path(uri) == Path("/a b/c")


@pytest.mark.parametrize("uri", ["s3://bucket/key", "ftp://host/x", "file://host/x"])
def test_other_schemes_are_refused(uri: str) -> None:
    with pytest.raises(ArtifactError):
        local_path(uri)


def test_a_redacted_address_keeps_no_secret() -> None:
    assert redacted("https://me:pass@host/path?signature=hush#x") == "https://host/path"


@pytest.mark.parametrize(("method", "expected"), [("PUT", "PUT"), ("POST", "POST")])
def test_an_upload_is_json_by_the_asked_method(method: str, expected: str) -> None:
    with receiver(statuses=[200]) as (uri, got):
        write_bytes(uri, [b'{"a"', b":1}"], method=parse_method(method, variable="X"))
    assert got == [(expected, "application/json", b'{"a":1}')]


def test_a_put_is_tried_again_when_the_server_fails() -> None:
    with receiver(statuses=[503, 200]) as (uri, got):
        write_bytes(uri, [b"{}"])
    assert len(got) == 2


@pytest.mark.parametrize(("method", "status"), [("PUT", 403), ("POST", 503)])
def test_a_refusal_is_final_and_a_post_is_never_repeated(method: str, status: int) -> None:
    with receiver(statuses=[status]) as (uri, got):
        with pytest.raises(ArtifactError, match=str(status)) as caught:
            write_bytes(uri, [b"{}"], method=parse_method(method, variable="X"))
        assert len(got) == 1
    assert "hush" not in str(caught.value)


def test_methods() -> None:
    assert parse_method(None, variable="X") == "PUT"
    assert parse_method("post", variable="X") == "POST"
    with pytest.raises(ArtifactError, match="X must be PUT or POST"):
        parse_method("PATCH", variable="X")


def test_reading_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 100)
    assert read_bytes(str(tmp_path / "big"), limit=100) == b"x" * 100
    with pytest.raises(ArtifactError, match="more than 99 bytes"):
        read_bytes(str(tmp_path / "big"), limit=99)


@pytest.mark.parametrize("uri", ["/nowhere/at/all", "http://127.0.0.1:1/x?signature=hush", "http://[/"])
def test_what_cannot_be_read_is_said_plainly(uri: str) -> None:
    with pytest.raises((ArtifactError, ValueError)) as caught:
        read_bytes(uri)
    assert isinstance(caught.value, ArtifactError)
    assert "hush" not in str(caught.value)


PLAIN = json.dumps({"frames": [FRAME] * 50}).encode()


@pytest.mark.parametrize("name", ["replay", "replay.z", "replay.gz", "replay.json.z?x=.gz"])
@pytest.mark.parametrize("pack", [bytes, zlib.compress, gzip.compress], ids=["raw", "zlib", "gzip"])
def test_the_bytes_decide_how_a_replay_is_packed(name: str, pack: type[bytes]) -> None:
    assert unpack(pack(PLAIN), name=name) == PLAIN


@pytest.mark.parametrize("pack", [zlib.compress, gzip.compress], ids=["zlib", "gzip"])
def test_a_bomb_is_defused(pack: type[bytes]) -> None:
    packed = pack(b"0" * 10_000_000)
    assert len(packed) < 20_000
    with pytest.raises(ArtifactError, match="unpacks to more than 1000000"):
        unpack(packed, name="replay.z", limit=1_000_000)


@pytest.mark.parametrize("pack", [zlib.compress, gzip.compress], ids=["zlib", "gzip"])
def test_a_cut_file_is_noticed(pack: type[bytes]) -> None:
    with pytest.raises(ArtifactError, match="cut short"):
        unpack(pack(PLAIN)[:-5], name="replay.z")


def test_a_false_suffix_is_noticed() -> None:
    with pytest.raises(ArtifactError, match="does not unpack"):
        unpack(b"certainly not zlib", name="replay.z")


def test_an_old_replay_loses_its_tokens(tmp_path: Path) -> None:
    replay = {
        "config": {"width": 1, "tokens": ["hush"]},
        "player_names": ["Ada"],
        "frames": [FRAME],
        "results": {"a": 1},
    }
    (tmp_path / "replay").write_text(json.dumps(replay))
    message = json.loads(load_replay(str(tmp_path / "replay")))
    assert message == {**replay, "type": "replay", "config": {"width": 1}}


@pytest.mark.parametrize(
    "content",
    [
        *[b"", b"not json", b"[]", b"{}", b'{"frames": 3}', b'{"frames": [1]}', b'{"frames": [{"width": 2}]}'],
        json.dumps({"frames": [{**FRAME, "tile_owners": []}]}).encode(),
    ],
)
def test_what_is_no_replay_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "replay").write_bytes(content)
    with pytest.raises(ArtifactError, match=r"not (JSON|a Paint Arena replay)"):
        load_replay(str(tmp_path / "replay"))
