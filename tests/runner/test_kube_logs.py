"""Logs of containers: the stamps are taken off, and a stream that breaks goes on without loss or repetition."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coworld_runner.backends.kubernetes._pod_logs import LogReader, follow_log

PIECE = 16 * 1024


def stamped(lines: list[tuple[str, bytes]], *, since: str | None = None) -> bytes:
    """What the server sends for these lines, from that second on."""
    kept = [(stamp, text) for stamp, text in lines if since is None or stamp[:19] >= since[:19]]
    return b"".join(stamp.encode() + b" " + text for stamp, text in kept)


def stamp(second: int, fraction: str = "") -> str:
    return f"2026-11-21T16:00:{second:02d}{fraction}Z"


def test_stamps_are_taken_off() -> None:
    got: list[bytes] = []
    reader = LogReader(got.append)
    lines = [(stamp(1, ".5"), b"one\n"), (stamp(1), b"\n"), (stamp(2, ".123456789"), b"2026-11-21 three\n")]
    reader.feed(stamped(lines))
    reader.finish()
    assert b"".join(got) == b"one\n\n2026-11-21 three\n"
    assert reader.since == "2026-11-21T16:00:02Z"


def test_a_node_elsewhere_keeps_its_own_clock() -> None:
    got: list[bytes] = []
    reader = LogReader(got.append)
    reader.feed(b"2026-11-21T16:00:01.1+02:00 here\n")
    assert b"".join(got) == b"here\n"
    assert reader.since == "2026-11-21T16:00:01+02:00"


@pytest.mark.parametrize("stamp_each_piece", [True, False])
def test_long_lines_come_in_pieces(stamp_each_piece: bool) -> None:
    """Older nodes stamp each piece of a long line, newer ones its beginning alone."""
    text = bytes(random.Random(1).choices(b"abcdef 0123456789:-TZ.", k=3 * PIECE + 100)) + b"\n"
    data = b""
    for index in range(0, len(text), PIECE):
        if stamp_each_piece or not index:
            data += stamp(index // PIECE, ".25").encode() + b" "
        data += text[index : index + PIECE]
    data += stamped([(stamp(9), b"next\n")])
    got: list[bytes] = []
    reader = LogReader(got.append)
    for index in range(0, len(data), 1000):
        reader.feed(data[index : index + 1000])
    reader.finish()
    assert b"".join(got) == text + b"next\n"


def test_unfinished_last_line_is_kept() -> None:
    got: list[bytes] = []
    reader = LogReader(got.append)
    reader.feed(stamped([(stamp(1), b"a line\n"), (stamp(2), b"prompt> ")]))
    reader.finish()
    assert b"".join(got) == b"a line\nprompt> "


LINES = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["", ".1", ".2", ".000000001"]),
        st.binary(max_size=12).map(lambda text: text.replace(b"\n", b".") + b"\n"),
    ),
    max_size=30,
)


@settings(max_examples=200)
@given(lines=LINES, cuts=st.lists(st.integers(0, 400), max_size=4), step=st.integers(1, 50))
def test_log_survives_breaks_without_loss_or_repeats(
    lines: list[tuple[int, str, bytes]], cuts: list[int], step: int
) -> None:
    # Two streams of one container may be a little out of order within a second, never across more
    ordered = [(stamp(second, fraction), text) for second, fraction, text in sorted(lines, key=lambda line: line[0])]
    got: list[bytes] = []
    reader = LogReader(got.append)
    for cut in [*cuts, None]:
        reader.reopened()
        data = stamped(ordered, since=reader.since)[:cut]
        for index in range(0, len(data), step):
            reader.feed(data[index : index + step])
    reader.finish()
    assert b"".join(got) == b"".join(text for _, text in ordered)


class Server:
    """Stands for an API server: each stream has what it is told, and then ends."""

    def __init__(self, *streams: bytes, ended: anyio.Event) -> None:
        self.streams = list(streams)
        self.ended = ended

    def path(self, *parts: str) -> str:
        return "/".join(parts)

    @asynccontextmanager
    async def stream(self, _path: str, _query: dict[str, Any]) -> AsyncGenerator[AsyncIterator[bytes]]:
        async def chunks() -> AsyncIterator[bytes]:
            data = self.streams[0] if len(self.streams) == 1 else self.streams.pop(0)
            if len(self.streams) == 1:
                self.ended.set()
            if data:
                yield data

        yield chunks()


NOT_YET = (
    b'failed to try resolving symlinks in path "/var/log/pods/x/player/0.log": lstat /x: no such file or directory'
)


async def followed(*streams: bytes) -> tuple[bool, bytes]:
    got: list[bytes] = []
    ended = anyio.Event()
    server: Any = Server(*streams, ended=ended)
    whole = await follow_log(server, "pod", "main", got.append, enough=lambda: False, ended=ended)
    return whole, b"".join(got)


async def test_node_error_message_is_not_part_of_the_log() -> None:
    """A container is said to run a moment before there is a file that its log could be read from."""
    said = stamped([(stamp(1, ".5"), b"failed to try resolving symlinks in path\n")])
    assert await followed(NOT_YET, NOT_YET, said) == (True, b"failed to try resolving symlinks in path\n")


@pytest.mark.slow
async def test_a_log_that_a_node_never_has_is_not_whole() -> None:
    assert await followed(NOT_YET, NOT_YET) == (False, b"")
