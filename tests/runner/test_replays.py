"""Getting at replays: from everywhere, however packed, never more than they may be."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import zlib
from collections.abc import Callable, Generator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import Say, Site, site_in_thread

from coworld_core.errors import EnvironmentFault, RemoteError, UsageError
from coworld_runner.replay.replay_file import ReplayError, resolve_replay, sniff_compression
from coworld_runner.runs.scratch import scratch_root

CONTENT = b'{"frames": [' + b"1, 2, 3, " * 5000 + b"0]}"
NOISE = random.Random(7).randbytes(700_000)
MiB = 1 << 20


def stored(data: bytes) -> bytes:
    """Zlib without a wrapper of text: level 0, first bytes 78 01."""
    return zlib.compress(data, 0)


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "zlib": zlib.compress,
    "zlib-fast": lambda data: zlib.compress(data, 1),
    "zlib-best": lambda data: zlib.compress(data, 9),
    "zlib-stored": stored,
    "gzip": gzip.compress,
    "gzip-two-members": lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:]),
    "gzip-padded": lambda data: gzip.compress(data) + b"\0" * 512,
    "zlib-padded": lambda data: zlib.compress(data) + b"\0" * 9,
}


@pytest.fixture
def site() -> Generator[Site]:
    with site_in_thread(Site()) as site:
        yield site


# --- telling how it is packed


@pytest.mark.parametrize(
    ("head", "name", "expected"),
    [
        (b"\x78\x01..", "", "zlib"),
        (b"\x78\x5e..", "", "zlib"),
        (b"\x78\x9c..", "", "zlib"),
        (b"\x78\xda..", "", "zlib"),
        (b"\x78\x9d..", "", "none"),  # Checksum does not hold
        (b"\x78\xbb..", "", "none"),  # Needs a preset dictionary
        (b'x{"a', "", "none"),
        (b"\x58\x85..", "", "none"),  # A smaller window: believed only of a file in .z
        (b"\x58\x85..", "a.z", "zlib"),
        (b"\x1f\x8b\x08\x00", "", "gzip"),
        (b"\x1f\x8b\x08\xe0", "", "none"),  # Reserved flags
        (b"\x1f\x8b\x07\x00", "", "none"),  # No such method
        (b"\x1f\x8b", "", "none"),
        (b"\x78", "", "none"),
        (b"", "", "none"),
        (b"{}", "a.z", "none"),
    ],
)
def test_compression_is_recognised_by_first_bytes(head: bytes, name: str, expected: str) -> None:
    assert sniff_compression(head, name=name) == expected


@pytest.mark.parametrize("name", ["replay", "replay.z", "replay.gz", "replay.json", "replay.json.z"])
@pytest.mark.parametrize("packing", PACKED)
async def test_packed_files_are_unpacked_whatever_their_name(tmp_path: Path, packing: str, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(PACKED[packing](CONTENT))
    before = path.read_bytes()
    async with resolve_replay(path) as replay:
        assert replay.path.read_bytes() == CONTENT
        assert replay.size == len(CONTENT)
        assert replay.compression == packing.partition("-")[0]
        assert (replay.copied, replay.name) == (True, "replay")
        copy = replay.path
    assert not copy.exists()
    assert path.read_bytes() == before


TEXT = b"x^ is how some text begins"
"""Looks like a zlib stream for as long as its header."""

PLAIN = [
    ("replay", "replay", TEXT),
    ("replay.json", "replay.json", TEXT),
    ("replay", "replay", NOISE),
    ("raw.z", "raw", CONTENT),
    ("raw.z", "raw", NOISE),
    ("raw.json.gz", "raw.json", CONTENT),
    ("a b#c%20.json", "a_b_c_20.json", CONTENT),
    (".z", "replay", CONTENT),
    ("...", "replay", CONTENT),
]


@pytest.mark.parametrize(("name", "handed_over", "content"), PLAIN)
async def test_a_plain_file_is_used_where_it_is(tmp_path: Path, name: str, handed_over: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    async with resolve_replay(str(path)) as replay:
        assert (replay.path, replay.copied, replay.compression) == (path, False, "none")
        assert replay.size == len(content)
        # Games unpack by suffix, and this is not packed
        assert replay.name == handed_over
    assert path.exists()


@given(st.binary(min_size=1, max_size=300), st.sampled_from(sorted(PACKED)))
async def test_any_content_survives_packing(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, packing: str
) -> None:
    path = tmp_path_factory.mktemp("any") / "replay"
    path.write_bytes(PACKED[packing](content))
    async with resolve_replay(path) as replay:
        assert replay.path.read_bytes() == content


# --- damaged and dangerous ones


@pytest.mark.parametrize("packing", ["zlib", "gzip", "zlib-stored"])
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.999])
async def test_a_stream_that_is_cut_short_is_refused(tmp_path: Path, packing: str, kept: float) -> None:
    path = tmp_path / "replay.z"
    packed = PACKED[packing](NOISE)
    path.write_bytes(packed[: int(len(packed) * kept)])
    with pytest.raises(ReplayError) as caught:
        async with resolve_replay(path):
            pass
    assert caught.value.code == "replay_truncated"
    assert str(path) in caught.value.message


@pytest.mark.parametrize("packing", ["zlib", "gzip"])
async def test_a_damaged_stream_is_refused(tmp_path: Path, packing: str) -> None:
    packed = bytearray(PACKED[packing](NOISE))
    packed[-2] ^= 0xFF
    path = tmp_path / "replay"
    path.write_bytes(packed)
    with pytest.raises(ReplayError) as caught:
        async with resolve_replay(path):
            pass
    assert caught.value.code == "replay_damaged"


async def test_trailing_data_after_a_stream_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "replay"
    for packed in (zlib.compress(CONTENT) + b"more", gzip.compress(CONTENT) + b"more"):
        path.write_bytes(packed)
        with pytest.raises(ReplayError) as caught:
            async with resolve_replay(path):
                pass
        assert caught.value.code == "replay_damaged"


@pytest.mark.parametrize("packing", ["zlib", "gzip"])
async def test_a_bomb_is_stopped_at_the_limit(tmp_path: Path, packing: str) -> None:
    path = tmp_path / "replay"
    path.write_bytes(PACKED[packing](b"\0" * (64 * MiB)))
    copies = tmp_path / "copies"
    copies.mkdir()
    with pytest.raises(ReplayError) as caught:
        async with resolve_replay(path, directory=copies, limit=4 * MiB):
            pass
    assert caught.value.code == "replay_bomb"
    assert isinstance(caught.value.context["ratio"], int)
    assert caught.value.context["ratio"] > 500
    assert "4 MiB" in caught.value.message
    assert list(copies.iterdir()) == []


async def test_large_replay_is_not_called_a_bomb(tmp_path: Path) -> None:
    path = tmp_path / "replay"
    path.write_bytes(zlib.compress(NOISE))
    with pytest.raises(ReplayError) as caught:
        async with resolve_replay(path, limit=len(NOISE) - 1):
            pass
    assert caught.value.code == "replay_too_large"
    async with resolve_replay(path, limit=len(NOISE)) as replay:
        assert replay.size == len(NOISE)


@pytest.mark.parametrize("content", [b"", zlib.compress(b""), gzip.compress(b"")])
async def test_an_empty_replay_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "replay"
    path.write_bytes(content)
    with pytest.raises(ReplayError) as caught:
        async with resolve_replay(path):
            pass
    assert caught.value.code == "replay_empty"


async def test_unpacking_stops_when_it_is_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "replay"
    path.write_bytes(zlib.compress(b"\0" * (200 * MiB), 1))
    copies = tmp_path / "copies"
    copies.mkdir()
    entered = False

    async def unpack() -> None:
        nonlocal entered
        async with resolve_replay(path, directory=copies):
            entered = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(unpack)
        with anyio.fail_after(60):
            while not any(copies.iterdir()):
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert not entered
    assert list(copies.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """A file system with room for 64 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "coworld-test", str(place)], capture_output=True)
    if done.returncode:
        pytest.skip(f"needs the right to mount a tmpfs: {done.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


async def test_a_full_disk_is_the_machines_fault(tmp_path: Path, small_disk: Path, site: Site) -> None:
    path = tmp_path / "replay"
    path.write_bytes(zlib.compress(NOISE))
    site.on("GET", "/replay", Say(200, NOISE))
    for argument in (str(path), f"{site.url}/replay"):
        with pytest.raises(EnvironmentFault) as caught:
            async with resolve_replay(argument, directory=small_disk):
                pass
        assert caught.value.code == "disk_full"
    assert not (small_disk / "replay").exists()


async def test_failed_copy_of_a_replay_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "replay"
    path.write_bytes(zlib.compress(CONTENT))
    copies = tmp_path / "copies"
    (copies / "replay").mkdir(parents=True)
    with pytest.raises(EnvironmentFault) as caught:
        async with resolve_replay(path, directory=copies):
            pass
    assert caught.value.code == "replay_unwritable"


# --- paths


async def test_workspace_resolves_to_its_replay(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file `replay`"):
        async with resolve_replay(tmp_path):
            pass
    (tmp_path / "replay").write_bytes(CONTENT)
    async with resolve_replay(tmp_path) as replay:
        assert replay.path == tmp_path / "replay"


async def test_a_missing_replay_is_the_callers_mistake(tmp_path: Path) -> None:
    (tmp_path / "replay.json").touch()
    with pytest.raises(UsageError) as caught:
        async with resolve_replay(tmp_path / "reply.json"):
            pass
    assert caught.value.code == "path_missing"
    assert caught.value.hint == f"Did you mean {tmp_path / 'replay.json'}?"


async def test_pipe_is_refused_as_a_replay(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not a regular file"):
        async with resolve_replay(tmp_path / "pipe"):
            pass


async def test_file_addresses_and_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a b%.json").write_bytes(CONTENT)
    for argument in (f"file://{tmp_path}/a%20b%25.json", f"file://localhost{tmp_path}/a b%25.json", "~/a b%.json"):
        async with resolve_replay(argument) as replay:
            assert replay.path == tmp_path / "a b%.json"


@pytest.mark.parametrize(
    "argument", ["", "  ", "ftp://host/replay", "file://elsewhere/replay", "file://", "a\0b", "file:///a%00b"]
)
async def test_missing_replay_argument_is_refused(argument: str) -> None:
    with pytest.raises(UsageError):
        async with resolve_replay(argument):
            pass


# --- addresses


@pytest.mark.parametrize(
    ("path", "headers", "body", "compression", "name"),
    [
        ("/replay.z", {}, zlib.compress(CONTENT), "zlib", "replay"),
        ("/replay.z", {}, CONTENT, "none", "replay"),
        ("/raw", {}, gzip.compress(CONTENT), "gzip", "replay"),
        ("/e%20x.json?key=secret", {}, CONTENT, "none", "e_x.json"),
        ("/", {}, CONTENT, "none", "replay"),
        ("/a.json", {"Content-Encoding": "gzip"}, gzip.compress(CONTENT), "none", "a.json"),
        ("/a.json", {"Content-Encoding": "deflate"}, zlib.compress(CONTENT), "none", "a.json"),
        ("/a.json", {"Content-Encoding": "gzip"}, CONTENT, "none", "a.json"),
        ("/a.z", {"Content-Encoding": "gzip"}, gzip.compress(zlib.compress(CONTENT)), "zlib", "replay"),
        ("/a.json", {"Content-Encoding": "identity"}, CONTENT, "none", "a.json"),
    ],
)
async def test_a_fetched_replay(
    site: Site, path: str, headers: dict[str, str], body: bytes, compression: str, name: str
) -> None:
    site.on("GET", path, Say(200, body, headers))
    async with resolve_replay(site.url + path) as replay:
        assert replay.path.read_bytes() == CONTENT
        assert (replay.compression, replay.name, replay.copied) == (compression, name, True)
        assert replay.path.name == name
        assert [entry.name for entry in replay.path.parent.iterdir()] == [name]
        assert replay.path.is_relative_to(scratch_root())
        assert "secret" not in replay.source
        where = replay.path
    assert not where.exists()
    assert site.asked[0].headers["user-agent"].startswith("coworld-runner/")


async def test_redirects_are_followed(site: Site) -> None:
    site.on("GET", "/old", Say(302, b"", {"Location": "/new"}))
    site.on("GET", "/new", Say(301, b"", {"Location": f"{site.url}/newest"}))
    site.on("GET", "/newest", Say(200, zlib.compress(CONTENT)))
    async with resolve_replay(f"{site.url}/old") as replay:
        assert replay.path.read_bytes() == CONTENT


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://host/x", "http://", "gopher:x", "s3://bucket/key"])
async def test_redirects_lead_to_http_only(site: Site, location: str) -> None:
    site.on("GET", "/old", Say(302, b"", {"Location": location}))
    with pytest.raises(RemoteError) as caught:
        async with resolve_replay(f"{site.url}/old"):
            pass
    assert caught.value.code == "remote_redirect"


async def test_a_bomb_inside_a_transfer_encoding_is_stopped(site: Site) -> None:
    site.on("GET", "/replay", Say(200, gzip.compress(b"\0" * (64 * MiB)), {"Content-Encoding": "gzip"}))
    with pytest.raises(ReplayError) as caught:
        async with resolve_replay(f"{site.url}/replay", limit=MiB):
            pass
    assert caught.value.code == "replay_bomb"


async def test_a_bomb_in_two_layers_is_stopped(site: Site) -> None:
    bomb = zlib.compress(b"\0" * (64 * MiB))
    site.on("GET", "/replay.z", Say(200, gzip.compress(bomb), {"Content-Encoding": "gzip"}))
    with pytest.raises(ReplayError):
        async with resolve_replay(f"{site.url}/replay.z", limit=MiB):
            pass


async def test_a_foreign_encoding_is_refused(site: Site) -> None:
    site.on("GET", "/replay", Say(200, CONTENT, {"Content-Encoding": "br"}))
    with pytest.raises(RemoteError) as caught:
        async with resolve_replay(f"{site.url}/replay"):
            pass
    assert caught.value.code == "remote_encoding"


async def test_more_than_the_limit_is_not_fetched(site: Site) -> None:
    site.on("GET", "/replay", Say(200, NOISE))
    with pytest.raises(RemoteError) as caught:
        async with resolve_replay(f"{site.url}/replay", limit=1000):
            pass
    assert caught.value.code == "remote_too_large"
    assert "127.0.0.1" in caught.value.message


async def test_an_absent_replay_names_host_and_status(site: Site) -> None:
    with pytest.raises(RemoteError) as caught:
        async with resolve_replay(f"{site.url}/gone?signature=secret"):
            pass
    assert caught.value.context["status"] == 404
    assert "127.0.0.1 answered 404" in caught.value.message
    assert "secret" not in str(caught.value.to_dict())


async def test_a_body_that_ends_early_is_fetched_again_and_then_refused(site: Site) -> None:
    site.on("GET", "/replay", Say(200, NOISE[: len(NOISE) // 2], {"Content-Length": str(len(NOISE))}))
    with pytest.raises(RemoteError) as caught:
        async with resolve_replay(f"{site.url}/replay"):
            pass
    assert caught.value.code == "remote_broken"
    assert len(site.asked) == 3


# --- s3


async def test_an_s3_object_with_an_awkward_key(site: Site) -> None:
    site.on("GET", "/my-bucket/runs/a%20b%23%25%3F%2B.json.z", Say(200, zlib.compress(CONTENT)))
    environment = {"AWS_ENDPOINT_URL_S3": site.url + "/"}
    async with resolve_replay("s3://my-bucket/runs/a b#%?+.json.z", environment=environment, token="secret") as replay:
        assert replay.path.read_bytes() == CONTENT
    assert "authorization" not in site.asked[0].headers


def test_s3_addresses() -> None:
    from coworld_runner.package.locations import s3_address

    assert s3_address("s3://bucket/a/b c", None) == "https://bucket.s3.amazonaws.com/a/b%20c"
    # The wildcard certificate covers one label only
    assert s3_address("s3://dotted.bucket/k", None) == "https://s3.amazonaws.com/dotted.bucket/k"


@pytest.mark.parametrize(
    "argument",
    [
        "s3://",
        "s3://bucket",
        "s3://bucket/",
        "s3://b@evil.example/k",
        "s3://UP/k",
        "s3:///k",
        "s3://a..b/k",
        "s3://a:1/k",
    ],
)
async def test_an_s3_address_without_bucket_or_key(argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        async with resolve_replay(argument, environment={}):
            pass
    assert caught.value.code == "bad_url"
