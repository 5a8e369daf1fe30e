"""Detect how data is compressed, and decompress it in pieces up to a limit.

Replays and logs are sent raw, as zlib or as gzip, and their names do not always tell which. A file from elsewhere may
be a decompression bomb, so every function that decompresses has a limit.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import IO, Literal

from ..errors import CoworldError
from ..text.size_text import shown_size

__all__ = ["Compression", "Unpacker", "detect_compression", "sniff_compression", "unpack"]

Compression = Literal["none", "zlib", "gzip"]
"""How data is compressed."""

_CHUNK = 1 << 18
_BOMB_RATIO = 200
"""Game records are repetitive, but seldom compress better than this; the maximum of deflate is about 1030."""
_ZLIB_SUFFIXES = (".z", ".zz", ".zlib")


def sniff_compression(head: bytes, *, name: str = "") -> Compression:
    """Tell from its first bytes how a file is compressed.

    Args:
        head: At least the first four bytes.
        name: The file's name. Rare zlib headers, which text could begin with, only count if it ends in `.z`.

    Returns:
        `gzip` for its magic number with method deflate; `zlib` for a header with a valid checksum and without a
        preset dictionary; else `none`.
    """
    if len(head) >= 4 and head[:3] == b"\x1f\x8b\x08" and not head[3] & 0xE0:
        return "gzip"
    if len(head) >= 2:
        method, window = head[0] & 0x0F, head[0] >> 4
        usual = head[0] == 0x78 or name.lower().endswith(".z")
        if usual and method == 8 and window <= 7 and not (head[0] << 8 | head[1]) % 31 and not head[1] & 0x20:
            return "zlib"
    return "none"


def detect_compression(file: IO[bytes], *, name: str = "") -> Compression:
    """Detect how a file is compressed. Text may begin like a zlib stream ("x^"), so that case is tried out.

    Args:
        file: The file, at its beginning; its position advances.
        name: The file's name; one that ends in `.z`, `.zz` or `.zlib` makes a zlib header sufficient.
    """
    head = file.read(1 << 16)
    compression = sniff_compression(head[:4], name=name)
    if compression == "zlib" and not name.lower().endswith(_ZLIB_SUFFIXES):
        try:
            zlib.decompressobj().decompress(head, 1 << 16)
        except zlib.error:
            return "none"
    return compression


def unpack(data: bytes, *, limit: int, what: str, source: str, error: type[CoworldError]) -> bytes:
    """Decompress data repeatedly until it is plain: a replay may have been compressed a second time in transfer.

    Args:
        data: The data; returned unchanged if it is not compressed.
        limit: Maximum size in bytes after each decompression.
        what: A noun for messages and for the prefix of codes, such as "replay".
        source: Where the data came from, for messages.
        error: The class of errors to raise.

    Raises:
        CoworldError: Of the given class, with a code as in `Unpacker.run`.
    """
    while (packing := detect_compression(io.BytesIO(data), name=source)) != "none":
        plain = io.BytesIO()
        Unpacker(packing, limit=limit, what=what, source=source, error=error).run(io.BytesIO(data).read, plain.write)
        data = plain.getvalue()
    return data


class Unpacker:
    """Decompresses one stream in bounded pieces.

    Args:
        compression: The compression: zlib or gzip.
        limit: Maximum number of bytes after decompression.
        what: A noun for messages and for the prefix of codes, such as "replay".
        source: Where the stream came from, for messages.
        error: The class of errors to raise.
    """

    def __init__(
        self, compression: Compression, *, limit: int, what: str, source: str, error: type[CoworldError]
    ) -> None:
        self._wbits = 31 if compression == "gzip" else 15
        self._compression = compression
        self._limit = limit
        self._what = what
        self._source = source
        self._error = error
        self._read_so_far = 0
        self._written = 0

    def run(
        self,
        read: Callable[[int], bytes],
        write: Callable[[bytes], object],
        *,
        pause: Callable[[], object] | None = None,
    ) -> int:
        """Decompress from one file into another.

        Args:
            read: Returns at most the given number of compressed bytes, and none at the end.
            write: Takes decompressed bytes.
            pause: Called between pieces; may raise to stop early.

        Returns:
            The number of bytes written.

        Raises:
            CoworldError: Of the given class, with one of the codes `<what>_damaged`, `<what>_truncated`,
                `<what>_empty`, `<what>_too_large` and `<what>_bomb`.
        """
        stream = zlib.decompressobj(self._wbits)
        waiting = b""
        while True:
            if pause is not None:
                pause()
            if not waiting:
                waiting = read(_CHUNK)
                self._read_so_far += len(waiting)
                if not waiting:
                    break
            if stream.eof:
                # After the end of a stream: padding, or (gzip) another member
                waiting = waiting.lstrip(b"\0")
                if not waiting:
                    continue
                if self._compression != "gzip":
                    raise self._damaged(f"{len(waiting)} bytes or more follow its end")
                stream = zlib.decompressobj(self._wbits)
            try:
                piece = stream.decompress(waiting, _CHUNK)
            except zlib.error as error:
                raise self._damaged(str(error)) from error
            waiting = stream.unused_data if stream.eof else stream.unconsumed_tail
            self._written += len(piece)
            if self._written > self._limit:
                raise self._too_large(self._read_so_far - len(waiting))
            write(piece)
        if not stream.eof:
            raise self._error(
                f"The {self._what} {self._source} is cut short: its {self._compression} stream ends after "
                f"{shown_size(self._read_so_far)} without its end mark.",
                code=f"{self._what}_truncated",
                hint="Fetch it again, or wait until it is written.",
            )
        if not self._written:
            raise self._error(
                f"The {self._what} {self._source} is empty.",
                code=f"{self._what}_empty",
                hint="The game wrote nothing, or has not finished writing.",
            )
        return self._written

    def _damaged(self, reason: str) -> CoworldError:
        return self._error(
            f"The {self._what} {self._source} is damaged: {reason} (in its {self._compression} stream, within the "
            f"first {shown_size(self._read_so_far)}).",
            code=f"{self._what}_damaged",
            hint="Fetch it again.",
        )

    def _too_large(self, consumed: int) -> CoworldError:
        ratio = self._written // max(consumed, 1)
        bomb = ratio >= _BOMB_RATIO
        return self._error(
            f"The {self._what} {self._source} unpacks to more than {shown_size(self._limit)} (its first "
            f"{shown_size(consumed)} give {ratio} times as much), so it is not opened."
            + (" Files like that are made to fill disks." if bomb else ""),
            code=f"{self._what}_{'bomb' if bomb else 'too_large'}",
            hint="Raise the limit if you trust the source.",
            context={"limit": self._limit, "ratio": ratio},
        )
