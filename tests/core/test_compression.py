"""How bytes are packed, and unpacking no more of them than is allowed."""

from __future__ import annotations

import gzip
import io
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coworld_core.compression import Compression, Unpacker, detect_compression, sniff_compression
from coworld_core.errors import RemoteError


def unpack(data: bytes, compression: Compression, limit: int = 1 << 20) -> bytes:
    plain = io.BytesIO()
    unpacker = Unpacker(compression, limit=limit, what="log", source="here", error=RemoteError)
    size = unpacker.run(io.BytesIO(data).read, plain.write)
    assert size == len(plain.getvalue())
    return plain.getvalue()


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=5000), st.integers(0, 9))
def test_packed_bytes_round_trip(data: bytes, level: int) -> None:
    for packed, compression in ((zlib.compress(data, level), "zlib"), (gzip.compress(data, level), "gzip")):
        assert detect_compression(io.BytesIO(packed), name="x.z") == compression
        assert unpack(packed, compression) == data  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_classified(data: bytes) -> None:
    assert sniff_compression(data[:4]) in ("none", "zlib", "gzip")
    assert detect_compression(io.BytesIO(data)) in ("none", "zlib", "gzip")


def test_text_that_begins_like_a_stream_is_text() -> None:
    assert detect_compression(io.BytesIO(b"x^2 + y^2")) == "none"
    assert detect_compression(io.BytesIO(b"")) == "none"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (zlib.compress(bytes(10_000)), "log_bomb"),
        (zlib.compress(bytes(range(256)) * 10)[:-4], "log_too_large"),
        (zlib.compress(b"abc")[:-2], "log_truncated"),
        (zlib.compress(b"abc") + b"more", "log_damaged"),
        (b"\x78\x9c" + b"\xff" * 50, "log_damaged"),
        (zlib.compress(b""), "log_empty"),
    ],
)
def test_damaged_or_oversized_streams_are_refused(data: bytes, code: str) -> None:
    with pytest.raises(RemoteError) as caught:
        unpack(data, "zlib", limit=2000)
    assert caught.value.code == code


def test_unpacking_can_be_cancelled() -> None:
    class Stopped(Exception):
        pass

    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        Unpacker("zlib", limit=10, what="log", source="here", error=RemoteError).run(
            io.BytesIO(zlib.compress(b"x")).read, io.BytesIO().write, pause=stop
        )
