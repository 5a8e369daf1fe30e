"""Follows a container's log: complete, in order and without repetition, however often the stream breaks."""

from __future__ import annotations

import re
from collections.abc import Callable

import anyio

from coworld_core.retries import Backoff

from ._cluster import Cluster, ClusterGone, ClusterRefused

__all__ = ["LogReader", "follow_log"]

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d) ")
_STAMP_BYTES = 40
_PIECE = 16 * 1024
"""Nodes split longer lines into pieces of this size; older nodes stamp each piece, newer ones the line."""
_PORTION = 4096
_NODE_WORDS = re.compile(
    rb"failed to try resolving symlinks in path|failed to open log file|unable to retrieve container logs for|"
    rb"rpc error: code =|Error: No such container"
)
"""Messages, without a stamp, that a node sends instead of a log that it does not have, or not yet."""
_BACKOFF = Backoff(base=0.15, cap=3.0)
_END_SECONDS = 3.0
"""How long a container's end may lag behind the end of its log."""


class _NoLogYetError(Exception):
    """The node has no log yet: a container is reported as running a moment before its log exists."""


class LogReader:
    """Strips the timestamps from a stream of lines, and drops text that an earlier stream contained.

    Args:
        write: Receives the text.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._rest = b""
        self._in_line = 0
        """Bytes of the current line so far; 0 at its beginning."""
        self._second = b""
        """The second of the newest stamp, which `_zone` completes: `2026-11-21T16:00:00` and `Z`."""
        self._zone = b"Z"
        self._seen: dict[bytes, int] = {}
        """How many pieces were written for each stamp in that second: two streams may be a little out of order."""
        self._skip: dict[bytes, int] | None = None
        """How many of those pieces a reopened stream will still repeat."""
        self._keeping = True
        self._unfinished: tuple[bytes, int] | None = None
        """Stamp of the unfinished piece, and how many of its bytes were written."""
        self._drop = 0
        """Bytes of the current piece that were written from an earlier stream."""

    @property
    def since(self) -> str | None:
        """The time from which to request the log again: the second of the newest stamp."""
        return (self._second + self._zone).decode("ascii") if self._second else None

    def reopened(self) -> None:
        """Prepare for a new stream from `since`, which repeats text that was already written."""
        self._rest = b""
        self._in_line = 0
        self._skip = dict(self._seen) if self._second else None
        self._keeping = True
        self._drop = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        # Each line copies the rest of a portion, which must therefore be small.
        for begin in range(0, len(data), _PORTION):
            self._feed(data[begin : begin + _PORTION])

    def _feed(self, data: bytes) -> None:
        self._rest += data
        while self._rest:
            if self._in_line == 0 or self._in_line % _PIECE == 0:
                match = _STAMP.match(self._rest)
                if match is None and len(self._rest) < _STAMP_BYTES and b"\n" not in self._rest:
                    return  # It may be half a stamp
                if match is not None:
                    self._begin(match[1], match[2] or b"", match[3])
                    self._rest = self._rest[match.end() :]
            room = _PIECE - self._in_line % _PIECE
            end = self._rest.find(b"\n", 0, room)
            piece = self._rest[: end + 1] if end >= 0 else self._rest[:room]
            if not piece:
                return
            self._rest = self._rest[len(piece) :]
            self._in_line = 0 if end >= 0 else self._in_line + len(piece)
            if self._keeping:
                self._keep(piece)
            if end >= 0 and self._keeping:
                self._unfinished = None

    def _keep(self, piece: bytes) -> None:
        fresh = piece[self._drop :]
        self._drop -= len(piece) - len(fresh)
        if fresh:
            if self._unfinished is not None:
                self._unfinished = (self._unfinished[0], self._unfinished[1] + len(fresh))
            self._write(fresh)

    def finish(self) -> None:
        """Write the remaining bytes after the stream has ended normally."""
        if self._rest and self._keeping:
            self._keep(self._rest)
        self._rest = b""

    def _begin(self, second: bytes, fraction: bytes, zone: bytes) -> None:
        """Begin a piece with this stamp, and decide whether it was already written."""
        self._keeping = True
        if self._skip is not None:
            if second < self._second:
                self._keeping = False
                return
            if second == self._second and self._skip.get(fraction, 0):
                self._skip[fraction] -= 1
                if not self._skip[fraction] and self._unfinished is not None and self._unfinished[0] == fraction:
                    self._drop = self._unfinished[1]
                else:
                    self._keeping = False
                return
            if second > self._second:
                self._skip = None
        if second > self._second:
            self._second, self._zone = second, zone
            self._seen.clear()
        if second == self._second:
            self._seen[fraction] = self._seen.get(fraction, 0) + 1
            self._unfinished, self._drop = (fraction, 0), 0


async def follow_log(
    cluster: Cluster,
    pod: str,
    container: str,
    write: Callable[[bytes], object],
    *,
    enough: Callable[[], bool],
    ended: anyio.Event,
) -> bool:
    """Write a container's log until the container has ended and everything is written.

    Args:
        cluster: The cluster.
        pod: Name of the pod.
        container: Name of the container; it must run, or have run.
        write: Receives the text as it arrives.
        enough: Whether the log is full, so that more text would be dropped.
        ended: Set when the container is known to have ended; a log that is missing then will not appear.

    Returns:
        Whether the log is complete.
    """
    reader = LogReader(write)
    pauses = _BACKOFF.pauses()
    failures = 0
    while True:
        over = ended.is_set()
        begun = False
        try:
            reader.reopened()
            async with cluster.stream(
                cluster.path("pods", pod, "log"),
                {"container": container, "follow": True, "timestamps": True, "sinceTime": reader.since},
            ) as chunks:
                async for data in chunks:
                    if not begun and _NODE_WORDS.match(data):
                        raise _NoLogYetError
                    begun, pauses, failures = True, _BACKOFF.pauses(), 0
                    reader.feed(data)
                    if enough():
                        return True
            # A stream ends with the container, but also when the server restarts: only a stream opened after the
            # container's end is complete
            if over:
                reader.finish()
                return True
            with anyio.move_on_after(_END_SECONDS):
                await ended.wait()
            continue
        except (ClusterRefused, _NoLogYetError) as error:
            failures += 1
            gone = isinstance(error, ClusterRefused) and error.status == 404
            if gone or (over and failures > 5):
                return False
        except ClusterGone:
            failures += 1
            if over and failures > 20:
                return False
        await anyio.sleep(next(pauses))
